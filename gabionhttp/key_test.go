package gabionhttp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/gabionhttp"
	"github.com/gabion-go/gabion/gabiontest"
	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/policy"
)

// The numbers are those of the conformance list for idempotency keys.

// wire notes the key and body of every request, and answers by script: a status for
// each request, the last for all that follow. 0 loses the answer.
type wire struct {
	mu     sync.Mutex
	script []int
	seen   []string
}

func (w *wire) RoundTrip(req *http.Request) (*http.Response, error) {
	text := ""
	if req.Body != nil {
		all, _ := io.ReadAll(req.Body)
		text = string(all)
		req.Body.Close()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen = append(w.seen, strings.Join(req.Header[gabionhttp.HeaderKey], "|")+" "+text)
	code := w.script[min(len(w.seen), len(w.script))-1]
	if code == 0 {
		return nil, io.ErrUnexpectedEOF
	}
	return answer(req, code, ""), nil
}

func (w *wire) arrived() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]string(nil), w.seen...)
}

// keyedPost is a POST with a key of the caller's.
func keyedPost(t testing.TB, url, key, body string) *http.Request {
	req := request(t, "POST", url, body)
	if key != "" {
		req.Header.Set(gabionhttp.HeaderKey, key)
	}
	return req
}

func TestKey52_EveryAttemptHasTheSameKeyAndBody(t *testing.T) {
	long := strings.Repeat("charge ", 5000)
	for name, code := range map[string]int{"refused": 503, "lost": 0} {
		for _, body := range []string{"", "charge", long} {
			t.Run(fmt.Sprint(name, " ", len(body)), func(t *testing.T) {
				w := &wire{script: []int{code}}
				c, _ := client(t, eager(), w)
				resp, err := c.Do(keyedPost(t, "http://shop", "order-7", body))
				if err == nil {
					read(t, resp)
				}
				seen := w.arrived()
				if len(seen) != 3 {
					t.Fatalf("%d requests", len(seen))
				}
				for _, s := range seen {
					if s != "order-7 "+body {
						t.Errorf("arrived %.40q of %d", s, len(s))
					}
				}
			})
		}
	}
}

func TestKey53_EqualPayloadsAreTwoOperations(t *testing.T) {
	w := &wire{script: []int{503, 200}}
	c, _ := client(t, with(eager(), func(p *policy.Policy) { p.Key = policy.KeyMade }), w)
	for range 2 {
		resp, err := c.Do(request(t, "POST", "http://shop", "charge"))
		if err != nil {
			t.Fatal(err)
		}
		read(t, resp)
	}
	seen := w.arrived()
	if len(seen) != 3 || seen[0] != seen[1] || seen[1] == seen[2] || strings.HasPrefix(seen[2], " ") {
		t.Errorf("arrived %q", seen)
	}
}

func TestKey55_KeysAreSentAsTheyAreOrNotAtAll(t *testing.T) {
	tests := []struct {
		name string
		keys map[string][]string
		want string // what arrives; "" is nothing
	}{
		{"bare", map[string][]string{"Idempotency-Key": {"order-7"}}, "order-7"},
		{"quoted", map[string][]string{"Idempotency-Key": {`"order-7"`}}, `"order-7"`},
		{"255", map[string][]string{"Idempotency-Key": {strings.Repeat("k", 255)}}, strings.Repeat("k", 255)},
		{"by both names", map[string][]string{"Idempotency-Key": {"k"}, "X-Idempotency-Key": {"k"}}, "k"},
		{"two lines", map[string][]string{"Idempotency-Key": {"k", "k"}}, ""},
		{"two that differ", map[string][]string{"Idempotency-Key": {"k"}, "X-Idempotency-Key": {"l"}}, ""},
		{"empty", map[string][]string{"Idempotency-Key": {""}}, ""},
		{"empty by the other name", map[string][]string{"X-Idempotency-Key": {""}}, ""},
		{"256", map[string][]string{"Idempotency-Key": {strings.Repeat("k", 256)}}, ""},
		{"a blank", map[string][]string{"Idempotency-Key": {"order 7"}}, ""},
		{"a control character", map[string][]string{"Idempotency-Key": {"k\x01"}}, ""},
		{"not ASCII", map[string][]string{"Idempotency-Key": {"ordre-é"}}, ""},
		{"half a quote", map[string][]string{"Idempotency-Key": {`"k`}}, ""},
		{"quoted and empty", map[string][]string{"Idempotency-Key": {`""`}}, ""},
		{"256 by the other name", map[string][]string{"X-Idempotency-Key": {strings.Repeat("k", 256)}}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := &wire{script: []int{200}}
			c, d := client(t, with(eager(), func(p *policy.Policy) { p.Key = policy.KeyMade }), w)
			body := &watchedBody{Reader: strings.NewReader("charge")}
			req := request(t, "POST", "http://shop", "")
			req.Body, req.ContentLength = body, 6
			for name, values := range tt.keys {
				req.Header[name] = values
			}
			resp, err := c.Transport.RoundTrip(req)
			if err == nil {
				read(t, resp)
			}
			seen := w.arrived()
			if tt.want != "" {
				if err != nil || len(seen) != 1 || seen[0] != tt.want+" charge" {
					t.Errorf("arrived %q, %v", seen, err)
				}
				return
			}
			if len(seen) != 0 || !errors.Is(err, policy.Invalid) || !errors.Is(err, gabion.KeyMalformed) || gabion.EffectOf(err) != policy.NoEffect {
				t.Errorf("arrived %q, %v", seen, err)
			}
			if body.closed.Load() != 1 {
				t.Errorf("body closed %d times", body.closed.Load())
			}
			gabiontest.NothingHeld(t, d)
		})
	}
}

func TestKey56_WithoutAKeyNothingInDoubtIsRepeated(t *testing.T) {
	for _, method := range []string{"POST", "PATCH"} {
		for name, code := range map[string]int{"answered": 503, "lost": 0, "timed out": -1} {
			synctest.Test(t, func(t *testing.T) {
				n := 0
				rt := roundTripper(func(req *http.Request) (*http.Response, error) {
					n++
					if code == -1 {
						<-req.Context().Done()
						return nil, req.Context().Err()
					}
					return (&wire{script: []int{code}}).RoundTrip(req)
				})
				c, _ := client(t, with(eager(), func(p *policy.Policy) { p.Timeout.Attempt = time.Second }), rt)
				resp, err := c.Do(request(t, method, "http://shop", "charge"))
				if err == nil {
					err = gabionhttp.Verdict(resp)
					read(t, resp)
				}
				if n != 1 || !errors.Is(err, policy.NotSafe) || gabion.EffectOf(err) != policy.UnknownEffect {
					t.Errorf("%s %s: %d requests, %v", method, name, n, err)
				}
			})
		}
	}
	t.Run("but what was never sent is", func(t *testing.T) {
		var events gabiontest.Recorder
		c, _ := client(t, eager(), base(t, nil), gabion.WithObserver(&events))
		_, err := c.Do(request(t, "POST", "http://"+deserted(t), "charge"))
		events.WantAttempts(t, 3)
		if gabion.EffectOf(err) != policy.NoEffect {
			t.Error(err)
		}
	})
}

func TestKey57_SafeMethodsNeedNoKey(t *testing.T) {
	for _, method := range []string{"GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"} {
		w := &wire{script: []int{0, 503, 200}}
		c, _ := client(t, eager(), w)
		resp, err := c.Do(request(t, method, "http://shop", ""))
		if err != nil {
			t.Fatal(err)
		}
		read(t, resp)
		if seen := w.arrived(); len(seen) != 3 || resp.StatusCode != 200 || seen[0] != " " {
			t.Errorf("%s: arrived %q", method, seen)
		}
	}
}

// provider is a server that keeps keys: what the tests below call with all that a
// client can meet.
func provider(t testing.TB, config idempotency.Config, work http.HandlerFunc) http.Handler {
	t.Helper()
	h, err := idempotency.New(idempotency.Global, idempotency.NewMemoryStore(0, 0), work, config)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// within calls a handler without a network, as a bubble must, and counts. A handler
// that panics loses its answer.
func within(h http.Handler, n *atomic.Int32) http.RoundTripper {
	return roundTripper(func(req *http.Request) (resp *http.Response, err error) {
		n.Add(1)
		defer func() {
			if recover() != nil {
				resp, err = nil, io.ErrUnexpectedEOF
			}
		}()
		w := httptest.NewRecorder()
		in := req.Clone(req.Context())
		if in.Body == nil {
			in.Body = http.NoBody
		}
		h.ServeHTTP(w, in)
		resp = w.Result()
		resp.Request = req
		return resp, nil
	})
}

func TestKey58_InProgressIsWaitedForWithTheSameKey(t *testing.T) {
	const problem = `{"type":"urn:gabion:idempotency:in-progress"}`
	tests := []struct {
		name   string
		header []string
		body   string
		least  time.Duration
	}{
		{"a status and a time", []string{"Retry-After", "2"}, "", 2 * time.Second},
		{"a problem and a time", []string{"Retry-After", "2", "Content-Type", "application/problem+json"}, problem, 2 * time.Second},
		{"a problem and no time", []string{"Content-Type", "application/problem+json"}, problem, 0},
		{"Stripe's", []string{"Content-Type", "application/json"}, `{"error":{"code":"idempotency_key_in_use"}}`, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var keys []string
				rt := roundTripper(func(req *http.Request) (*http.Response, error) {
					if keys = append(keys, req.Header.Get(gabionhttp.HeaderKey)); len(keys) == 1 {
						return answer(req, 409, tt.body, tt.header...), nil
					}
					return answer(req, 201, "ch_1"), nil
				})
				c, d := client(t, policy.Policy{}, rt)
				start := time.Now()
				resp, err := c.Do(keyedPost(t, "http://shop", "k", "charge"))
				if err != nil {
					t.Fatal(err)
				}
				if got := read(t, resp); got != "ch_1" || len(keys) != 2 || keys[0] != "k" || keys[1] != "k" {
					t.Errorf("%q after %q", got, keys)
				}
				if took := time.Since(start); took < tt.least {
					t.Errorf("came back after %v", took)
				}
				if sent := d.Stats().Budget.Sent; sent != 1 {
					t.Errorf("budget charged with %d", sent)
				}
			})
		})
	}
	t.Run("from the handler itself", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var ran, sent atomic.Int32
			h := provider(t, idempotency.Config{}, func(w http.ResponseWriter, r *http.Request) {
				ran.Add(1)
				time.Sleep(3 * time.Second)
				io.WriteString(w, "ch_1")
			})
			go within(h, new(atomic.Int32)).RoundTrip(keyedPost(t, "http://shop", "k", "charge"))
			synctest.Wait()
			c, _ := client(t, policy.Policy{}, within(h, &sent))
			resp, err := c.Do(keyedPost(t, "http://shop", "k", "charge"))
			if err != nil {
				t.Fatal(err)
			}
			if got := read(t, resp); got != "ch_1" || ran.Load() != 1 || sent.Load() != 2 {
				t.Errorf("%q, run %d times, %d requests", got, ran.Load(), sent.Load())
			}
		})
	})
	t.Run("within the budget", func(t *testing.T) {
		w := roundTripper(func(req *http.Request) (*http.Response, error) { return answer(req, 409, "", "Retry-After", "1"), nil })
		c, _ := client(t, policy.Policy{Retry: policy.Retry{Budget: policy.Budget{Ratio: policy.Off, Floor: policy.Off}}}, w)
		resp, err := c.Do(keyedPost(t, "http://shop", "k", "charge"))
		if err != nil {
			t.Fatal(err)
		}
		v := gabionhttp.Verdict(resp)
		if read(t, resp); v.Reason != policy.BudgetExhausted || v.Attempts != 1 || v.Effect != policy.UnknownEffect {
			t.Errorf("ended with %v", v)
		}
	})
}

// What the server's own handler refuses for good ends the call: one request, the
// answer as it was, and a typed error.
func TestKey59_60_RefusalsOfAKeyAreFinal(t *testing.T) {
	old := "018bcfe5-6800-7000-8000-000000000000" // 14 November 2023
	charge := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", "/charges/1")
		w.WriteHeader(http.StatusCreated)
		io.WriteString(w, "0123456789")
	}
	tests := []struct {
		name   string
		key    string
		config idempotency.Config
		work   http.HandlerFunc
		first  string // the body of a request before, if there was one
		status int
		want   gabion.KeyProblem
	}{
		{"59 the first run was lost", "k", idempotency.Config{}, func(http.ResponseWriter, *http.Request) { panic("lost") }, "charge", 409, gabion.KeyOutcomeUnknown},
		{"59 the answer was not kept", "k", idempotency.Config{MaxResponseBody: 4}, charge, "charge", 409, gabion.KeyAnswerNotKept},
		{"60 another request's key", "k", idempotency.Config{}, charge, "other", 422, gabion.KeyReused},
		{"60 another request's key, as a 409", "k", idempotency.Config{MismatchStatus: 409}, charge, "other", 409, gabion.KeyReused},
		{"60 another request's key, as a 400", "k", idempotency.Config{MismatchStatus: 400}, charge, "other", 400, gabion.KeyReused},
		{"63 the server forgot the key", old, idempotency.Config{RejectExpired: true}, charge, "", 400, gabion.KeyExpired},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var sent atomic.Int32
			h := provider(t, tt.config, tt.work)
			if tt.first != "" {
				if resp, err := within(h, new(atomic.Int32)).RoundTrip(keyedPost(t, "http://shop", tt.key, tt.first)); err == nil {
					read(t, resp)
				}
			}
			c, d := client(t, with(eager(), func(p *policy.Policy) { p.HTTP.Transient = []int{400, 409, 422} }), within(h, &sent))
			resp, err := c.Do(keyedPost(t, "http://shop", tt.key, "charge"))
			if err != nil {
				t.Fatal(err)
			}
			v, text := gabionhttp.Verdict(resp), read(t, resp)
			if sent.Load() != 1 || resp.StatusCode != tt.status || !strings.Contains(text, `"type":"urn:gabion:idempotency:`) {
				t.Errorf("%d requests, %d %s", sent.Load(), resp.StatusCode, text)
			}
			if v == nil || v.Reason != policy.NotRetryable || v.Effect != policy.UnknownEffect || !errors.Is(v, tt.want) {
				t.Fatalf("ended with %v", v)
			}
			e, ok := errors.AsType[*gabionhttp.KeyError](v)
			if !ok || e.Status != tt.status || (e.Location == "/charges/1") != (tt.want == gabion.KeyAnswerNotKept) ||
				(e.OriginalStatus == 201) != (tt.want == gabion.KeyAnswerNotKept) {
				t.Errorf("%+v", e)
			}
			gabiontest.NothingHeld(t, d)
		})
	}
	t.Run("60 the server can't read the key", func(t *testing.T) {
		n := 0
		c, _ := client(t, eager(), roundTripper(func(req *http.Request) (*http.Response, error) {
			n++
			return answer(req, 400, `{"type":"urn:gabion:idempotency:malformed"}`, "Content-Type", "application/problem+json"), nil
		}))
		resp, err := c.Do(keyedPost(t, "http://shop", "k", "charge"))
		if err != nil {
			t.Fatal(err)
		}
		v := gabionhttp.Verdict(resp)
		if read(t, resp); n != 1 || !errors.Is(v, gabion.KeyMalformed) || v.Effect != policy.NoEffect {
			t.Errorf("%d requests, %v", n, v)
		}
	})
}

func TestKey61_62_AReplayedFailureIsNotRetried(t *testing.T) {
	for _, tt := range []struct {
		name     string
		code     int
		replayed string
		sent     int
		reason   gabion.Reason
	}{
		{"61 503 replayed", 503, "true", 1, policy.DoNotRetry},
		{"61 500 replayed", 500, "true", 1, policy.DoNotRetry},
		{"62 500 not replayed", 500, "", 2, policy.AttemptsExhausted}, // it may be a bug, so twice and no more
		{"62 503 not replayed", 503, "", 3, policy.AttemptsExhausted},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n := 0
			c, _ := client(t, eager(), roundTripper(func(req *http.Request) (*http.Response, error) {
				n++
				resp := answer(req, tt.code, "")
				if tt.replayed != "" {
					resp.Header.Set("Idempotent-Replayed", tt.replayed)
				}
				return resp, nil
			}))
			resp, err := c.Do(keyedPost(t, "http://shop", "k", "charge"))
			if err != nil {
				t.Fatal(err)
			}
			v := gabionhttp.Verdict(resp)
			if read(t, resp); n != tt.sent || v.Reason != tt.reason || v.Effect != policy.UnknownEffect {
				t.Errorf("%d requests, %v", n, v)
			}
		})
	}
	t.Run("from the handler itself", func(t *testing.T) {
		var ran, sent atomic.Int32
		h := provider(t, idempotency.Config{}, func(w http.ResponseWriter, r *http.Request) { ran.Add(1); w.WriteHeader(502) })
		c, _ := client(t, eager(), within(h, &sent))
		resp, err := c.Do(keyedPost(t, "http://shop", "k", "charge"))
		if err != nil {
			t.Fatal(err)
		}
		v := gabionhttp.Verdict(resp)
		if read(t, resp); ran.Load() != 1 || sent.Load() != 2 || v.Reason != policy.DoNotRetry {
			t.Errorf("run %d times, %d requests, %v", ran.Load(), sent.Load(), v)
		}
	})
}

func TestKey63_WhatMayBeForgottenIsNotSent(t *testing.T) {
	const day = 24 * time.Hour
	tests := []struct {
		name      string
		method    string
		retention time.Duration
		age       time.Duration
		key       string        // "" = made that long ago
		told      time.Duration // by KeyMadeAt, ago; 0 = nothing
		sent      bool
	}{
		{"young", "POST", day, time.Hour, "", 0, true},
		{"just young enough", "POST", day, day*9/10 - time.Second, "", 0, true},
		{"too old", "POST", day, day * 9 / 10, "", 0, false},
		{"too old to PATCH", "PATCH", day, 2 * day, "", 0, false},
		{"from a clock that is ahead", "POST", day, -time.Hour, "", 0, true},
		{"PUT is safe without a key", "PUT", day, 2 * day, "", 0, true},
		{"nothing is declared", "POST", 0, 1000 * day, "", 0, true},
		{"a key without a time", "POST", day, 2 * day, "order-7", 0, true},
		{"a key without a time, and the time", "POST", day, 2 * day, "order-7", 2 * day, false},
		{"the caller knows better", "POST", day, 2 * day, "", time.Hour, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				time.Sleep(10 * day)
				key, now := tt.key, time.Now()
				if key == "" {
					key = madeAt(now.Add(-tt.age))
				}
				w := &wire{script: []int{200}}
				c, d := client(t, eager(), w)
				tr := c.Transport.(*gabionhttp.Transport)
				tr.KeyRetention = tt.retention
				tr.KeyMadeAt = func(*http.Request) time.Time {
					if tt.told == 0 {
						return time.Time{}
					}
					return now.Add(-tt.told)
				}
				req := keyedPost(t, "http://shop", key, "charge")
				req.Method = tt.method
				resp, err := c.Do(req)
				if err == nil {
					read(t, resp)
				}
				if n := len(w.arrived()); n != map[bool]int{true: 1}[tt.sent] || (err == nil) != tt.sent {
					t.Fatalf("%d requests, %v", n, err)
				}
				if err != nil && (!errors.Is(err, gabion.KeyExpired) || gabion.EffectOf(err) != policy.UnknownEffect) {
					t.Errorf("ended with %v", err)
				}
				gabiontest.NothingHeld(t, d)
			})
		})
	}
	t.Run("nor under way", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			start, last := time.Now(), time.Duration(0)
			rt := roundTripper(func(req *http.Request) (*http.Response, error) {
				last = time.Since(start)
				return answer(req, 503, ""), nil
			})
			p := eager()
			p.Timeout.Call = time.Minute
			p.Retry.Attempts, p.Retry.Backoff = 60, backoff.Full(time.Second, time.Second)
			c, _ := client(t, p, rt)
			c.Transport.(*gabionhttp.Transport).KeyRetention = 10 * time.Second
			resp, err := c.Do(keyedPost(t, "http://shop", gabion.NewKey(), "charge"))
			if err != nil {
				t.Fatal(err)
			}
			if read(t, resp); last >= 9*time.Second || last < 5*time.Second {
				t.Errorf("the last request left after %v", last)
			}
		})
	})
}

// madeAt is a UUID of version 7 of that time.
func madeAt(at time.Time) string {
	ms := fmt.Sprintf("%012x", at.UnixMilli())
	return ms[:8] + "-" + ms[8:] + "-7" + gabion.NewKey()[15:]
}

// A hedge of what is not safe by itself has the first's key, and is made only where
// the server is declared to tell the two apart.
func TestKey66_HedgesHaveTheSameKey(t *testing.T) {
	tests := []struct {
		name   string
		key    string
		policy func(*policy.Policy)
		keyed  bool // HedgeKeyed
		wait   time.Duration
		sent   int32
	}{
		{"a key alone is not enough", "k", nil, false, 0, 1},
		{"nor is a server alone", "", nil, true, 0, 1},
		{"both, and the server refuses the second", "k", nil, true, 0, 2},
		{"both, and the server lets the second wait", "k", nil, true, time.Minute, 2},
		{"a key that is made", "", func(p *policy.Policy) { p.Key = policy.KeyMade }, true, 0, 2},
		{"the policy says safe", "k", func(p *policy.Policy) { p.Safe = true }, false, 0, 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var ran, sent atomic.Int32
				h := provider(t, idempotency.Config{RunnerConfig: idempotency.RunnerConfig{Wait: tt.wait}, Optional: true}, func(w http.ResponseWriter, r *http.Request) {
					ran.Add(1)
					time.Sleep(2 * time.Second)
					io.WriteString(w, "ch_1")
				})
				p := with(eager(), func(p *policy.Policy) { p.Hedge = policy.Hedge{Max: 1, Delay: time.Second} })
				if tt.policy != nil {
					tt.policy(&p)
				}
				c, d := client(t, p, within(h, &sent))
				c.Transport.(*gabionhttp.Transport).HedgeKeyed = tt.keyed
				resp, err := c.Do(keyedPost(t, "http://shop", tt.key, "charge"))
				if err != nil {
					t.Fatal(err)
				}
				if got := read(t, resp); got != "ch_1" || ran.Load() != 1 || sent.Load() != tt.sent {
					t.Errorf("%q, run %d times, %d requests", got, ran.Load(), sent.Load())
				}
				time.Sleep(time.Minute) // a loser may still be there
				gabiontest.NothingHeld(t, d)
			})
		})
	}
}

// net/http takes the name of a key without a value for leave to repeat, and sends
// none: so may the policy, and net/http may not.
func TestKey67_ANameWithoutAValueDeclares(t *testing.T) {
	for _, name := range []string{"Idempotency-Key", "X-Idempotency-Key"} {
		for _, values := range [][]string{nil, {}} {
			s := newFickle(t, "ad", "a")
			c, _ := client(t, once(), base(t, nil))
			warm, err := c.Get(s.url())
			if err != nil {
				t.Fatal(err)
			}
			read(t, warm)
			req := request(t, "POST", s.url(), "charge")
			req.Header[name] = values
			_, err = c.Do(req)
			if got := s.arrived()[1:]; len(got) != 1 || got[0].key != "" || err == nil {
				t.Errorf("%s: arrived %v, %v", name, got, err)
			}

			w := &wire{script: []int{0, 200}}
			c, _ = client(t, eager(), w)
			req = request(t, "POST", "http://shop", "charge")
			req.Header[name] = values
			resp, err := c.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			read(t, resp)
		}
	}
}

// http.Client takes all headers along wherever a redirect leads. A key goes no
// further than the host that it was meant for.
func TestKeysStayWithTheirHost(t *testing.T) {
	var mu sync.Mutex
	var seen []string
	note := func(name string, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, fmt.Sprintf("%s%s %s[%s%s] %s", name, r.URL.Path, r.Method, r.Header.Get("Idempotency-Key"), r.Header.Get("X-Idempotency-Key"), body))
	}
	var home *site
	away := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if note("away", r); r.URL.Path == "/back" {
			http.Redirect(w, r, home.URL+"/end", http.StatusPermanentRedirect)
		}
	})
	home = serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch note("home", r); r.URL.Path {
		case "/near":
			http.Redirect(w, r, "/end", http.StatusTemporaryRedirect)
		case "/far":
			http.Redirect(w, r, away.URL+"/end", http.StatusTemporaryRedirect)
		case "/round":
			http.Redirect(w, r, away.URL+"/back", http.StatusPermanentRedirect)
		case "/see":
			http.Redirect(w, r, away.URL+"/end", http.StatusSeeOther)
		case "/found":
			http.Redirect(w, r, away.URL+"/end", http.StatusFound)
		}
	})
	made := func(p *policy.Policy) { p.Key = policy.KeyMade }
	required := func(p *policy.Policy) { p.Key = policy.KeyRequired }
	tests := []struct {
		name   string
		path   string
		header string
		around string // the key of a call of gabion's around
		policy func(*policy.Policy)
		want   []string // "*" stands for a unique key
		ends   bool     // for the key would be lost
	}{
		{"the same host keeps it", "/near", "Idempotency-Key", "", nil, []string{"home/near POST[k] charge", "home/end POST[k] charge"}, false},
		{"another does not get the request", "/far", "Idempotency-Key", "", nil, []string{"home/far POST[k] charge"}, true},
		{"by the other name", "/far", "X-Idempotency-Key", "", nil, []string{"home/far POST[k] charge"}, true},
		{"nor on a way that leads back", "/round", "Idempotency-Key", "", nil, []string{"home/round POST[k] charge"}, true},
		{"reading takes no key along", "/see", "Idempotency-Key", "", nil, []string{"home/see POST[k] charge", "away/end GET[] "}, false},
		{"reading after a 302 neither", "/found", "Idempotency-Key", "", made, []string{"home/found POST[k] charge", "away/end GET[] "}, false},
		{"the key of the call around, same host", "/near", "", "outer", nil, []string{"home/near POST[outer] charge", "home/end POST[outer] charge"}, false},
		{"the key of the call around", "/far", "", "outer", nil, []string{"home/far POST[outer] charge"}, true},
		{"reading, with the key of the call around", "/see", "", "outer", required, []string{"home/see POST[outer] charge", "away/end GET[] "}, false},
		{"both", "/far", "Idempotency-Key", "outer", nil, []string{"home/far POST[k] charge"}, true},
		{"where keys are made, the caller's is not replaced", "/far", "Idempotency-Key", "", made, []string{"home/far POST[k] charge"}, true},
		{"nor that of the call around", "/far", "", "outer", made, []string{"home/far POST[outer] charge"}, true},
		{"nor where they are required", "/far", "Idempotency-Key", "", required, []string{"home/far POST[k] charge"}, true},
		{"nor that of the call around, where they are required", "/far", "", "outer", required, []string{"home/far POST[outer] charge"}, true},
		{"without a key of the caller's each host gets one of its own", "/far", "", "", made, []string{"home/far POST[*] charge", "away/end POST[*] charge"}, false},
		{"without any it goes where it is led", "/far", "", "", nil, []string{"home/far POST[] charge", "away/end POST[] charge"}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := eager()
			if tt.policy != nil {
				tt.policy(&p)
			}
			c, d := client(t, p, base(t, nil))
			mu.Lock()
			seen = nil
			mu.Unlock()
			call := func(ctx context.Context) error {
				req := request(t, "POST", home.URL+tt.path, "charge").WithContext(ctx)
				if tt.header != "" {
					req.Header.Set(tt.header, "k")
				}
				resp, err := c.Do(req)
				if err == nil {
					read(t, resp)
				}
				return err
			}
			err := gabion.New("checkout", policy.Policy{}).Run(t.Context(), call, given(tt.around)...)
			if errors.Is(err, gabionhttp.ErrKeyRedirected) != tt.ends || err != nil && !tt.ends {
				t.Fatalf("ended with %v", err)
			}
			mu.Lock()
			defer mu.Unlock()
			if len(seen) != len(tt.want) {
				t.Fatalf("arrived %q", seen)
			}
			for i, want := range tt.want {
				got := seen[i]
				if before, after, ok := strings.Cut(want, "*"); ok && len(got) > 36 {
					key := strings.TrimSuffix(strings.TrimPrefix(got, before), after)
					if len(key) == 36 {
						got = before + "*" + after
					}
				}
				if got != want {
					t.Errorf("arrived %q, want %q", got, want)
				}
			}
			gabiontest.NothingHeld(t, d)
		})
	}
	t.Run("hosts that share keys take them along", func(t *testing.T) {
		for _, around := range []string{"", "outer"} {
			seen = nil
			c, _ := client(t, eager(), base(t, nil))
			c.Transport.(*gabionhttp.Transport).KeyHosts = []string{strings.TrimPrefix(home.URL, "http://"), strings.TrimPrefix(away.URL, "http://")}
			err := gabion.New("checkout", policy.Policy{}).Run(t.Context(), func(ctx context.Context) error {
				key := "k"
				if around != "" {
					key = ""
				}
				resp, err := c.Do(keyedPost(t, home.URL+"/round", key, "charge").WithContext(ctx))
				if err == nil {
					read(t, resp)
				}
				return err
			}, given(around)...)
			key := "k" + around
			if key != "k" {
				key = around
			}
			if want := []string{"home/round POST[" + key + "] charge", "away/back POST[" + key + "] charge", "home/end POST[" + key + "] charge"}; err != nil || !slices.Equal(seen, want) {
				t.Errorf("arrived %q: %v", seen, err)
			}
		}
	})
}

// given is the option of a key, if there is one.
func given(key string) []gabion.CallOption {
	if key == "" {
		return nil
	}
	return []gabion.CallOption{gabion.WithKey(key)}
}

// A key is one, however a map's key spells its name.
func TestAKeyUnderAnotherSpellingIsTheKey(t *testing.T) {
	for name, tt := range map[string]struct {
		names []string
		lines int // that arrive; 0: it is refused
	}{
		"lower case":      {[]string{"idempotency-key"}, 1},
		"the other name":  {[]string{"x-idempotency-KEY"}, 1},
		"twice":           {[]string{"idempotency-key", "Idempotency-Key"}, 0},
		"both names":      {[]string{"idempotency-key", "X-Idempotency-Key"}, 2},
		"canonical alone": {[]string{"Idempotency-Key"}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			var arrived http.Header
			s := serve(t, func(w http.ResponseWriter, r *http.Request) { arrived = r.Header })
			c, _ := client(t, with(eager(), func(p *policy.Policy) { p.Key = policy.KeyMade }), base(t, s))
			req := request(t, "POST", s.URL, "charge")
			for _, n := range tt.names {
				req.Header[n] = []string{"k"}
			}
			resp, err := c.Do(req)
			if tt.lines == 0 {
				if gabion.ReasonOf(err) != policy.Invalid {
					t.Errorf("ended with %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			read(t, resp)
			if lines := len(arrived["Idempotency-Key"]) + len(arrived["X-Idempotency-Key"]); lines != tt.lines || len(req.Header) != len(tt.names) {
				t.Errorf("%d keys arrived: %v; the caller's: %v", lines, arrived, req.Header)
			}
		})
	}
}
