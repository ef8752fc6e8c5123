package gabionhttp_test

import (
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion/policy"
)

// Answers of 6 s outlast the default's attempts and its probes. After an outage the breaker has to find out that they come.
func TestADependencyOfSlowAnswersIsBackAfterAnOutage(t *testing.T) {
	const begins, ends, lasts = 20 * time.Second, 50 * time.Second, 120 * time.Second
	errs := func(r *http.Request) (*http.Response, error) {
		return answer(r, http.StatusInternalServerError, ""), nil
	}
	silence := func(r *http.Request) (*http.Response, error) { <-r.Context().Done(); return nil, r.Context().Err() }
	for _, c := range []struct {
		fact   string
		outage roundTripper
		from   time.Duration
	}{
		{"of errors", errs, begins},
		{"of silence", silence, begins},
		{"of silence, and nothing was answered before", silence, 0},
	} {
		t.Run(c.fact, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				client, _ := client(t, policy.Policy{}, roundTripper(func(r *http.Request) (*http.Response, error) {
					if at := time.Since(began); at >= c.from && at < ends {
						return c.outage(r)
					}
					select {
					case <-r.Context().Done():
						return nil, r.Context().Err()
					case <-time.After(6 * time.Second):
						return answer(r, http.StatusOK, ""), nil
					}
				}))
				var all sync.WaitGroup
				var calls, answered atomic.Int32
				for time.Since(began) < lasts {
					late := time.Since(began) > ends+30*time.Second
					all.Go(func() {
						resp, err := client.Do(request(t, http.MethodGet, "http://slow.test/", ""))
						if late {
							calls.Add(1)
						}
						if err == nil {
							resp.Body.Close()
							if late && resp.StatusCode == http.StatusOK {
								answered.Add(1)
							}
						}
					})
					time.Sleep(100 * time.Millisecond)
				}
				all.Wait()
				if calls, answered := calls.Load(), answered.Load(); answered != calls {
					t.Errorf("%d of %d calls were answered half a minute after the outage", answered, calls)
				}
			})
		})
	}
}
