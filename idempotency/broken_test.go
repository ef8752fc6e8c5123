package idempotency

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
)

// says is work that declares a length and writes something else.
func says(length int, parts ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", strconv.Itoa(length))
		w.Header().Set("ETag", `"of the whole"`)
		for _, p := range parts {
			if p == "flush" {
				w.(http.Flusher).Flush()
				continue
			}
			io.WriteString(w, p)
		}
	}
}

// with sets the status first.
func with(status int, work http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		work(&lateStatus{ResponseWriter: w, status: status}, r)
	}
}

type lateStatus struct {
	http.ResponseWriter
	status int
}

func (l *lateStatus) Write(p []byte) (int, error) {
	if l.status != 0 {
		l.WriteHeader(l.status)
		l.status = 0
	}
	return l.ResponseWriter.Write(p)
}

// Half an answer is never replayed as a whole one: its run is as good as lost.
func TestHalfAnAnswerIsNotKept(t *testing.T) { overWires(t, halfAnAnswerIsNotKept) }

func halfAnAnswerIsNotKept(t *testing.T, wire string) {
	half := says(10, "half ")
	big := strings.Repeat("x", 20_000)
	for _, c := range []struct {
		name      string
		guarantee Guarantee
		work      http.HandlerFunc
		first     int  // status
		whole     bool // the first answer came to its end
		state     State
		second    int
		runs      int64
	}{
		{"hold", GuaranteeHold, half, 409, true, StateUnknown, 409, 1},
		{"hold, an error", GuaranteeHold, with(404, half), 409, true, StateUnknown, 409, 1},
		{"hold, nothing of it", GuaranteeHold, says(10), 409, true, StateUnknown, 409, 1},
		{"hold, without effect", GuaranteeHold, declares(NoEffect, half), 500, true, StateRetryable, 500, 2},
		{"hold, on its way", GuaranteeHold, says(10, "half ", "flush"), 200, false, StateUnknown, 409, 1},
		{"hold, more than is kept", GuaranteeHold, says(30_000, big), 200, false, StateUnknown, 409, 1},
		{"hold, more at once than was said", GuaranteeHold, says(5, "more than that"), 409, true, StateUnknown, 409, 1},
		{"hold, more than was said, but the whole before", GuaranteeHold, says(5, "whole", " and more"), 200, true, StateDone, 200, 1},
		{"hold, no length that is one", GuaranteeHold, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "ten")
			io.WriteString(w, "half ")
		}, 200, true, StateDone, 200, 1},
		{"reexecute", GuaranteeReexecute, half, 200, false, StateRetryable, 200, 2},
		{"reexecute, an error", GuaranteeReexecute, with(404, half), 404, false, StateRetryable, 404, 2},
		{"reexecute, on its way", GuaranteeReexecute, says(10, "half ", "flush"), 200, false, StateRetryable, 200, 2},
		{"reexecute, more than is kept", GuaranteeReexecute, says(30_000, big), 200, false, StateRetryable, 200, 2},
		{"tx", GuaranteeTx, half, 500, true, StateAbsent, 500, 2},
		{"tx, an error", GuaranteeTx, with(404, half), 500, true, StateAbsent, 500, 2},
		{"tx, an error with effects", GuaranteeTx, declares(CommitError, with(404, half)), 500, true, StateAbsent, 500, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			u := newUploads(t, wire, Config{RunnerConfig: RunnerConfig{Guarantee: c.guarantee}, MaxResponseBody: 2048}, c.work)
			first, err := u.wire.fetch(u.wire.request(post("k", "x")))
			if first.Code != c.first || (err == nil) != c.whole {
				t.Errorf("first %d %s, %v", first.Code, first.Body, err)
			}
			if c.first >= 400 && c.whole && first.Header().Get("ETag") != "" {
				t.Errorf("the refusal has a header of the answer: %v", first.Header())
			}
			if got := u.state(); got != c.state {
				t.Errorf("the record is %v, want %v", got, c.state)
			}
			second, err := u.wire.fetch(u.wire.request(post("k", "x")))
			if second.Code != c.second || c.state == StateDone && second.Body.String() != first.Body.String() {
				t.Errorf("second %d %s, %v", second.Code, second.Body, err)
			}
			u.wantRuns(c.runs)
		})
	}
}

// A client that goes in the middle of an answer that is too large to be kept does not
// make its run a lost one: the handler failed to write because of it.
func TestClientThatGoesBreaksNoAnswer(t *testing.T) {
	for _, g := range []Guarantee{GuaranteeHold, GuaranteeReexecute} {
		r := newRig(t, Config{RunnerConfig: RunnerConfig{Guarantee: g}, MaxResponseBody: 8}, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "30")
			for range 3 {
				if _, err := io.WriteString(w, "ten bytes "); err != nil {
					return
				}
			}
		})
		r.h.ServeHTTP(&goneClient{ResponseRecorder: httptest.NewRecorder()}, post("k", "x"))
		if got := r.record("k"); got.State != StateDone || !got.Result.Omitted {
			t.Errorf("%v: the record is %v", g, got.State)
		}
	}
}

type goneClient struct{ *httptest.ResponseRecorder }

func (*goneClient) Write([]byte) (int, error) { return 0, errors.New("the client is gone") }

// A server that answers a panic outside does not send the Content-Length of the answer that was
// not sent.
func TestPanicLeavesNoLengthBehind(t *testing.T) {
	for _, g := range []Guarantee{GuaranteeHold, GuaranteeReexecute} {
		r := newRig(t, Config{RunnerConfig: RunnerConfig{Guarantee: g}}, func(w http.ResponseWriter, req *http.Request) {
			says(10, "half ")(w, req)
			panic("broken")
		})
		w := httptest.NewRecorder()
		func() {
			defer func() {
				if recover() == nil {
					t.Error("the panic was swallowed")
				}
				w.WriteHeader(500)
				io.WriteString(w, "something broke")
			}()
			r.h.ServeHTTP(w, post("k", "x"))
		}()
		for _, name := range []string{"Content-Length", "ETag"} {
			if got := w.Header().Get(name); got != "" {
				t.Errorf("%v: %s %s of an answer that was not sent", g, name, got)
			}
		}
		if w.Body.String() != "something broke" {
			t.Errorf("%v: %s", g, w.Body)
		}
	}
}

// A replay says its length, however long it is, so that a client of HTTP/1.0 sees when
// it is cut off.
func TestReplaysSayTheirLength(t *testing.T) {
	for _, protocol := range []string{"HTTP/1.0", "HTTP/1.1"} {
		for _, size := range []int{0, 5, 2047, 2049, 100_000} {
			for _, said := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, %d bytes, said %v", protocol, size, said), func(t *testing.T) {
					r := newRig(t, Config{}, func(w http.ResponseWriter, _ *http.Request) {
						if said {
							w.Header().Set("Content-Length", strconv.Itoa(size))
						}
						io.WriteString(w, strings.Repeat("x", size))
					}).over(http1)
					for _, again := range []bool{false, true} {
						got := r.wire.raw("POST / " + protocol + "\r\nHost: x\r\nIdempotency-Key: k\r\nContent-Length: 1\r\n\r\nx")
						if got.Header.Get(headerReplayed) != "" != again || len(got.body) != size {
							t.Errorf("again %v: %v with %d bytes", again, got.Header, len(got.body))
						}
						if (again || said) && got.ContentLength != int64(size) {
							t.Errorf("again %v: its length is said to be %d", again, got.ContentLength)
						}
					}
				})
			}
		}
	}
}

type rawAnswer struct {
	*http.Response
	body []byte
}

// raw sends a request as it is written.
func (w *wire) raw(request string) rawAnswer {
	w.Helper()
	conn, err := net.Dial("tcp", w.Listener.Addr().String())
	if err != nil {
		w.Fatal(err)
	}
	defer conn.Close()
	io.WriteString(conn, request)
	method, _, _ := strings.Cut(request, " ")
	resp, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: method})
	if err != nil {
		w.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		w.Error(err)
	}
	return rawAnswer{resp, body}
}

// Answers without a body keep what they say of one: those to HEAD the length, those that
// can have none nothing.
func TestReplaysWithoutABody(t *testing.T) { overWires(t, replaysWithoutABody) }

func replaysWithoutABody(t *testing.T, wire string) {
	long := strings.Repeat("x", 5000)
	for _, c := range []struct {
		name, method string
		config       Config
		work         http.HandlerFunc
		status       int
		length       string
	}{
		{"HEAD, a length and no body", "HEAD", Config{}, says(5000), 200, "5000"},
		{"HEAD, a length and the body", "HEAD", Config{}, says(5000, long), 200, "5000"},
		{"HEAD, a body of which nothing is kept", "HEAD", Config{MaxResponseBody: 10}, says(5000, long), 200, "5000"},
		{"HEAD, a body and no length", "HEAD", Config{}, answer(200, long), 200, "5000"},
		{"HEAD, nothing", "HEAD", Config{}, func(http.ResponseWriter, *http.Request) {}, 200, ""},
		{"204", "POST", Config{}, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) }, 204, ""},
		{"304", "POST", Config{}, func(w http.ResponseWriter, _ *http.Request) {
			if wire == http1 { // over HTTP/2 net/http's client waits for what is said
				w.Header().Set("Content-Length", "10")
			}
			w.WriteHeader(304)
			if _, err := io.WriteString(w, "x"); err != http.ErrBodyNotAllowed {
				t.Errorf("writing to a 304: %v", err)
			}
		}, 304, ""},
	} {
		for _, g := range []Guarantee{GuaranteeHold, GuaranteeTx} {
			t.Run(fmt.Sprint(c.name, ", ", g), func(t *testing.T) {
				c.config.Methods, c.config.Guarantee = []string{"HEAD", "POST"}, g
				u := newUploads(t, wire, c.config, c.work)
				for _, again := range []bool{false, true} {
					req := post("k", "")
					req.Method = c.method
					req.Body, req.ContentLength = nil, 0
					w := u.send(req)
					if w.Code != c.status || (w.Header().Get(headerReplayed) != "") != again {
						t.Errorf("again %v: %d %v", again, w.Code, w.Header())
					}
					if got := w.Header().Get("Content-Length"); got != c.length && c.status != 304 {
						t.Errorf("again %v: length %q, want %q", again, got, c.length)
					}
				}
				u.wantRuns(1)
			})
		}
	}
}

// Trailers need an end that is not counted (RFC 9112, section 7.1.2): where they can be
// sent no length is said.
func TestReplaysWithTrailers(t *testing.T) {
	r := newRig(t, Config{}, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Trailer", "Sum")
		io.WriteString(w, strings.Repeat("x", 3000))
		w.Header().Set("Sum", "1")
	}).over(http1)
	for _, c := range []struct {
		protocol string
		length   int64
		sum      string
	}{{"HTTP/1.1", -1, "1"}, {"HTTP/1.1", -1, "1"}, {"HTTP/1.0", 3000, ""}} {
		got := r.wire.raw("POST / " + c.protocol + "\r\nHost: x\r\nIdempotency-Key: k\r\nContent-Length: 1\r\n\r\nx")
		if got.ContentLength != c.length || got.Trailer.Get("Sum") != c.sum || !bytes.Equal(got.body, bytes.Repeat([]byte("x"), 3000)) {
			t.Errorf("%s: length %d, trailer %v, %d bytes", c.protocol, got.ContentLength, got.Trailer, len(got.body))
		}
	}
	r.wantRuns(1)
}
