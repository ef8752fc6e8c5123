package gabionhttp_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/gabionhttp"
	"github.com/gabion-go/gabion/policy"
)

// errGone is what net/http says of a request whose Cancel was closed: it has no type.
var errGone = errors.New("net/http: request canceled")

// hanging answers nothing until the request is given up, by its context or its Cancel.
func hanging(sent *atomic.Int32) roundTripper {
	return func(req *http.Request) (*http.Response, error) {
		sent.Add(1)
		select {
		case <-req.Context().Done():
			return nil, context.Cause(req.Context())
		case <-req.Cancel:
			return nil, errGone
		}
	}
}

// Request.Cancel is deprecated, and still the caller's way to give up: it is no failure of
// the dependency's, and ends the call wherever that is.
func TestTheCancelChannelIsTheCallersCancel(t *testing.T) {
	for _, c := range []struct {
		fact   string
		base   func(sent *atomic.Int32) roundTripper
		within time.Duration // of a deadline of the caller's; zero means no deadline
	}{
		{"while an attempt is out", hanging, 0},
		{"while an attempt is out, long before the deadline", hanging, time.Hour},
		{"between two attempts", func(sent *atomic.Int32) roundTripper {
			return func(req *http.Request) (*http.Response, error) { sent.Add(1); return answer(req, 503, ""), nil }
		}, 0},
		{"while the base ignores it", func(sent *atomic.Int32) roundTripper {
			return func(req *http.Request) (*http.Response, error) {
				sent.Add(1)
				<-req.Context().Done()
				return nil, req.Context().Err()
			}
		}, 0},
	} {
		t.Run(c.fact, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := gabion.New("shop", policy.Policy{
					Retry:   policy.Retry{Backoff: backoff.Const(10 * time.Second), Budget: unbounded},
					Timeout: policy.Timeout{Attempt: time.Minute, Call: 10 * time.Minute}, Pace: policy.Pace{Off: true},
				})
				var sent atomic.Int32
				tr := &gabionhttp.Transport{Dependency: d, Base: c.base(&sent)}
				ctx := t.Context()
				if c.within > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, c.within)
					defer cancel()
				}
				req, _ := http.NewRequestWithContext(ctx, http.MethodGet, "http://shop.test/", nil)
				quit := make(chan struct{})
				req.Cancel = quit
				began := time.Now()
				time.AfterFunc(time.Second, func() { close(quit) })
				_, err := tr.RoundTrip(req)
				if took := time.Since(began); took != time.Second || sent.Load() != 1 || gabion.ReasonOf(err) != policy.Canceled {
					t.Errorf("after %v and %d attempts: %v", took, sent.Load(), err)
				}
				s := d.Stats()
				if s.Bulkhead.InUse != 0 || s.Totals.Failures.Of(policy.Canceled) != 1 {
					t.Errorf("%+v", s.Totals)
				}
			})
		})
	}
}

func TestAnAnswerOutlivesItsCancelChannel(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("whole")) }))
	defer s.Close()
	tr := &gabionhttp.Transport{Dependency: gabion.New("shop", policy.Policy{})}
	defer tr.CloseIdleConnections()
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL, nil)
	req.Cancel = make(chan struct{})
	resp, err := tr.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	if got := read(t, resp); got != "whole" {
		t.Errorf("read %q", got)
	}
}

// A Client's Timeout closes Cancel and ends the context at once. It is a deadline of the
// caller's, and counts as one: see the machine's rule for calls in a hurry.
func TestAClientsTimeoutIsTheCallersDeadline(t *testing.T) {
	for _, limit := range []time.Duration{20 * time.Millisecond, time.Second} {
		ends := map[string]gabion.Stats{}
		for _, by := range []string{"context", "Client.Timeout"} {
			synctest.Test(t, func(t *testing.T) {
				d := gabion.New("shop", policy.Policy{Retry: policy.Retry{Budget: unbounded}})
				var sent atomic.Int32
				client := &http.Client{Transport: &gabionhttp.Transport{Dependency: d, Base: hanging(&sent)}}
				ctx := t.Context()
				if by == "context" {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, limit)
					defer cancel()
				} else {
					client.Timeout = limit
				}
				req, _ := http.NewRequestWithContext(ctx, http.MethodGet, "http://shop.test/", nil)
				if _, err := client.Do(req); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%s: %v", by, err)
				}
				synctest.Wait()
				ends[by] = d.Stats()
			})
		}
		a, b := ends["context"], ends["Client.Timeout"]
		if a.Totals != b.Totals || a.Partitions[0].Breaker.Counts != b.Partitions[0].Breaker.Counts || a.Totals.Failures.Of(policy.CallTimeout) != 1 {
			t.Errorf("%v: by the context %+v %+v, by the Client %+v %+v", limit, a.Totals, a.Partitions[0].Breaker.Counts, b.Totals, b.Partitions[0].Breaker.Counts)
		}
		if counts := a.Partitions[0].Breaker.Counts.Failures == 1; counts != (limit == time.Second) {
			t.Errorf("%v: the breaker counts %+v", limit, a.Partitions[0].Breaker.Counts)
		}
	}
}
