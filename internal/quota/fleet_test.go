package quota_test

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/internal/quota"
	"github.com/gabion-go/gabion/policy"
)

// fleet is processes that share a dependency's quota, in virtual time. Each has more work than the quota
// allows. None hears of another.
type fleet struct {
	processes int
	workers   int // calls that a process wants to have under way at once
	quota     policy.Quota
	window    bool                       // the server's quota comes back at once, at the end of each span
	size      func(r *rand.Rand) float64 // of a call
	estimate  func(size float64) float64 // what its process says of it; nil: it says nothing
	latency   time.Duration              // to the server and back, half each way, and half as much again at random
	silent    bool                       // the server does not say what is left
	spans     int                        // for how long it is measured, after one span that is not

	now    clock.Instant
	events events
	rand   *rand.Rand
	server bucket
	groups []*quota.Group
	fleetResult
}

// fleetResult is what came of it, without the first span.
type fleetResult struct {
	used    float64 // of what came back
	answers int
	refused int
	served  []float64 // by process
}

func (r fleetResult) String() string {
	least, most := r.served[0], r.served[0]
	for _, s := range r.served {
		least, most = min(least, s), max(most, s)
	}
	return fmt.Sprintf("%.1f %% of the quota used, %d of %d answers refused (%.2f %%), a process had %.0f to %.0f", 100*r.used, r.refused, r.answers,
		100*float64(r.refused)/float64(max(r.answers, 1)), least, most)
}

type bucket struct {
	left float64
	at   clock.Instant
}

type event struct {
	at clock.Instant
	n  int
	do func()
}

type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].n < e[j].n
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

func (f *fleet) after(d time.Duration, do func()) {
	heap.Push(&f.events, event{f.now.Add(d), int(f.rand.Uint32()), do})
}

// trip is one way to the server or back.
func (f *fleet) trip() time.Duration {
	return f.latency/2 + time.Duration(f.rand.Float64()*float64(f.latency)/4)
}

// wakeFunc wakes a call of the fleet, in its own event.
type wakeFunc func()

func (w wakeFunc) Wake() { w() }

const someTime = clock.Instant(-17 * time.Second) // negative instants are ordinary

func (f *fleet) run() fleetResult {
	f.rand = rand.New(rand.NewPCG(1, uint64(f.processes)))
	f.now = someTime
	f.server = bucket{f.quota.Amount, f.now}
	f.served = make([]float64, f.processes)
	rules := policy.Policy{RateLimit: policy.RateLimit{Quotas: []policy.Quota{f.quota}}}.Resolved().RateLimit.Quotas
	for p := range f.processes {
		f.groups = append(f.groups, quota.New(f.now, rules))
		for range f.workers {
			f.after(time.Duration(f.rand.Float64()*float64(20*time.Millisecond)), func() { f.call(p) })
		}
	}
	end := f.now.Add(time.Duration(f.spans+1) * f.quota.Span)
	for len(f.events) > 0 {
		e := heap.Pop(&f.events).(event)
		if e.at > end {
			break
		}
		f.now = max(f.now, e.at)
		e.do()
	}
	for _, s := range f.served {
		f.used += s / (float64(f.spans) * f.quota.Amount)
	}
	return f.fleetResult
}

// call makes one call of the process, and then the next.
func (f *fleet) call(process int) {
	size := f.size(f.rand)
	var cost *quota.Cost
	if f.estimate != nil {
		cost = &quota.Cost{Unit: f.quota.Unit, Amount: f.estimate(size)}
	}
	r := f.groups[process].Reserve(cost, "", policy.PriorityNormal)
	var ask func()
	asked := 0
	ask = func() {
		asked++
		turn := asked
		at, a := r.Ask(f.now, clock.Never, wakeFunc(func() { f.after(0, func() { ask() }) }))
		switch {
		case turn != asked: // asked again meanwhile
		case a == quota.Taken:
			ask = func() {}
			f.after(f.trip(), func() { f.arrive(process, r, size) })
		case a == quota.Later:
			if at < clock.Never {
				f.after(at.Sub(f.now), func() {
					if turn == asked {
						ask()
					}
				})
			}
		default:
			panic("a call without a deadline was refused")
		}
	}
	ask()
}

func (f *fleet) arrive(process int, r *quota.Reservation, size float64) {
	s := &f.server
	span := f.quota.Span
	reset := time.Duration(0)
	if f.window {
		began := someTime.Add(f.now.Sub(someTime) / span * span)
		if s.at < began {
			s.left, s.at = f.quota.Amount, began
		}
		reset = began.Add(span).Sub(f.now)
	} else {
		s.left = min(f.quota.Amount, s.left+f.quota.Amount*f.now.Sub(s.at).Seconds()/span.Seconds())
		s.at = f.now
	}
	refused := s.left < size
	if !refused {
		s.left -= size
	}
	if f.now.Sub(someTime) >= span {
		f.answers++
		if refused {
			f.refused++
		} else {
			f.served[process] += size
		}
	}
	word := policy.Remaining{Unit: f.quota.Unit, Left: s.left, Limit: f.quota.Amount, Reset: reset}
	f.after(f.trip(), func() {
		if !f.silent {
			r.Told(f.now, []policy.Remaining{word})
		}
		if !refused {
			r.Spent(f.now, f.quota.Unit, size)
		}
		r.End(f.now, false, refused)
		wait := time.Duration(0)
		if refused {
			wait = span / 20
		}
		f.after(wait, func() { f.call(process) })
	})
}

// mixed is many small calls and some large ones, 1,000 on average.
func mixed(r *rand.Rand) float64 {
	if r.IntN(10) == 0 {
		return 2000 + r.Float64()*4000
	}
	return 200 + r.Float64()*860
}

func times(by float64) func(float64) float64 { return func(size float64) float64 { return size * by } }

// A fleet uses a quota whole, and is hardly ever refused.
func TestFleetsUseTheirQuotaWhole(t *testing.T) {
	tokens := policy.Quota{Unit: "tokens", Amount: 200_000, Span: time.Minute, Estimate: 1000}
	windowed := tokens
	windowed.Window = true
	short := policy.Quota{Unit: "tokens", Amount: 200_000, Span: 2 * time.Second, Estimate: 1000}
	hourly := policy.Quota{Unit: "tokens", Amount: 2_000_000, Span: time.Hour, Estimate: 1000}
	among := tokens
	among.Among = 10
	for _, tt := range []struct {
		fact string
		f    fleet
		used float64
		most float64 // refused, of all answers
	}{
		{"one, whose calls say what they cost", fleet{processes: 1, workers: 20, quota: tokens, estimate: times(1)}, 0.97, 0.005},
		{"one, whose calls say nothing", fleet{processes: 1, workers: 20, quota: tokens}, 0.97, 0.005},
		{"one, whose calls say a third", fleet{processes: 1, workers: 20, quota: tokens, estimate: times(1.0 / 3)}, 0.97, 0.005},
		{"one, whose calls say three times", fleet{processes: 1, workers: 20, quota: tokens, estimate: times(3)}, 0.97, 0.005},
		{"one, of a silent server", fleet{processes: 1, workers: 20, quota: tokens, estimate: times(1), silent: true}, 0.97, 0.005},
		{"ten", fleet{processes: 10, workers: 4, quota: tokens, estimate: times(1)}, 0.97, 0.005},
		{"ten, whose calls say a third", fleet{processes: 10, workers: 4, quota: tokens, estimate: times(1.0 / 3)}, 0.97, 0.005},
		{"ten, whose calls say three times", fleet{processes: 10, workers: 4, quota: tokens, estimate: times(3)}, 0.97, 0.005},
		{"ten by agreement, of a silent server", fleet{processes: 10, workers: 4, quota: among, estimate: times(1), silent: true}, 0.97, 0.005},
		{"fifty", fleet{processes: 50, workers: 2, quota: tokens, estimate: times(1)}, 0.97, 0.005},
		{"fifty, whose calls say nothing", fleet{processes: 50, workers: 2, quota: tokens}, 0.97, 0.005},
		{"fifty of an hourly quota", fleet{processes: 50, workers: 2, quota: hourly, estimate: times(1)}, 0.97, 0.005},
		{"fifty of a short one", fleet{processes: 50, workers: 2, quota: short, estimate: times(1)}, 0.97, 0.005},
		{"one of a window", fleet{processes: 1, workers: 20, quota: windowed, window: true, estimate: times(1)}, 0.97, 0.005},
		{"ten of a window", fleet{processes: 10, workers: 4, quota: windowed, window: true, estimate: times(1)}, 0.97, 0.005},
		{"fifty of a window", fleet{processes: 50, workers: 2, quota: windowed, window: true, estimate: times(1)}, 0.97, 0.005},
	} {
		t.Run(tt.fact, func(t *testing.T) {
			f := tt.f
			f.size, f.latency, f.spans = mixed, 100*time.Millisecond, 6
			got := f.run()
			t.Log(got)
			if got.used < tt.used || float64(got.refused) > tt.most*float64(got.answers) {
				t.Errorf("want %.0f %% used at least, and %.1f %% refused at most", 100*tt.used, 100*tt.most)
			}
		})
	}
}
