package gabionhttp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/gabionhttp"
	"github.com/gabion-go/gabion/gabiontest"
	"github.com/gabion-go/gabion/policy"
)

// The caller's cancel is no timeout: it is neither retried nor a failure.
func TestTheCallersCancelIsNotRetried(t *testing.T) {
	arrived := make(chan bool, 10)
	s := serve(t, func(w http.ResponseWriter, r *http.Request) { arrived <- true; <-r.Context().Done() })
	p := with(eager(), func(p *policy.Policy) { p.Breaker.Off = false })
	c, d := client(t, p, base(t, s))
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-arrived; cancel() }()
	_, err := c.Do(request(t, "GET", s.URL, "").WithContext(ctx))
	gabiontest.WantReason(t, err, policy.Canceled)
	if !errors.Is(err, context.Canceled) || s.requests.Load() != 1 {
		t.Errorf("%d requests, %v", s.requests.Load(), err)
	}
	if n := d.Stats().Partitions[0].Breaker.Counts.Calls; n != 0 {
		t.Errorf("the breaker counted %d outcomes", n)
	}
}

// If the default treated a 4xx or an unknown error as the network's fault, refusals would be
// retried.
func TestRefusalsAreNotRetried(t *testing.T) {
	for _, status := range []int{400, 401, 403, 404, 409, 410, 422, 501, 505} {
		s := serve(t, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(status) })
		c, _ := client(t, eager(), base(t, s))
		resp, err := c.Get(s.URL)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		gabiontest.WantReason(t, gabionhttp.Verdict(resp), policy.NotRetryable)
		if n := s.requests.Load(); n != 1 {
			t.Errorf("%d was sent %d times", status, n)
		}
	}
	n := 0
	c, _ := client(t, eager(), roundTripper(func(*http.Request) (*http.Response, error) { n++; return nil, errors.New("odd") }))
	_, err := c.Get("http://shop")
	if n != 1 || !errors.Is(err, policy.UnclassifiedError) {
		t.Errorf("%d attempts, %v", n, err)
	}
}

func TestBadRequestsAreRefusedCleanly(t *testing.T) {
	d := gabion.New("shop", with(eager(), func(p *policy.Policy) { p.Breaker.Off, p.Breaker.Consecutive = false, 1 }))
	good := &gabionhttp.Transport{Dependency: d, Base: &http.Transport{}}
	tests := []struct {
		name   string
		t      *gabionhttp.Transport
		change func(*http.Request)
	}{
		{"no dependency", &gabionhttp.Transport{}, func(*http.Request) {}},
		{"no URL", good, func(r *http.Request) { r.URL = nil }},
		{"an unknown scheme", good, func(r *http.Request) { r.URL.Scheme = "gopher" }},
		{"no host", good, func(r *http.Request) { r.URL.Host = "" }},
		{"no headers", good, func(r *http.Request) { r.Header = nil }},
		{"a header with a line break", good, func(r *http.Request) { r.Header["X"] = []string{"a\r\nb"} }},
		{"a key with a line break", good, func(r *http.Request) { r.Header[gabionhttp.HeaderKey] = []string{"a\nb"} }},
		{"a header's name with a space", good, func(r *http.Request) { r.Header["X Y"] = []string{"a"} }},
		{"a method with a space", good, func(r *http.Request) { r.Method = "GE T" }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			body := &watchedBody{Reader: strings.NewReader("x")}
			req := &http.Request{Method: "POST", URL: &url.URL{Scheme: "http", Host: "127.0.0.1:1"}, Header: http.Header{}, Body: body, ContentLength: -1}
			tt.change(req)
			resp, err := tt.t.RoundTrip(req)
			if err == nil || resp != nil || body.closed.Load() != 1 {
				t.Errorf("%v, %v, body closed %d times", resp, err, body.closed.Load())
			}
			want := policy.NotRetryable
			if errors.Is(err, gabion.KeyMalformed) {
				want = policy.Invalid
			}
			if e, ok := errors.AsType[*gabion.Error](err); ok && (e.Reason != want || e.Effect != policy.NoEffect) {
				t.Errorf("ended with %v", err)
			}
		})
	}
}

// The caller's body is the caller's: that it breaks says nothing of the server.
func TestABrokenRequestBodyIsNotTheDependencysFault(t *testing.T) {
	errDisk := errors.New("disk")
	s := serve(t, func(w http.ResponseWriter, r *http.Request) { io.Copy(io.Discard, r.Body) })
	broken := func() io.ReadCloser { return io.NopCloser(io.MultiReader(strings.NewReader("half"), failing{errDisk})) }
	fail := func() (io.ReadCloser, error) { return nil, errDisk }
	for name, get := range map[string]func() (io.ReadCloser, error){"stream": nil, "with GetBody": fail} {
		t.Run(name, func(t *testing.T) {
			p := with(eager(), func(p *policy.Policy) { p.Breaker.Off, p.Breaker.Consecutive = false, 1 })
			c, d := client(t, p, base(t, s))
			req := request(t, "PUT", s.URL, "")
			req.Body, req.GetBody, req.ContentLength = broken(), get, -1
			if _, err := c.Do(req); !errors.Is(err, errDisk) {
				t.Errorf("ended with %v", err)
			}
			if n := d.Stats().Partitions[0].Breaker.Counts.Calls; n != 0 {
				t.Errorf("the breaker counted %d outcomes", n)
			}
		})
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// A caller whose own reader hangs can still give up.
func TestWaitingForTheCallersBodyCanBeCanceled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		never, _ := io.Pipe()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		req, _ := http.NewRequestWithContext(ctx, "POST", "http://shop", never)
		req.ContentLength = 10
		c, _ := client(t, eager(), roundTripper(func(req *http.Request) (*http.Response, error) { return answer(req, 200, ""), nil }))
		start := time.Now()
		if _, err := c.Do(req); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != time.Second {
			t.Errorf("%v after %v", err, time.Since(start))
		}
	})
}

// RoundTrip changes nothing of the caller's request, whatever it adds on the way.
func TestTheCallersRequestIsNotChanged(t *testing.T) {
	n := 0
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get(gabionhttp.HeaderKey) == "" || r.Header.Get(gabionhttp.HeaderAttempt) == "" {
			t.Errorf("headers are missing: %v", r.Header)
		}
		if n++; n == 1 {
			w.WriteHeader(503)
		}
	})
	p := withInternal(with(eager(), func(p *policy.Policy) { p.Key = policy.KeyMade }))
	c, _ := client(t, p, base(t, s))
	req := request(t, "POST", s.URL+"/a?b=c", "body")
	req.Header.Set("X-Mine", "1")
	before, copied := *req, req.Clone(req.Context())
	resp, err := c.Transport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	read(t, resp)
	if !reflect.DeepEqual(req.Header, copied.Header) || *req.URL != *copied.URL || req.Body != before.Body || req.Method != "POST" ||
		req.ContentLength != 4 || req.Host != copied.Host || req.Context() != before.Context() || n != 2 {
		t.Errorf("after %d requests the caller's is %+v", n, req)
	}
}

// The key is made once per call and is the same on each attempt; reading needs none.
func TestTheKeyIsTheSameOnEveryAttempt(t *testing.T) {
	var mu sync.Mutex
	keys := map[string][]string{}
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		mu.Lock()
		keys[r.URL.Path] = append(keys[r.URL.Path], r.Header.Get(gabionhttp.HeaderKey)+" "+string(text))
		mu.Unlock()
		w.WriteHeader(503)
	})
	c, _ := client(t, with(eager(), func(p *policy.Policy) { p.Key = policy.KeyMade }), base(t, s))
	for _, path := range []string{"/one", "/two"} {
		resp, err := c.Do(request(t, "POST", s.URL+path, "charge"))
		if err != nil {
			t.Fatal(err)
		}
		read(t, resp)
	}
	one, two := keys["/one"], keys["/two"]
	if len(one) != 3 || len(two) != 3 || one[0] != one[2] || one[0] != one[1] || two[0] != two[2] || one[0] == two[0] {
		t.Errorf("keys: %v", keys)
	}
	resp, err := c.Get(s.URL + "/read")
	if err != nil {
		t.Fatal(err)
	}
	read(t, resp)
	if got := keys["/read"]; got[0] != " " {
		t.Errorf("GET carries %q", got)
	}
}

// The key of the call around belongs to its effect, not to what it reads on the way.
func TestTheKeyOfTheCallAroundIsPassedOn(t *testing.T) {
	got := map[string]string{}
	rt := roundTripper(func(req *http.Request) (*http.Response, error) {
		got[req.Method] = req.Header.Get(gabionhttp.HeaderKey)
		return answer(req, 200, ""), nil
	})
	c, _ := client(t, eager(), rt)
	checkout := gabion.New("checkout", policy.Policy{})
	err := checkout.Run(t.Context(), func(ctx context.Context) error {
		for _, method := range []string{"GET", "POST"} {
			resp, err := c.Do(request(t, method, "http://shop", "").WithContext(ctx))
			if err != nil {
				return err
			}
			resp.Body.Close()
		}
		return nil
	}, gabion.WithKey("order-7"))
	if err != nil || got["POST"] != "order-7" || got["GET"] != "" {
		t.Errorf("%v, %v", got, err)
	}
}

// A key in flight delays no other call (Outcome.Alone).
func TestAKeyInFlightDoesNotPaceTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		rt := roundTripper(func(req *http.Request) (*http.Response, error) {
			if n++; req.Header.Get(gabionhttp.HeaderKey) == "busy" && n == 1 {
				return answer(req, 409, "", "Retry-After", "2"), nil
			}
			return answer(req, 200, ""), nil
		})
		c, _ := client(t, policy.Policy{}, rt)
		call := func(key string) time.Duration {
			start := time.Now()
			req := request(t, "POST", "http://shop", "x")
			req.Header.Set(gabionhttp.HeaderKey, key)
			resp, err := c.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			if resp.Body.Close(); resp.StatusCode != 200 {
				t.Errorf("%s: %d", key, resp.StatusCode)
			}
			return time.Since(start)
		}
		var others sync.WaitGroup
		others.Go(func() {
			time.Sleep(time.Second)
			if took := call("free"); took != 0 {
				t.Errorf("another key waited %v", took)
			}
		})
		if took := call("busy"); took < 2*time.Second {
			t.Errorf("the key came back after %v", took)
		}
		others.Wait()
	})
}

// Two hosts behind one Transport never share a breaker unless told so (C47).
func TestC47_HostsHaveBreakersOfTheirOwn(t *testing.T) {
	rt := roundTripper(func(req *http.Request) (*http.Response, error) {
		if req.URL.Host == "bad" {
			return answer(req, 503, ""), nil
		}
		return answer(req, 200, ""), nil
	})
	p := policy.Policy{Breaker: policy.Breaker{Consecutive: 1}, Retry: policy.Retry{Attempts: 1}}
	for _, shared := range []bool{false, true} {
		c, _ := client(t, p, rt)
		if shared {
			c.Transport.(*gabionhttp.Transport).Partition = func(*http.Request) string { return "all" }
		}
		resp, err := c.Get("http://bad")
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		resp, err = c.Get("http://good")
		if err == nil {
			resp.Body.Close()
		}
		if (err != nil) != shared {
			t.Errorf("shared %v: %v", shared, err)
		}
	}
}

// An answer that was let go for a retry that was not made is still told of.
func TestTheRealFailureIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		p := with(eager(), func(p *policy.Policy) { p.Retry.Backoff = backoff.Const(time.Second) })
		c, _ := client(t, p, roundTripper(func(req *http.Request) (*http.Response, error) {
			time.AfterFunc(time.Millisecond, cancel) // in the wait: time passes only there
			return answer(req, 503, ""), nil
		}))
		_, err := c.Do(request(t, "GET", "http://shop", "").WithContext(ctx))
		var status *gabionhttp.StatusError
		if !errors.As(err, &status) || status.Code != 503 || !errors.Is(err, policy.Canceled) {
			t.Errorf("ended with %v", err)
		}
	})
}

func TestManyAtOnce(t *testing.T) {
	gabiontest.NoLeaks(t)
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if attemptOf(r) == "1" {
			w.WriteHeader(503)
		}
		echo(w, r)
	})
	for _, hedges := range []int{0, 1} {
		p := withInternal(with(eager(), func(p *policy.Policy) {
			p.Key = policy.KeyMade
			p.Hedge = policy.Hedge{Off: hedges == 0, Max: hedges, Delay: time.Millisecond}
		}))
		open := &bodies{RoundTripper: base(t, s)}
		c, d := client(t, p, open)
		var all sync.WaitGroup
		for i := range 16 {
			all.Go(func() {
				for j := range 30 {
					text := fmt.Sprint(i, j)
					resp, err := c.Do(request(t, "POST", s.URL, text))
					if err != nil {
						t.Error(err)
						return
					}
					if got := read(t, resp); got != text || resp.StatusCode != 200 {
						t.Errorf("sent %q, got %d %q", text, resp.StatusCode, got)
					}
				}
			})
		}
		all.Wait()
		for range 200 { // losers come home a moment later
			if open.opened.Load() == open.closed.Load() && d.Stats().Bulkhead.InUse == 0 {
				break
			}
			<-time.After(10 * time.Millisecond)
		}
		open.check(t)
		gabiontest.NothingHeld(t, d)
	}
}

func attemptOf(r *http.Request) string { return r.Header.Get(gabionhttp.HeaderAttempt) }

// rudeBody fails its reader before Close returns, as a connection may.
type rudeBody struct {
	closed, failed chan bool
}

func (r *rudeBody) Read([]byte) (int, error) {
	<-r.closed
	return 0, io.ErrClosedPipe
}

func (r *rudeBody) Close() error {
	close(r.closed)
	<-r.failed
	return nil
}

func TestClosingUnderAReadersFeetIsNoFailure(t *testing.T) {
	body := &rudeBody{make(chan bool), make(chan bool)}
	rt := roundTripper(func(req *http.Request) (*http.Response, error) {
		resp := answer(req, 200, "")
		resp.Body = body
		return resp, nil
	})
	c, d := client(t, policy.Policy{}, rt)
	resp, err := c.Get("http://shop")
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		resp.Body.Read(make([]byte, 1))
		close(body.failed)
	}()
	resp.Body.Close()
	if n := d.Stats().Partitions[0].Breaker.Counts.Failures; n != 0 {
		t.Errorf("the breaker heard of %d failures", n)
	}
}
