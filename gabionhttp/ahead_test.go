package gabionhttp_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/gabionhttp"
	"github.com/gabion-go/gabion/policy"
)

// stalling is a body of which some comes, and then nothing until it is let go. Deaf, it is
// not freed by Close either.
type stalling struct {
	some  io.Reader
	let   chan struct{}
	close func()
	shut  atomic.Int32
}

func newStalling(deaf bool) *stalling {
	s := &stalling{some: strings.NewReader("some"), let: make(chan struct{})}
	if s.close = func() {}; !deaf {
		s.close = func() { close(s.let) }
	}
	return s
}

func (s *stalling) Read(p []byte) (int, error) {
	if n, _ := s.some.Read(p); n > 0 {
		return n, nil
	}
	<-s.let
	return 0, errors.New("let go")
}

func (s *stalling) Close() error {
	if s.shut.Add(1) == 1 {
		s.close()
	}
	return nil
}

// A body of known length within HTTP.ReplayLimit is read before the first attempt. Its
// reader is the caller's, and may stall.
func TestABodyThatStallsHoldsItsCallNoLongerThanItsTime(t *testing.T) {
	for _, c := range []struct {
		fact  string
		until func(context.Context) (context.Context, context.CancelFunc)
		after time.Duration
		why   policy.Reason
		is    error
	}{
		{"the policy's time", context.WithCancel, 3 * time.Second, policy.CallTimeout, context.DeadlineExceeded},
		{"the caller's deadline", func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, time.Second)
		}, time.Second, policy.CallTimeout, context.DeadlineExceeded},
		{"the caller's cancel", func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			time.AfterFunc(time.Second, cancel)
			return ctx, cancel
		}, time.Second, policy.Canceled, context.Canceled},
	} {
		for name, deaf := range map[string]bool{"freed by Close": false, "deaf": true} {
			t.Run(c.fact+"/"+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					d := gabion.New("shop", policy.Policy{Timeout: policy.Timeout{Call: 3 * time.Second, Attempt: time.Second}})
					tr := &gabionhttp.Transport{Dependency: d, Base: roundTripper(func(*http.Request) (*http.Response, error) {
						t.Error("it was sent")
						return nil, errors.New("sent")
					})}
					ctx, cancel := c.until(t.Context())
					defer cancel()
					b, began := newStalling(deaf), time.Now()
					req, _ := http.NewRequestWithContext(ctx, http.MethodPut, "http://shop.test/", b)
					req.ContentLength = 1000
					_, err := tr.RoundTrip(req)
					if took := time.Since(began); took != c.after || gabion.ReasonOf(err) != c.why || gabion.EffectOf(err) != policy.NoEffect || !errors.Is(err, c.is) {
						t.Errorf("after %v: %v; want %v, %v", took, err, c.after, c.why)
					}
					synctest.Wait()
					if n := b.shut.Load(); n != 1 {
						t.Errorf("the body was closed %d times", n)
					}
					if deaf { // the bubble ends only if every goroutine does
						close(b.let)
					}
					if n := d.Stats().Totals.Calls; n != 0 {
						t.Errorf("%d calls count", n)
					}
				})
			})
		}
	}
}

// The time that the body takes is the call's.
func TestASlowBodyLeavesTheCallTheRestOfItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := gabion.New("shop", policy.Policy{Timeout: policy.Timeout{Call: 3 * time.Second, Attempt: policy.Off}})
		tr := &gabionhttp.Transport{Dependency: d, Base: roundTripper(func(req *http.Request) (*http.Response, error) {
			<-req.Context().Done()
			return nil, req.Context().Err()
		})}
		r, w := io.Pipe()
		go func() {
			time.Sleep(2 * time.Second)
			io.WriteString(w, "body")
			w.Close()
		}()
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodPut, "http://shop.test/", r)
		req.ContentLength = 4
		began := time.Now()
		_, err := tr.RoundTrip(req)
		if took := time.Since(began); took != 3*time.Second || gabion.ReasonOf(err) != policy.CallTimeout {
			t.Errorf("after %v: %v", took, err)
		}
	})
}

type leaving struct{ by func() }

func (l leaving) Read([]byte) (int, error) { l.by(); return 0, io.EOF }

// It is read on a goroutine of its own, and must not end the process there.
func TestABodyWhoseReaderPanicsIsTheCallers(t *testing.T) {
	tr := &gabionhttp.Transport{Dependency: gabion.New("shop", policy.Policy{}), Base: roundTripper(func(*http.Request) (*http.Response, error) { return nil, errors.New("sent") })}
	for _, by := range []func(){func() { panic("reader") }, runtime.Goexit} {
		var left any
		done := make(chan struct{})
		go func() {
			defer close(done)
			defer func() { left = recover() }()
			left = "came back"
			req, _ := http.NewRequestWithContext(t.Context(), http.MethodPut, "http://shop.test/", leaving{by})
			req.ContentLength = 4
			_, _ = tr.RoundTrip(req)
		}()
		<-done
		if left == "came back" {
			t.Error("the caller's goroutine came back")
		}
	}
}
