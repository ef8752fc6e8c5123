package idempotency

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

// A record knows nothing of the protocol that it came by.
func TestRecordsOfOneProtocolAreReplayedOverAnother(t *testing.T) {
	for _, first := range []string{http1, http2, h2c} {
		for _, second := range []string{http1, http2, h2c} {
			t.Run(first+", then "+second, func(t *testing.T) {
				r := newRig(t, Config{KeepHeaders: []string{"X-Kept", "X-Hop"}}, func(w http.ResponseWriter, _ *http.Request) {
					for name, value := range map[string]string{
						"Connection": "keep-alive, X-Hop", "Keep-Alive": "timeout=9", "Proxy-Connection": "keep-alive", "X-Hop": "1", "Upgrade": "x",
						"Location": "/1", "X-Kept": "yes", "Set-Cookie": "a=b", "Date": "x", "Age": "9", "Trailer": "Sum",
					} {
						w.Header().Set(name, value)
					}
					w.Header()["Link"] = []string{"</a>; rel=a", "</b>; rel=b"}
					w.WriteHeader(201)
					io.WriteString(w, strings.Repeat("body ", 2000))
					w.Header().Set("Sum", "7")
				})
				ways := []*wire{serveOver(t, first, r.h), serveOver(t, second, r.h)}
				for n, way := range ways {
					resp, err := way.client.Do(way.request(post("k", "x")))
					if err != nil {
						t.Fatal(err)
					}
					defer resp.Body.Close()
					body, err := io.ReadAll(resp.Body)
					head := resp.Header
					if err != nil || resp.StatusCode != 201 || len(body) != 10_000 || resp.Trailer.Get("Sum") != "7" || head.Get("Sum") != "" {
						t.Errorf("answer %d: %d, %d bytes, trailer %v, %v", n, resp.StatusCode, len(body), resp.Trailer, err)
					}
					if head.Get("Location") != "/1" || head.Get("X-Kept") != "yes" || len(head["Link"]) != 2 {
						t.Errorf("answer %d: %v", n, head)
					}
					if (head.Get(headerReplayed) == "true") != (n == 1) {
						t.Errorf("answer %d is a replay: %v", n, head)
					}
					if n == 0 {
						continue
					}
					for _, name := range []string{"Connection", "Keep-Alive", "Proxy-Connection", "X-Hop", "Upgrade", "Set-Cookie", "Age"} {
						if head[name] != nil {
							t.Errorf("the replay has %s: %q", name, head[name])
						}
					}
					if date, err := http.ParseTime(head.Get("Date")); err != nil || time.Since(date) > time.Hour {
						t.Errorf("the replay's date is %q", head.Get("Date"))
					}
				}
				r.wantRuns(1)
			})
		}
	}
}

// A duplicate learns of a run over another protocol.
func TestDuplicateOverAnotherProtocol(t *testing.T) {
	running, proceed := make(chan struct{}), make(chan struct{})
	r := newRig(t, Config{}, func(w http.ResponseWriter, _ *http.Request) {
		close(running)
		<-proceed
		io.WriteString(w, "done")
	})
	one, two := serveOver(t, http1, r.h), serveOver(t, http2, r.h)
	ended := make(chan struct{})
	go func() { one.do(one.request(post("k", "x"))); close(ended) }()
	<-running
	r.wantProblem(two.do(two.request(post("k", "x"))), 409, problemInProgress)
	r.wantProblem(two.do(two.request(post("k", "y"))), 422, problemMismatch)
	close(proceed)
	<-ended
	if w := two.do(two.request(post("k", "x"))); w.Body.String() != "done" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	r.wantRuns(1)
}

// A client that goes in the middle of a body asked for nothing yet.
func TestClientGoesWhileItSends(t *testing.T) { overWires(t, clientGoesWhileItSends) }

func clientGoesWhileItSends(t *testing.T, wire string) {
	for _, length := range []int64{100, -1} {
		r := newRig(t, Config{}, answer(201, "done")).over(wire)
		torn := post("k", "")
		torn.Body = io.NopCloser(io.MultiReader(strings.NewReader("x"), iotest.ErrReader(errors.New("torn"))))
		torn.ContentLength = length
		if w, err := r.wire.fetch(r.wire.request(torn)); err == nil {
			t.Errorf("answer %d %s", w.Code, w.Body)
		}
		r.wire.Close()
		if n := r.store.begun.Load(); n != 0 {
			t.Errorf("the store was called %d times", n)
		}
		r.wantRuns(0)
	}
}

// A client that goes while the work is done changes nothing: it will ask again. Over
// HTTP/2 its stream is reset.
func TestClientGoesWhileTheHandlerRuns(t *testing.T) { overWires(t, clientGoesWhileTheHandlerRuns) } // 34

func clientGoesWhileTheHandlerRuns(t *testing.T, wire string) {
	for _, g := range []Guarantee{GuaranteeHold, GuaranteeReexecute, GuaranteeTx} {
		ctx, leave := context.WithCancel(t.Context())
		gone := make(chan struct{})
		u := newUploads(t, "", Config{RunnerConfig: RunnerConfig{Guarantee: g}}, func(w http.ResponseWriter, r *http.Request) {
			leave()
			<-gone
			if err := r.Context().Err(); err != nil {
				t.Errorf("%v: the run's context ended: %v", g, err)
			}
			w.WriteHeader(201)
			io.WriteString(w, "done")
		})
		way := serveOver(t, wire, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			context.AfterFunc(r.Context(), func() { close(gone) })
			u.h.ServeHTTP(w, r)
		}))
		if w, err := way.fetch(way.request(post("k", "x")).WithContext(ctx)); err == nil {
			t.Errorf("%v: answer %d", g, w.Code)
		}
		way.Close()
		if w := u.send(post("k", "x")); w.Code != 201 || w.Body.String() != "done" || w.Header().Get(headerReplayed) != "true" {
			t.Errorf("%v: then %d %s", g, w.Code, w.Body)
		}
		u.wantRuns(1)
	}
}

// A digest in a trailer comes after the claim, and is not looked at (RFC 9530 allows both).
func TestDigestInATrailer(t *testing.T) { overWires(t, digestInATrailer) }

func digestInATrailer(t *testing.T, wire string) {
	for _, c := range []struct {
		name, body, digest string
		status             int
	}{
		{"large", large, sum256(large), 413},
		{"small", "x", sum256("x"), 201},
		{"small, of another body", "x", sum256("y"), 201},
	} {
		u := newUploads(t, wire, Config{}, answer(201, "done"))
		r := post("k", "")
		r.Body, r.ContentLength = io.NopCloser(unknownLength(c.body)), -1
		req := u.wire.request(r)
		req.Trailer = http.Header{headerDigest: {c.digest}}
		if w := u.wire.do(req); w.Code != c.status {
			t.Errorf("%s: %d %s", c.name, w.Code, w.Body)
		}
	}
}

// What a client says after its body reaches the handler.
func TestTrailersOfRequests(t *testing.T) { overWires(t, trailersOfRequests) }

func trailersOfRequests(t *testing.T, wire string) {
	for _, body := range []string{"small", large} {
		for _, length := range []int64{-1, int64(len(body))} {
			if length > 0 && wire == http1 {
				continue // has trailers after chunks alone
			}
			u := newUploads(t, wire, Config{}, func(w http.ResponseWriter, r *http.Request) {
				io.Copy(io.Discard, r.Body)
				if got := r.Trailer.Get("Sum"); got != "7" {
					t.Errorf("%d bytes, length %d: trailer %q", len(body), length, r.Trailer)
				}
			})
			r := post("k", "", headerDigest, sum256(body))
			r.Body, r.ContentLength = io.NopCloser(unknownLength(body)), length
			req := u.wire.request(r)
			req.Trailer = http.Header{"Sum": {"7"}}
			if w := u.wire.do(req); w.Code != 200 {
				t.Errorf("%d %s", w.Code, w.Body)
			}
		}
	}
}

// Informational responses pass, and are not repeated.
func TestEarlyHints(t *testing.T) { overWires(t, earlyHints) }

func earlyHints(t *testing.T, wire string) {
	for _, g := range []Guarantee{GuaranteeHold, GuaranteeTx} {
		u := newUploads(t, wire, Config{RunnerConfig: RunnerConfig{Guarantee: g}}, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Link", "</a.css>; rel=preload")
			w.WriteHeader(http.StatusEarlyHints)
			w.Header().Del("Link")
			w.WriteHeader(201)
		})
		for n, want := range []int{map[Guarantee]int{GuaranteeHold: 1, GuaranteeTx: 0}[g], 0} {
			hints := 0
			ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
				if code != 103 || h.Get("Link") == "" {
					t.Errorf("%d %v", code, h)
				}
				hints++
				return nil
			}})
			w := u.wire.do(u.wire.request(post("k", "x")).WithContext(ctx))
			if w.Code != 201 || hints != want || w.Header().Get("Link") != "" {
				t.Errorf("%v, answer %d: %d after %d hints, %v", g, n, w.Code, hints, w.Header())
			}
		}
		u.wantRuns(1)
	}
}

// Answers without a body, and to HEAD where that takes a key.
func TestAnswersWithoutABody(t *testing.T) { overWires(t, answersWithoutABody) }

func answersWithoutABody(t *testing.T, wire string) {
	for _, c := range []struct {
		method string
		status int
		body   string
		want   string
	}{{"POST", 200, "", ""}, {"POST", 204, "", ""}, {"POST", 204, "none is allowed", ""}, {"POST", 304, "", ""}, {"HEAD", 200, "left out", ""}, {"HEAD", 404, "", ""}} {
		r := newRig(t, Config{Methods: []string{"POST", "HEAD"}}, answer(c.status, c.body)).over(wire)
		var heads []http.Header
		for n := range 2 {
			req := post("k", "")
			req.Method = c.method
			w := r.send(req)
			if w.Code != c.status || w.Body.String() != c.want || (w.Header().Get(headerReplayed) != "") != (n == 1) {
				t.Errorf("%s %d, answer %d: %d %q %v", c.method, c.status, n, w.Code, w.Body, w.Header())
			}
			heads = append(heads, w.Header())
		}
		for _, name := range []string{"Content-Length", "Content-Type", "Transfer-Encoding"} {
			if a, b := heads[0].Get(name), heads[1].Get(name); a != b {
				t.Errorf("%s %d %q: %s was %q and is %q", c.method, c.status, c.body, name, a, b)
			}
		}
		r.wantRuns(1)
	}
}

// What a handler may ask of its connection.
func TestResponseController(t *testing.T) { overWires(t, responseController) }

func responseController(t *testing.T, wire string) {
	for _, g := range []Guarantee{GuaranteeHold, GuaranteeTx} {
		u := newUploads(t, wire, Config{RunnerConfig: RunnerConfig{Guarantee: g}}, func(w http.ResponseWriter, _ *http.Request) {
			c := http.NewResponseController(w)
			for name, err := range map[string]error{
				"SetReadDeadline":  c.SetReadDeadline(time.Now().Add(time.Minute)),
				"SetWriteDeadline": c.SetWriteDeadline(time.Now().Add(time.Minute)),
				"EnableFullDuplex": c.EnableFullDuplex(),
				"Flush":            c.Flush(),
			} {
				if err != nil {
					t.Errorf("%v: %s: %v", g, name, err)
				}
			}
			if wire == http1 && g == GuaranteeHold {
				return
			}
			if conn, _, err := c.Hijack(); conn != nil || !errors.Is(err, http.ErrNotSupported) {
				t.Errorf("%v: Hijack: %v", g, err)
			}
			io.WriteString(w, "done without")
		})
		first := u.send(post("k", "x"))
		u.wantReplay(first, u.send(post("k", "x")))
		u.wantRuns(1)
	}
}
