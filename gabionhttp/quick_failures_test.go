package gabionhttp_test

import (
	"context"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/policy"
)

// Failures that are quick are counted before answers that are slow, and some answers take longer than others. That must not cost
// more calls than a client without gabion loses.
func TestSlowAnswersAreLostNoOftenerThanWithoutGabion(t *testing.T) {
	const s = time.Second
	for _, c := range []struct {
		fact   string
		p      policy.Policy
		method string
		status int
		share  float64 // of the calls
		takes  func(*rand.Rand) time.Duration
		every  time.Duration
		lasts  func(time.Duration) bool // whether it is busy then
		most   time.Duration
	}{
		{"half fail at once, and answers take 6 s", policy.Policy{}, http.MethodGet, 500, 0.5, aboutThis(6 * s), s / 20, always, 60 * s},
		{"seven of ten fail at once, and answers take 1.5 s", policy.Policy{}, http.MethodGet, 503, 0.7, aboutThis(3 * s / 2), s / 50, always, 30 * s},
		{"half fail at once, and calls come for 15 s of each minute", policy.Policy{}, http.MethodGet, 500, 0.5, aboutThis(6 * s), s / 20,
			func(at time.Duration) bool { return at%(60*s) < 15*s }, 190 * s},
		{"nothing fails, some answers take longer than timeout.attempt, and only a percentile is written", policy.Policy{Timeout: policy.Timeout{Percentile: 0.999}},
			http.MethodPost, 0, 0, func(r *rand.Rand) time.Duration {
				if r.Float64() < 0.15 {
					return 3*s + time.Duration(r.ExpFloat64()*float64(2*s))
				}
				return 20 * time.Millisecond
			}, s / 5, always, 60 * s},
	} {
		t.Run(c.fact, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				server := roundTripper(func(r *http.Request) (*http.Response, error) {
					seed, _ := strconv.ParseUint(r.Header.Get("Seed"), 10, 64)
					var again uint64
					if n, ok := r.Context().Value(sends{}).(*atomic.Uint64); ok {
						again = n.Add(1)
					}
					draw := rand.New(rand.NewPCG(seed, again))
					takes, status := c.takes(draw), http.StatusOK
					if draw.Float64() < c.share {
						takes, status = time.Millisecond, c.status
					}
					select {
					case <-r.Context().Done():
						return nil, r.Context().Err()
					case <-time.After(takes):
						return answer(r, status, ""), nil
					}
				})
				with, _ := client(t, c.p, server, gabion.WithSeed(1))
				plain := &http.Client{Transport: server, Timeout: 15 * s}
				var all sync.WaitGroup
				var answered [2]atomic.Int32
				began := time.Now()
				for i := 0; time.Since(began) < c.most; i++ {
					if !c.lasts(time.Since(began)) {
						time.Sleep(c.every)
						continue
					}
					for k, client := range []*http.Client{with, plain} {
						all.Go(func() {
							req := request(t, c.method, "http://slow.test/", "")
							req = req.WithContext(context.WithValue(req.Context(), sends{}, new(atomic.Uint64)))
							req.Header.Set("Seed", strconv.Itoa(i))
							resp, err := client.Do(req)
							if err != nil {
								return
							}
							resp.Body.Close()
							if resp.StatusCode == http.StatusOK {
								answered[k].Add(1)
							}
						})
					}
					time.Sleep(c.every)
				}
				all.Wait()
				if with, plain := answered[0].Load(), answered[1].Load(); with < plain-plain/100 {
					t.Errorf("%d calls are answered, and %d without gabion", with, plain)
				}
			})
		})
	}
}

// sends is the key of how often a call was sent.
type sends struct{}

func always(time.Duration) bool { return true }

// aboutThis is up to a quarter less or more.
func aboutThis(d time.Duration) func(*rand.Rand) time.Duration {
	return func(r *rand.Rand) time.Duration { return d*3/4 + time.Duration(r.Int64N(int64(d/2))) }
}
