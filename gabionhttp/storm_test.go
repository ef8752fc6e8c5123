package gabionhttp_test

import (
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/policy"
)

// The storm: 200 calls a second, and for ten seconds the dependency answers 503 to
// 80 % of them.
const (
	stormRate  = 200
	stormLasts = 10 * time.Second
	stormTail  = 2 * time.Second // the calls go on, and all is well again
	waitCap    = time.Second
	oneAttempt = 250 * time.Millisecond
)

// storm is one run: what came in at the dependency, and from how many calls.
type storm struct {
	calls, requests     atomic.Int64
	inStorm, stormCalls atomic.Int64
	stormSuccesses      atomic.Int64
	helped              atomic.Int64 // of them, those of retries
	last                atomic.Int64 // when the last retry arrived, after the start
}

// TestStormStaysWithinTheBudget is SPEC D3 over real HTTP, in made-up time: whatever
// the attempts, the dependency sees the calls, and on average as many requests more as
// its successes earned, and retries end soon after the fault does. It runs for twelve
// seconds, with nothing but the budget to hold the load, and once with every default.
func TestStormStaysWithinTheBudget(t *testing.T) { synctest.Test(t, stormStaysWithinTheBudget) }

func stormStaysWithinTheBudget(t *testing.T) {
	bare := func(attempts int) policy.Policy {
		return policy.Policy{
			Timeout:  policy.Timeout{Call: 15 * time.Second, Attempt: oneAttempt},
			Retry:    policy.Retry{Attempts: attempts, Backoff: backoff.Full(50*time.Millisecond, waitCap)},
			Breaker:  policy.Breaker{Off: true},
			Bulkhead: policy.Bulkhead{Off: true},
		}
	}
	runs := []struct {
		name   string
		policy policy.Policy
		storm  storm
	}{
		{name: "attempts 3", policy: bare(3)},
		{name: "attempts 8", policy: bare(8)},
		{name: "defaults", policy: policy.Policy{}},
	}
	var all sync.WaitGroup
	for i := range runs {
		all.Go(func() { runs[i].storm.rage(t, runs[i].policy) })
	}
	all.Wait()
	for i := range runs {
		r := &runs[i].storm
		calls, requests := r.calls.Load(), r.requests.Load()
		t.Logf("%s: %d calls, %d requests (%.3f×); in the storm %d calls, %d requests (%.3f×); last retry %v after the fault",
			runs[i].name, calls, requests, float64(requests)/float64(calls), r.stormCalls.Load(), r.inStorm.Load(),
			float64(r.inStorm.Load())/float64(r.stormCalls.Load()), time.Duration(r.last.Load())-stormLasts)
		// In the storm a success earns its part, a retry that succeeds gives back what it cost and
		// half of another, and what was there at its begin is little. Parts
		// are granted by chance: five times the root is passed once in a million.
		earned := 0.3*float64(r.stormSuccesses.Load()) + 1.5*float64(r.helped.Load()) + 6
		if more := float64(r.inStorm.Load() - r.stormCalls.Load()); more > earned+5*math.Sqrt(earned) {
			t.Errorf("%s: %.0f requests more than calls in the storm, where %.0f were earned", runs[i].name, more, earned)
		}
	}
	for i := range runs[:2] {
		// A retry waits for the longest back-off at most and is sent then.
		if late := time.Duration(runs[i].storm.last.Load()) - stormLasts; late > waitCap {
			t.Errorf("%s: a retry came %v after the fault had ended", runs[i].name, late)
		}
	}
	three, eight := float64(runs[0].storm.requests.Load()), float64(runs[1].storm.requests.Load())
	if diff := (eight - three) / three; diff > 0.03 || diff < -0.03 {
		t.Errorf("attempts 8 sent %.1f %% more than attempts 3", 100*diff)
	}
}

func (s *storm) rage(t *testing.T, p policy.Policy) {
	p.Trust = policy.Internal // so that retries say that they are
	begin := time.Now()
	server := servePiped(t, func(w http.ResponseWriter, r *http.Request) {
		at := time.Since(begin)
		s.requests.Add(1)
		if r.Header.Get("X-Request-Attempt") != "1" {
			s.last.Store(max(s.last.Load(), int64(at)))
		}
		if at >= stormLasts {
			return
		}
		s.inStorm.Add(1)
		if rand.Float64() < 0.8 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		s.stormSuccesses.Add(1)
		if r.Header.Get("X-Request-Attempt") != "1" {
			s.helped.Add(1)
		}
	})
	c, _ := client(t, p, base(t, server))
	var calls sync.WaitGroup
	tick := time.NewTicker(time.Second / stormRate)
	defer tick.Stop()
	for now := range tick.C {
		at := now.Sub(begin)
		if at >= stormLasts+stormTail {
			break
		}
		s.calls.Add(1)
		if at < stormLasts {
			s.stormCalls.Add(1)
		}
		calls.Go(func() {
			resp, err := c.Get(server.URL)
			if err != nil {
				return // refused or failed: only what arrives counts
			}
			io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		})
	}
	calls.Wait()
}
