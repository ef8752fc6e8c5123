package flaky

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion/internal/machine"
	"github.com/gabion-go/gabion/lab/internal/sim"
	"github.com/gabion-go/gabion/policy"
)

// parity is a plan with most kinds of faults, those that come again and those that grow.
const parity = `version: 1
service: {workers: 4, queue: 8, time: lognormal 20ms/80ms, honours_keys: true, limit: {rate: 80/s, burst: 10, retry_after: 1s}}
faults:
  - {kind: errors, at: 1s, for: 2s, share: 50%, ramp: 500ms, status: 503, retry_after: 2s}
  - {kind: lost_answers, at: 2s, for: 3s, share: 40%}
  - {kind: reset, at: 4s, for: 300ms, share: 80%, every: 1s, until: 7s}
  - {kind: brown_out, at: 5s, for: 2s, factor: 0.3}
  - {kind: errors, at: 6s, for: 1s, share: 30%, after_work: true}
  - {kind: restart, at: 8s, for: 200ms, ramp: 500ms}
`

// what one attempt came to.
type came struct {
	call string
	try  int
	took time.Duration
	what string
}

// One plan makes the same decisions in the lab and on the server: the same attempts meet
// the same faults at the same times, for all that the callers hear.
func TestOnePlanTheSameDecisionsInTheLabAndHere(t *testing.T) {
	for seed := uint64(1); seed <= 3; seed++ {
		p, err := Parse("plan", []byte(parity))
		if err != nil {
			t.Fatal(err)
		}
		at, want := inLab(t, p, seed)
		got := onServer(t, p, seed, at)
		faults := map[string]bool{}
		for name, w := range want {
			faults[w.what] = true
			if g := got[name]; g != w {
				t.Fatalf("seed %d: the lab\n%+v\nand the server\n%+v", seed, w, g)
			}
		}
		if len(want) < 500 || len(faults) < 5 {
			t.Errorf("only %d attempts were compared, with %v", len(want), faults)
		}
	}
}

// sent is when an attempt was sent.
type sent struct {
	call string
	at   time.Duration
}

func inLab(t *testing.T, p *Plan, seed uint64) (all []sent, heard map[string]came) {
	t.Helper()
	w := world(t, p)
	heard = map[string]came{}
	sim.RunWatched(w, seed, &sim.Watch{
		Whole: true,
		Tell: func(call uint64, _ int, e policy.Event) {
			if e.Kind == policy.KindAttemptSent {
				all = append(all, sent{fmt.Sprintf("%x", call), time.Duration(e.At)})
			}
		},
		Heard: func(call uint64, _, try int, took time.Duration, o policy.Outcome) {
			c := came{fmt.Sprintf("%x", call), try, took, o.Code}
			if o.NeverSent || o.Code == "" {
				c.what = "reset" // a recorder has no connection to refuse
			}
			if o.HasAfter {
				c.what += fmt.Sprint(" after ", int(o.After/time.Second))
			}
			heard[fmt.Sprint(c.call, c.try)] = c
		},
	})
	slices.SortStableFunc(all, func(a, b sent) int { return int(a.at - b.at) })
	return all, heard
}

// world is a fleet of one client and the plan's service.
func world(t *testing.T, p *Plan) *sim.World {
	t.Helper()
	rules, err := machine.Compile(policy.Policy{Safe: true, Timeout: policy.Timeout{Call: 5 * time.Second, Attempt: time.Second}, Retry: policy.Retry{Budget: policy.Budget{Off: true}}, Breaker: policy.Breaker{Off: true}, Bulkhead: policy.Bulkhead{Off: true}, Pace: policy.Pace{Off: true}})
	if err != nil {
		t.Fatal(err)
	}
	w, err := p.file.World()
	if err != nil {
		t.Fatal(err)
	}
	w.Duration = 10 * time.Second
	w.Fleets = []sim.Fleet{{Clients: 1, Load: sim.Steady(60), Plan: sim.Plan{Steps: []sim.Step{{Edge: sim.Edge{Rules: rules, Keyed: true}}}}}}
	return w
}

func onServer(t *testing.T, p *Plan, seed uint64, at []sent) map[string]came {
	t.Helper()
	var mu sync.Mutex // guards heard and tries
	heard, tries := map[string]came{}, map[string]int{}
	synctest.Test(t, func(t *testing.T) {
		s, err := New(p, Options{Seed: seed})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		s.name = func(key string) uint64 {
			n, _ := strconv.ParseUint(key, 16, 64)
			return n
		}
		s.Start()
		start := time.Now()
		for _, a := range at {
			time.Sleep(a.at - time.Since(start))
			mu.Lock()
			tries[a.call]++
			c := came{call: a.call, try: tries[a.call]}
			mu.Unlock()
			go func() {
				began := time.Now()
				c.what = ask(s, a.call)
				c.took = time.Since(began)
				mu.Lock()
				defer mu.Unlock()
				heard[fmt.Sprint(c.call, c.try)] = c
			}()
			synctest.Wait()
		}
		time.Sleep(time.Minute)
	})
	return heard
}

// ask returns what the server says to one request.
func ask(s *Server, key string) (what string) {
	defer func() {
		if recover() != nil {
			what = "reset"
		}
	}()
	r := httptest.NewRequest(http.MethodPost, "/", nil)
	r.Header.Set("Idempotency-Key", key)
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	what = strconv.Itoa(w.Code)
	if after := w.Header().Get("Retry-After"); after != "" {
		what += " after " + after
	}
	return what
}
