package gabionhttp_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/gabionhttp"
	"github.com/gabion-go/gabion/gabiontest"
	"github.com/gabion-go/gabion/policy"
)

// http.RoundTripper lets a request be used again once its answer's body is closed. A hedge
// that lost may still be about to send it: what it sends must be what the caller asked for.
func TestARequestCanBeUsedAgainAfterItsAnswer(t *testing.T) {
	var mixed atomic.Int32
	late := roundTripper(func(req *http.Request) (*http.Response, error) {
		for range req.Header { // as net/http does when it writes them
			runtime.Gosched()
		}
		n, got, err := strings.TrimPrefix(req.URL.Path, "/"), []byte(nil), error(nil)
		if req.Body != nil {
			got, err = io.ReadAll(iotest.HalfReader(req.Body))
		}
		if err == nil && (string(got) != strings.Repeat(n+" ", 200) && req.Method == "PUT" || req.Header.Get("X-Number") != n) {
			mixed.Add(1)
		}
		return answer(req, 200, "ok"), nil
	})
	d := gabion.New("shop", with(eager(), func(p *policy.Policy) { p.Hedge = policy.Hedge{Max: 2, Percentile: policy.Off} })) // all at once
	tr := &gabionhttp.Transport{Dependency: d, Base: late}
	for _, method := range []string{"PUT", "GET"} {
		var req *http.Request
		buf := []byte{}
		for i := range 2000 {
			n := fmt.Sprint(1000 + i)
			if req == nil {
				req = request(t, method, "http://shop.test/", "")
			}
			req.URL.Path = "/" + n
			req.Header.Set("X-Number", n)
			if method == "PUT" { // in the same memory
				buf = append(buf[:0], strings.Repeat(n+" ", 200)...)
				req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(buf)), int64(len(buf))
				req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(buf)), nil }
			}
			resp, err := tr.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			read(t, resp)
		}
	}
	if n := mixed.Load(); n > 0 {
		t.Errorf("%d requests arrived that the test did not make", n)
	}
}

// A body that the caller's own reader breaks, or that is not as long as it is said to be,
// is the caller's failure: it says nothing about the dependency and is not sent again.
func TestTheCallersOwnBodyIsNobodyElsesFailure(t *testing.T) {
	half := strings.Repeat("half", 20_000) // more than is kept or buffered
	breaks := func(err error) io.Reader { return io.MultiReader(strings.NewReader(half), failing{err}) }
	reader := func(f func() io.Reader) func() (io.ReadCloser, error) {
		return func() (io.ReadCloser, error) { return io.NopCloser(f()), nil }
	}
	tests := []struct {
		name   string
		length int64
		body   func() io.Reader
		again  bool // there is a GetBody
		effect policy.Effect
	}{
		{"it fails as net/http's do", int64(2 * len(half)), func() io.Reader { return breaks(io.ErrUnexpectedEOF) }, false, policy.UnknownEffect},
		{"of unknown length", -1, func() io.Reader { return breaks(io.ErrUnexpectedEOF) }, false, policy.UnknownEffect},
		{"with GetBody", int64(2 * len(half)), func() io.Reader { return breaks(io.ErrUnexpectedEOF) }, true, policy.UnknownEffect},
		{"it fails", -1, func() io.Reader { return breaks(errors.New("disk")) }, false, policy.UnknownEffect},
		{"it is shorter", int64(2 * len(half)), func() io.Reader { return strings.NewReader(half) }, false, policy.UnknownEffect},
		{"it is shorter, with GetBody", int64(2 * len(half)), func() io.Reader { return strings.NewReader(half) }, true, policy.NoEffect},
		{"it is shorter, with GetBody, of another kind", int64(2 * len(half)), func() io.Reader { return io.MultiReader(strings.NewReader(half)) }, true, policy.UnknownEffect},
		{"it is longer", int64(len(half) - 1), func() io.Reader { return strings.NewReader(half) }, false, policy.UnknownEffect},
		{"it is longer, with GetBody", int64(len(half) - 1), func() io.Reader { return strings.NewReader(half) }, true, policy.NoEffect},
		{"it is longer, with GetBody, of another kind", int64(len(half) - 1), func() io.Reader { return io.MultiReader(strings.NewReader(half)) }, true, policy.UnknownEffect},
		{"short ones: it fails", 10, func() io.Reader { return io.MultiReader(strings.NewReader("half"), failing{io.ErrUnexpectedEOF}) }, false, policy.NoEffect},
		{"short ones: it is shorter", 10, func() io.Reader { return strings.NewReader("half") }, false, policy.NoEffect},
		{"short ones: it is longer", 3, func() io.Reader { return strings.NewReader("half") }, false, policy.NoEffect},
	}
	for _, http2 := range []bool{false, true} {
		for _, tt := range tests {
			t.Run(fmt.Sprintf("%s, HTTP/2 %v", tt.name, http2), func(t *testing.T) {
				begin := serve
				if http2 {
					begin = serveH2
				}
				var came atomic.Int32
				s := begin(t, func(w http.ResponseWriter, r *http.Request) {
					came.Add(1)
					if _, err := io.Copy(io.Discard, r.Body); err != nil {
						w.WriteHeader(http.StatusInternalServerError) // as those do that can't tell whose fault it is
					}
				})
				var events gabiontest.Recorder
				p := with(eager(), func(p *policy.Policy) { p.Breaker = policy.Breaker{Consecutive: 1, Window: 2 * time.Minute} })
				c, d := client(t, p, base(t, s), gabion.WithObserver(&events))
				req := request(t, "PUT", s.URL, "")
				req.ContentLength = tt.length
				req.Body = io.NopCloser(tt.body())
				if tt.again {
					req.GetBody = reader(tt.body)
				}
				resp, err := c.Transport.RoundTrip(req)
				if err == nil {
					if failed := gabionhttp.Verdict(resp); failed != nil {
						err = failed
					}
					resp.Body.Close()
				}
				// Of a body that is longer the server may have all that was announced, and answer,
				// before net/http asks the body for more.
				answered := err == nil && strings.HasPrefix(tt.name, "it is longer") && tt.effect == policy.UnknownEffect && came.Load() == 1
				if !answered && (gabion.ReasonOf(err) != policy.Canceled || gabion.EffectOf(err) != tt.effect || came.Load() > 1) {
					t.Errorf("%d arrived: %v", came.Load(), err)
				}
				if n := events.Load().Attempts; n > 1 || n == 0 && tt.effect == policy.UnknownEffect {
					t.Errorf("%d attempts", n)
				}
				resp, err = c.Transport.RoundTrip(request(t, "GET", s.URL, ""))
				if err != nil {
					t.Fatalf("the breaker heard of it: %v", err)
				}
				read(t, resp)
				gabiontest.NothingHeld(t, d)
			})
		}
	}
}

// What callers and Bases must not do ends the call and nothing else.
func TestWhatCallersMustNotDo(t *testing.T) {
	boom := func() { panic("boom") }
	leave := func() { runtime.Goexit() }
	one := func(p *policy.Policy) { p.Bulkhead = policy.Bulkhead{Limit: 1, Queue: policy.Off} }
	fine := roundTripper(func(req *http.Request) (*http.Response, error) { return answer(req, 200, "ok"), nil })
	type mistake struct {
		base   http.RoundTripper
		change func(*gabionhttp.Transport, *http.Request)
		rises  bool
	}
	body := func(get func() (io.ReadCloser, error)) func(*gabionhttp.Transport, *http.Request) {
		return func(_ *gabionhttp.Transport, req *http.Request) {
			req.Body, req.GetBody, req.ContentLength = io.NopCloser(strings.NewReader("charge")), get, 6
		}
	}
	tests := map[string]mistake{
		"GetBody returns neither body nor error": {nil, body(func() (io.ReadCloser, error) { return nil, nil }), false},
		"Base returns neither answer nor error":  {roundTripper(func(*http.Request) (*http.Response, error) { return nil, nil }), nil, false},
		"Base returns both": {roundTripper(func(req *http.Request) (*http.Response, error) {
			return answer(req, 200, ""), errors.New("both")
		}), nil, false},
	}
	for how, out := range map[string]func(){"panics": boom, "leaves": leave} {
		tests["GetBody "+how] = mistake{nil, body(func() (io.ReadCloser, error) { out(); return nil, nil }), true}
		tests["Partition "+how] = mistake{nil, func(tr *gabionhttp.Transport, _ *http.Request) {
			tr.Partition = func(*http.Request) string { out(); return "" }
		}, true}
		tests["Operation "+how] = mistake{nil, func(tr *gabionhttp.Transport, _ *http.Request) {
			tr.Operation = func(*http.Request) string { out(); return "" }
		}, true}
		tests["KeyMadeAt "+how] = mistake{nil, func(tr *gabionhttp.Transport, _ *http.Request) {
			tr.KeyRetention, tr.KeyMadeAt = time.Hour, func(*http.Request) time.Time { out(); return time.Time{} }
		}, true}
		tests["the body's Read "+how] = mistake{nil, func(_ *gabionhttp.Transport, req *http.Request) {
			req.Body, req.ContentLength = io.NopCloser(rude{read: out}), -1
		}, true}
		tests["the body's Read "+how+" ahead"] = mistake{nil, func(_ *gabionhttp.Transport, req *http.Request) {
			req.Body, req.ContentLength = io.NopCloser(rude{read: out}), 6
		}, true}
		tests["the body's Close "+how] = mistake{nil, func(_ *gabionhttp.Transport, req *http.Request) {
			req.Body, req.ContentLength = rude{close: out}, -1
		}, true}
	}
	for name, tt := range tests {
		for _, hedges := range []int{0, 1} {
			t.Run(fmt.Sprintf("%s, hedges %d", name, hedges), func(t *testing.T) {
				d := gabion.New("shop", with(eager(), func(p *policy.Policy) {
					one(p)
					p.Hedge = policy.Hedge{Off: hedges == 0, Max: hedges, Delay: time.Minute}
				}))
				tr := &gabionhttp.Transport{Dependency: d, Base: tt.base}
				if tr.Base == nil {
					tr.Base = fine
				}
				req := request(t, "PUT", "http://shop.test", "")
				if tt.change != nil {
					tt.change(tr, req)
				}
				if get := req.GetBody; get != nil { // the first attempt has the body itself
					tr.Base = roundTripper(func(req *http.Request) (*http.Response, error) { return answer(req, 503, ""), nil })
				}
				over := make(chan any)
				go func() {
					done := false
					var err error
					defer func() {
						v := recover()
						over <- fmt.Sprint(done, v, err != nil)
					}()
					resp, e := tr.RoundTrip(req)
					if err = e; err == nil {
						resp.Body.Close()
					}
					done = true
				}()
				if got, ended := <-over, "true <nil> true"; (got != ended) != tt.rises {
					t.Errorf("it ended with %v", got)
				}
				gabiontest.NothingHeld(t, d)
			})
		}
	}
}

// rude is a body whose methods do what they like.
type rude struct{ read, close func() }

func (r rude) Read(p []byte) (int, error) {
	if r.read != nil {
		r.read()
	}
	return 0, io.EOF
}

func (r rude) Close() error {
	if r.close != nil {
		r.close()
	}
	return nil
}
