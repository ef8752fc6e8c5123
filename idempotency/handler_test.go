package idempotency

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"log/slog"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

func TestSurface(t *testing.T) { overAll(t, surface) }

// unsendable ends the names of what no client of ours would send.
const unsendable = ", raw"

func surface(t *testing.T, wire string) {
	const uuid7 = "0196f5a2-5b1e-7c3d-9a4f-1d2e3f405162" // made in May 2025
	two := post("a", "x")
	two.Header.Add(headerKey, "a")
	large := post("k", strings.Repeat("x", 33))
	chunked := post("k", "")
	chunked.Body, chunked.ContentLength = io.NopCloser(strings.NewReader(strings.Repeat("x", 33))), -1
	torn := post("k", "x")
	torn.ContentLength = 2
	bounded := post("k", "xyz")
	bounded.Body = http.MaxBytesReader(nil, bounded.Body, 2)
	for _, c := range []struct {
		name    string
		config  Config
		request *http.Request
		status  int
		problem Problem
	}{
		{"11 missing", Config{}, post("", "x"), 400, problemMissing},
		{"14 two lines", Config{}, two, 400, problemMalformed},
		{"14 empty", Config{}, post("", "x", headerKey, ""), 400, problemMalformed},
		{"14 256 bytes", Config{}, post(strings.Repeat("k", 256), "x"), 400, problemMalformed},
		{"14 control byte" + unsendable, Config{}, post("a\x01b", "x"), 400, problemMalformed},
		{"14 not ASCII", Config{}, post("clé", "x"), 400, problemMalformed},
		{"14 unbalanced quote", Config{}, post(`"abc`, "x"), 400, problemMalformed},
		{"14 joined by a proxy", Config{}, post(`abc, abc`, "x"), 400, problemMalformed},
		{"14 aliases that differ", Config{Headers: []string{headerKey, "x-key"}}, post("a", "x", "X-Key", "b"), 400, problemMalformed},
		{"44 an old UUID", Config{RejectExpired: true}, post(uuid7, "x"), 400, problemKeyExpired},
		{"body over the limit", Config{MaxRequestBody: 32}, large, 413, problemBodyTooLarge},
		{"body of unknown length over the limit", Config{MaxRequestBody: 32}, chunked, 413, problemBodyTooLarge},
		{"body over the limit of a layer outside" + unsendable, Config{}, bounded, 413, problemBodyTooLarge},
		{"body that ends early" + unsendable, Config{}, torn, 400, problemBodyUnread},
	} {
		t.Run(c.name, func(t *testing.T) {
			if wire != "" && strings.HasSuffix(c.name, unsendable) {
				t.Skip("clients don't send it")
			}
			r := newRig(t, c.config, answer(200, "done")).over(wire)
			r.wantProblem(r.send(c.request), c.status, c.problem)
			r.wantRuns(0)
			if n := r.store.begun.Load(); n != 0 {
				t.Errorf("the store was called %d times", n)
			}
		})
	}
}

func TestAccepted(t *testing.T) { overAll(t, accepted) }

func accepted(t *testing.T, wire string) {
	alias := Config{Headers: []string{headerKey, "X-Key"}}
	for _, c := range []struct {
		name          string
		config        Config
		first, second *http.Request
	}{
		{"2 the same again", Config{}, post("k", "x"), post("k", "x")},
		{"13 quoted and bare", Config{}, post(`"abc"`, "x"), post(`abc`, "x")},
		{"15 255 bytes", Config{}, post(strings.Repeat("k", 255), "x"), post(strings.Repeat("k", 255), "x")},
		{"aliases that agree", alias, post("a", "x", "X-Key", `"a"`), post("", "x", "X-Key", "a")},
		{"no body", Config{}, post("k", ""), post("k", "")},
		{"tracing differs", Config{}, post("k", "x", "Traceparent", "1"), post("k", "x", "Traceparent", "2", "Cookie", "c")},
		{"9 members in another order", Config{Canonical: CanonicalJSON},
			post("k", `{"a":1,"b":[true,"\u0041"]}`, "Content-Type", "application/json"),
			post("k", ` {"b": [true, "A"], "a":1}`, "Content-Type", "application/json; charset=utf-8")},
		{"10 another boundary", Config{Canonical: CanonicalMultipart}, form("one"), form("two")},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, c.config, answer(201, "done")).over(wire)
			first := r.send(c.first)
			r.wantReplay(first, r.send(c.second))
			r.wantRuns(1)
			if first.Code != 201 || first.Header().Get(headerKey) == "" {
				t.Errorf("first: %d %v", first.Code, first.Header())
			}
		})
	}
}

// A Content-Length may be that of the packed body although a layer outside has unpacked it: the
// body is read to its end, within the bound. A shorter body ended early.
func TestLengthThatIsNotTheBodys(t *testing.T) {
	for _, c := range []struct {
		said   int64
		body   string
		status int
	}{{2, "unpacked", 200}, {8, "unpacked", 200}, {9, "unpacked", 400}, {2, "0123456789abcdef", 200}, {2, "0123456789abcdef0", 413}, {-1, "0123456789abcdef", 200}, {-1, "0123456789abcdef0", 413}} {
		for way, wrap := range map[string]func(io.Reader) io.Reader{"as it is": func(r io.Reader) io.Reader { return r }, "byte by byte": iotest.OneByteReader, "end with the bytes": iotest.DataErrReader} {
			r := newRig(t, Config{MaxRequestBody: 16}, func(w http.ResponseWriter, r *http.Request) {
				if body, err := io.ReadAll(r.Body); string(body) != c.body || err != nil || r.ContentLength != int64(len(c.body)) {
					t.Errorf("%d %q %s: the handler got %q of %d, %v", c.said, c.body, way, body, r.ContentLength, err)
				}
			})
			req := post("k", "")
			req.Body, req.ContentLength = io.NopCloser(wrap(strings.NewReader(c.body))), c.said
			if w := r.send(req); w.Code != c.status {
				t.Errorf("%d %q %s: %d %s", c.said, c.body, way, w.Code, w.Body)
			}
		}
	}
}

func form(boundary string) *http.Request {
	var body bytes.Buffer
	w := multipart.NewWriter(&body)
	w.SetBoundary(boundary)
	w.WriteField("amount", "12")
	w.Close()
	return post("k", body.String(), "Content-Type", w.FormDataContentType())
}

func TestMismatch(t *testing.T) { overAll(t, mismatch) } // 6, 8, 9, 10

func mismatch(t *testing.T, wire string) {
	put, path, query := post("k", "x"), post("k", "x"), post("k", "x")
	put.Method = http.MethodPatch
	path.URL.Path = "/refunds"
	query.URL.RawQuery = "a=2"
	for _, c := range []struct {
		name          string
		config        Config
		first, second *http.Request
	}{
		{"6 other body", Config{}, post("k", "x"), post("k", "y")},
		{"8 other method", Config{}, post("k", "x"), put},
		{"8 other path", Config{}, post("k", "x"), path},
		{"8 other query", Config{}, post("k", "x"), query},
		{"other media type", Config{}, post("k", "x"), post("k", "x", "Content-Type", "text/plain")},
		{"other API version", Config{FingerprintHeaders: []string{"api-version"}}, post("k", "x", "Api-Version", "1"), post("k", "x", "Api-Version", "2")},
		{"9 members in another order, raw", Config{}, post("k", `{"a":1,"b":2}`), post("k", `{"b":2,"a":1}`)},
		{"9 a name twice is not canonical", Config{Canonical: CanonicalJSON},
			post("k", `{"a":1,"a":2}`, "Content-Type", "application/json"), post("k", `{"a":2}`, "Content-Type", "application/json")},
		{"9 large integers differ", Config{Canonical: CanonicalJSON},
			post("k", `9007199254740993`, "Content-Type", "application/json"), post("k", `9007199254740992`, "Content-Type", "application/json")},
		{"10 another boundary, raw", Config{}, form("one"), form("two")},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, c.config, answer(201, "done")).over(wire)
			r.send(c.first)
			before, _ := r.record("k").MarshalBinary()
			r.wantProblem(r.send(c.second), 422, problemMismatch)
			r.wantRuns(1)
			if after, _ := r.record("k").MarshalBinary(); !bytes.Equal(before, after) {
				t.Error("42 a mismatch changed the record")
			}
		})
	}
}

func TestPassesThrough(t *testing.T) { overAll(t, passesThrough) }

func passesThrough(t *testing.T, wire string) {
	for _, method := range []string{"GET", "HEAD", "PUT", "DELETE"} { // 16
		r := newRig(t, Config{}, answer(200, "")).over(wire)
		req := httptest.NewRequest(method, "/", nil)
		req.Header.Set(headerKey, "k")
		if got := r.send(req).Header().Get(headerStatus); got != "ignored" {
			t.Errorf("%s: status %q", method, got)
		}
		r.send(req)
		r.wantRuns(2)
	}
	r := newRig(t, Config{Optional: true}, answer(200, "")).over(wire) // 12
	r.send(post("", "x"))
	r.send(post("", "x"))
	r.wantRuns(2)
	if n := r.store.begun.Load(); n != 0 {
		t.Errorf("the store was called %d times", n)
	}
}

func TestTenantsNeverMeet(t *testing.T) { // 17
	r := newRig(t, Config{}, func(w http.ResponseWriter, req *http.Request) { io.WriteString(w, req.Header.Get("Tenant")) })
	a, b := r.send(post("k", "x", "Tenant", "a")), r.send(post("k", "other", "Tenant", "b"))
	if a.Body.String() != "a" || b.Body.String() != "b" || b.Header().Get(headerReplayed) != "" {
		t.Errorf("a got %q, b got %q", a.Body, b.Body)
	}
	r.wantRuns(2)
}

func TestConstruction(t *testing.T) { // 18
	store, next := NewMemoryStore(0, 0), http.NotFoundHandler()
	for name, make := range map[string]func() (*Handler, error){
		"no scope": func() (*Handler, error) { return New(nil, store, next, Config{}) },
		"no store": func() (*Handler, error) { return New(Global, nil, next, Config{}) },
		"no next":  func() (*Handler, error) { return New(Global, store, nil, Config{}) },
		"tx without a store": func() (*Handler, error) {
			return New(Global, store, next, Config{RunnerConfig: RunnerConfig{Guarantee: GuaranteeTx}})
		},
		"a negative lease": func() (*Handler, error) {
			return New(Global, store, next, Config{RunnerConfig: RunnerConfig{Lease: -1}})
		},
		"an odd status":    func() (*Handler, error) { return New(Global, store, next, Config{MismatchStatus: 200}) },
		"a cookie to keep": func() (*Handler, error) { return New(Global, store, next, Config{KeepHeaders: []string{"set-cookie"}}) },
		"an age to keep":   func() (*Handler, error) { return New(Global, store, next, Config{KeepHeaders: []string{"age"}}) },
		"no header at all": func() (*Handler, error) { return New(Global, store, next, Config{Headers: []string{}, Optional: true}) },
		"a header unnamed": func() (*Handler, error) {
			return New(Global, store, next, Config{Headers: []string{""}, Optional: true})
		},
		"no such header": func() (*Handler, error) {
			return New(Global, store, next, Config{Headers: []string{"Idempotency Key"}})
		},
		"the host": func() (*Handler, error) {
			return New(Global, store, next, Config{FingerprintHeaders: []string{"Api-Version", "host"}})
		},
	} {
		if h, err := make(); err == nil || h != nil {
			t.Errorf("%s: %v, %v", name, h, err)
		}
	}
	h, _ := New(func(*http.Request) string { return "" }, store, next, Config{})
	r := &rig{T: t, h: h}
	r.wantProblem(r.send(post("k", "x")), 500, problemNoScope)
}

func TestNegativeBoundsAreNamed(t *testing.T) {
	err := Config{MaxRequestBody: -1, MaxStreamedBody: -2, MaxResponseBody: -3, RunnerConfig: RunnerConfig{Waiters: -4, WaitersPerKey: -5}}.Validate()
	for _, want := range []string{"max request body: -1 is negative", "max streamed body: -2 is negative",
		"max response body: -3 is negative", "waiters: -4 is negative", "waiters per key: -5 is negative"} {
		if err == nil || !strings.Contains(err.Error(), want+"\n") && !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

func TestRevokedCallerGetsNoReplay(t *testing.T) { // 19: the order of layers
	r := newRig(t, Config{}, answer(200, "secret"))
	allowed := true
	guarded := http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if !allowed {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		r.h.ServeHTTP(w, req)
	})
	guarded.ServeHTTP(httptest.NewRecorder(), post("k", "x"))
	allowed = false
	w := httptest.NewRecorder()
	guarded.ServeHTTP(w, post("k", "x"))
	if w.Code != 401 || w.Body.Len() > 0 {
		t.Errorf("%d %q", w.Code, w.Body)
	}
}

func TestWhatIsReplayed(t *testing.T) { overAll(t, whatIsReplayed) }

func whatIsReplayed(t *testing.T, wire string) {
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	z.Write([]byte("hello"))
	z.Close()
	for _, c := range []struct {
		name string
		work http.HandlerFunc
		want map[string]string // of the replay; empty means absent
	}{
		{"20 201 with Location", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "/1")
			answer(201, "{}")(w, nil)
		}, map[string]string{"Location": "/1"}},
		{"21 204 has no content type", answer(204, ""), map[string]string{"Content-Type": ""}},
		{"22 400", answer(400, "bad"), nil},
		{"22 404", answer(404, ""), nil},
		{"22 409", answer(409, "conflict"), map[string]string{"Retry-After": ""}},
		{"22 422", answer(422, "no"), nil},
		{"27 writes nothing", func(http.ResponseWriter, *http.Request) {}, nil},
		{"28 what belongs to the moment", func(w http.ResponseWriter, _ *http.Request) {
			for _, name := range []string{"Set-Cookie", "Date", "X-Request-Id", "Access-Control-Allow-Origin", "Etag", "Vary", "Custom", "Language"} {
				w.Header().Set(name, "x")
			}
			w.Header().Set("Connection", "close, Vary")
		}, map[string]string{"Set-Cookie": "", "Date": "", "X-Request-Id": "", "Access-Control-Allow-Origin": "", "Vary": "", "Custom": "", "Etag": "x", "Language": "x", "Connection": ""}},
		{"29 gzip", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			w.Write(packed.Bytes())
		}, map[string]string{"Content-Encoding": "gzip"}},
		{"the type that was guessed", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "<html>") },
			map[string]string{"Content-Type": "text/html; charset=utf-8"}},
		{"headers set after the first byte are not part of it", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(200)
			w.Header().Set("ETag", "late")
		}, map[string]string{"Etag": ""}},
		{"the word that no type is to be guessed", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "<html>", http.StatusTeapot) },
			map[string]string{"Content-Type": "text/plain; charset=utf-8", "X-Content-Type-Options": "nosniff"}},
		{"the methods that a 405 must name", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Allow", "GET")
			answer(405, "")(w, nil)
		}, map[string]string{"Allow": "GET"}},
		{"24 a 500 under hold", answer(500, "oops"), nil},
		{"23 a 429 under hold", answer(429, "later"), nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, Config{KeepHeaders: []string{"Language"}}, c.work).over(wire)
			first := r.send(post("k", "x"))
			second := r.send(post("k", "x"))
			r.wantReplay(first, second)
			r.wantRuns(1)
			for name, want := range c.want {
				if got := second.Header().Get(name); got != want && (name != "Date" || got == "x") { // the server's own is right
					t.Errorf("%s: %q, want %q", name, got, want)
				}
			}
			if first.Header().Get("Set-Cookie") != "" && r.seen.count(eventCookieDropped) != 1 {
				t.Error("a dropped cookie was not told")
			}
		})
	}
}

// Values of several lines stay several lines.
func TestLinesAreNotJoined(t *testing.T) { overAll(t, linesAreNotJoined) }

func linesAreNotJoined(t *testing.T, wire string) {
	r := newRig(t, Config{}, func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["Vary"] = []string{"A, B", "C"}
		w.WriteHeader(200)
	}).over(wire)
	r.send(post("k", "x"))
	if got := r.send(post("k", "x")).Header()["Vary"]; len(got) != 2 || got[0] != "A, B" || got[1] != "C" {
		t.Errorf("%q", got)
	}
}

func TestOutcomes(t *testing.T) { overAll(t, allOutcomes) }

func allOutcomes(t *testing.T, wire string) {
	noEffect := func(status int) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			NoEffect(r.Context())
			w.WriteHeader(status)
		}
	}
	later := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(503)
	}
	for _, c := range []struct {
		name      string
		guarantee Guarantee
		work      http.HandlerFunc
		runs      int64 // after two requests
		state     State
	}{
		{"23 429, reexecute", GuaranteeReexecute, answer(429, ""), 2, StateRetryable},
		{"23 429, hold", GuaranteeHold, answer(429, ""), 1, StateDone},
		{"23 429 without effect, hold", GuaranteeHold, noEffect(429), 2, StateRetryable},
		{"408, reexecute", GuaranteeReexecute, answer(408, ""), 2, StateRetryable},
		{"24 500, hold", GuaranteeHold, answer(500, ""), 1, StateDone},
		{"24 500, reexecute", GuaranteeReexecute, answer(500, ""), 2, StateRetryable},
		{"25 500 without effect, hold", GuaranteeHold, noEffect(500), 2, StateRetryable},
		{"503 with Retry-After, hold", GuaranteeHold, later, 1, StateDone},
		{"503 with Retry-After, reexecute", GuaranteeReexecute, later, 2, StateRetryable},
		{"200 without effect, hold", GuaranteeHold, noEffect(200), 1, StateDone},
		{"404, reexecute", GuaranteeReexecute, answer(404, ""), 1, StateDone},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, Config{RunnerConfig: RunnerConfig{Guarantee: c.guarantee}}, c.work).over(wire)
			first := r.send(post("k", "x"))
			if second := r.send(post("k", "x")); first.Code != second.Code {
				t.Errorf("first %d, second %d", first.Code, second.Code)
			}
			r.wantRuns(c.runs)
			if got := r.record("k").State; got != c.state {
				t.Errorf("the record is %v, want %v", got, c.state)
			}
		})
	}
}

func TestPanic(t *testing.T) { // 26
	for _, c := range []struct {
		guarantee Guarantee
		noEffect  bool
		runs      int64
		state     State
	}{{GuaranteeHold, false, 1, StateUnknown}, {GuaranteeHold, true, 2, StateRetryable}, {GuaranteeReexecute, false, 1, StateRunning}} {
		r := newRig(t, Config{RunnerConfig: RunnerConfig{Guarantee: c.guarantee}}, nil)
		r.work = func(_ http.ResponseWriter, req *http.Request) {
			if c.noEffect {
				NoEffect(req.Context())
			}
			panic("boom")
		}
		if c.guarantee == GuaranteeReexecute {
			c.runs, c.state = 2, StateRetryable
		}
		for range 2 {
			func() {
				defer func() {
					if p := recover(); p != nil && p != "boom" {
						t.Errorf("panic %v", p)
					}
				}()
				w := r.send(post("k", "x"))
				r.wantProblem(w, 409, problemUnknown)
			}()
		}
		r.wantRuns(c.runs)
		if got := r.record("k").State; got != c.state {
			t.Errorf("%v: the record is %v, want %v", c.guarantee, got, c.state)
		}
	}
}

func TestBodyAtTheLimit(t *testing.T) { overAll(t, bodyAtTheLimit) } // 31

func bodyAtTheLimit(t *testing.T, wire string) {
	for _, size := range []int{64, 65, 640} {
		r := newRig(t, Config{MaxResponseBody: 64}, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "/1")
			for range size {
				w.Write([]byte("x"))
			}
		}).over(wire)
		first := r.send(post("k", "x"))
		if first.Body.Len() != size {
			t.Errorf("the client got %d bytes of %d", first.Body.Len(), size)
		}
		second := r.send(post("k", "x"))
		if size == 64 {
			r.wantReplay(first, second)
		} else {
			r.wantProblem(second, 409, problemNotRetained)
			if b := second.Body.String(); !strings.Contains(b, `"original_status":200`) || !strings.Contains(b, `"location":"/1"`) {
				t.Errorf("problem: %s", b)
			}
		}
		r.wantRuns(1)
	}
}

// What the store finds too large is done all the same.
func TestStoreKeepsLess(t *testing.T) {
	r := newRig(t, Config{}, answer(200, "0123456789"))
	r.store.maxValue = 5
	if got := r.send(post("k", "x")).Body.String(); got != "0123456789" {
		t.Errorf("the client got %q", got)
	}
	r.wantProblem(r.send(post("k", "x")), 409, problemNotRetained)
	r.wantRuns(1)
}

func TestStoreDownAtBegin(t *testing.T) { // 40
	r := newRig(t, Config{}, answer(200, "done"))
	r.store.fail(&r.store.begin, errDown)
	r.wantProblem(r.send(post("k", "x")), 503, problemStoreUnavailable)
	r.wantRuns(0)

	for _, err := range []error{ErrFull, errDown} {
		r = newRig(t, Config{FailOpen: true}, answer(200, "done"))
		r.store.fail(&r.store.begin, err)
		if w := r.send(post("k", "x")); w.Code != 200 || w.Header().Get(headerStatus) != "not-recorded" {
			t.Errorf("fail open: %d %v", w.Code, w.Header())
		}
		if r.seen.count(eventFailedOpen) != 1 {
			t.Error("failing open was not told")
		}
	}
	// There is a record: it may be of work that was done.
	r = newRig(t, Config{FailOpen: true}, answer(200, "done"))
	r.store.fail(&r.store.begin, ErrUnreadable)
	r.wantProblem(r.send(post("k", "x")), 503, problemRecordUnreadable)
	r.wantRuns(0)
}

func TestLogsHoldNoSecrets(t *testing.T) { // 50
	var text bytes.Buffer
	r := newRig(t, Config{}, answer(500, "secretbody"))
	log := LogTo(newLog(&text))
	r.send(post("secretkey", "secretbody"))
	r.send(post("secretkey", "other"))
	r.store.fail(&r.store.begin, errDown)
	r.send(post("secretkey", "secretbody"))
	for _, n := range r.seen.all {
		log.Observe(context.Background(), n)
	}
	id := IDOf("t/", "secretkey").String()
	if s := text.String(); strings.Contains(s, "secret") || strings.Count(s, id) < 5 {
		t.Errorf("log:\n%s", s)
	}
}

func TestContextOfARun(t *testing.T) { // 64
	keys := map[string]bool{}
	tokens := []int64{}
	r := newRig(t, Config{RunnerConfig: RunnerConfig{Guarantee: GuaranteeReexecute}}, func(w http.ResponseWriter, req *http.Request) {
		ctx, cancel := context.WithTimeout(req.Context(), time.Second) // from below, too
		defer cancel()
		tokens = append(tokens, Token(ctx))
		for _, step := range []string{"capture", "refund"} {
			key := StepKey(ctx, step)
			if again := StepKey(ctx, step); again != key || len(key) != 64 || strings.Contains(key, "k") {
				t.Errorf("keys %q and %q", key, again)
			}
			keys[req.Header.Get("Tenant")+key] = true
			keys[key] = true
		}
		w.WriteHeader(503)
	})
	for range 2 {
		r.send(post("k", "x", "Tenant", "a"))
	}
	r.send(post("k", "x", "Tenant", "b"))
	if len(keys) != 8 { // four keys, each with and without its tenant
		t.Errorf("%d keys: %v", len(keys), keys)
	}
	if len(tokens) != 3 || tokens[0] >= tokens[1] {
		t.Errorf("tokens %v", tokens)
	}
	if Token(t.Context()) != 0 || StepKey(t.Context(), "x") != "" {
		t.Error("there is no run here")
	}
}

func TestPhases(t *testing.T) {
	charged, mailed := 0, 0
	r := newRig(t, Config{RunnerConfig: RunnerConfig{Guarantee: GuaranteeReexecute}}, func(w http.ResponseWriter, req *http.Request) {
		id, err := Phase(req.Context(), "charge", func(context.Context) ([]byte, error) { charged++; return []byte("ch_1"), nil })
		if err != nil || string(id) != "ch_1" {
			t.Errorf("phase: %q, %v", id, err)
		}
		_, err = Phase(req.Context(), "mail", func(context.Context) ([]byte, error) {
			mailed++
			if mailed == 1 {
				return nil, errDown
			}
			return nil, nil
		})
		if err != nil {
			w.WriteHeader(503)
		}
	})
	r.send(post("k", "x"))
	if got := r.send(post("k", "x")).Code; got != 200 || charged != 1 || mailed != 2 {
		t.Errorf("%d: charged %d times, mailed %d times", got, charged, mailed)
	}
	// A run whose point is not stored must stop.
	r = newRig(t, Config{}, func(w http.ResponseWriter, req *http.Request) {
		r.store.fail(&r.store.apply, errDown)
		if _, err := Phase(req.Context(), "p", func(context.Context) ([]byte, error) { return nil, nil }); err == nil {
			t.Error("the lost point was not told")
		}
		r.store.fail(&r.store.apply, nil)
	})
	r.send(post("k", "x"))
}

func TestGoexitIsAPanic(t *testing.T) { // 26
	r := newRig(t, Config{}, func(http.ResponseWriter, *http.Request) { runtime.Goexit() })
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.send(post("k", "x"))
	}()
	<-done
	r.wantProblem(r.send(post("k", "x")), 409, problemUnknown)
	r.wantRuns(1)
}

func TestFullStore(t *testing.T) {
	r := newRig(t, Config{}, answer(200, ""))
	r.store.fail(&r.store.begin, ErrFull)
	r.wantProblem(r.send(post("k", "x")), 503, problemStoreUnavailable)
	r.wantRuns(0)
	if n := r.store.begun.Load(); n != 1 {
		t.Errorf("a store that said no was asked %d times", n)
	}
}

func TestMismatchStatus(t *testing.T) {
	r := newRig(t, Config{MismatchStatus: 409}, answer(200, ""))
	r.send(post("k", "x"))
	r.wantProblem(r.send(post("k", "y")), 409, problemMismatch)
}

type angry struct{}

func (angry) Observe(context.Context, Event) { panic("observer") }

func TestObserverThatPanics(t *testing.T) {
	h, err := New(Global, NewMemoryStore(0, 0), answer(200, "done"), Config{RunnerConfig: RunnerConfig{Observer: angry{}}})
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{T: t, h: h}
	r.wantReplay(r.send(post("k", "x")), r.send(post("k", "x")))
}

func TestAmbiguousJSONStaysAsItIs(t *testing.T) { // 9
	r := post("k", "", "Content-Type", "application/vnd.api+json")
	for _, body := range []string{`{"a":1,"a":2}`, `{"a":"\ud800"}`, "{\"a\":\"\xff\"}", `{"a":1} {}`, `{"a":`, strings.Repeat("[", 300) + strings.Repeat("]", 300)} {
		if got := string(CanonicalJSON(r, []byte(body))); got != body {
			t.Errorf("%q became %q", body, got)
		}
	}
}

// If the guarantee needs a durable store and the settings are not durable, New warns: in the log
// if there is no observer.
func TestUnsafeStoreIsToldAtTheStart(t *testing.T) {
	store := warned{NewMemoryStore(0, 0)}
	var heard observed
	if _, err := New(Global, store, answer(200, "done"), Config{RunnerConfig: RunnerConfig{Observer: &heard}}); err != nil {
		t.Fatal(err)
	}
	if n := heard.all; len(n) != 1 || n[0].Kind != eventStoreUnsafe || n[0].Err.Error() != "fsync is off" {
		t.Errorf("told %+v", n)
	}
	var text bytes.Buffer
	old := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&text, nil)))
	defer slog.SetDefault(old)
	if _, err := New(Global, store, answer(200, "done"), Config{}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(text.String(), "level=WARN") || !strings.Contains(text.String(), "fsync is off") {
		t.Errorf("logged %q", text.String())
	}
}

// New warns of a store that forgets, too, whatever the guarantee.
func TestForgetfulStoreIsToldAtTheStart(t *testing.T) {
	for _, g := range []Guarantee{GuaranteeHold, GuaranteeReexecute} {
		var heard observed
		if _, err := New(Global, NewMemoryStore(0, 0), answer(200, "done"), Config{RunnerConfig: RunnerConfig{Guarantee: g, Observer: &heard}}); err != nil {
			t.Fatal(err)
		}
		if n := heard.all; len(n) != 1 || n[0].Kind != eventStoreUnsafe || !strings.Contains(n[0].Err.Error(), "not durable") {
			t.Errorf("%v: told %+v", g, n)
		}
	}
	var heard observed
	if _, err := New(Global, durable{NewMemoryStore(0, 0)}, answer(200, "done"), Config{RunnerConfig: RunnerConfig{Observer: &heard}}); err != nil || len(heard.all) != 0 {
		t.Errorf("told %+v, %v", heard.all, err)
	}
}

type durable struct{ Store }

func (durable) Caps() Caps { return Caps{Durable: true} }

type warned struct{ Store }

func (warned) Caps() Caps { return Caps{Warnings: []string{"fsync is off"}} }
