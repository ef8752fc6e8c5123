package sim

import (
	"testing"
	"time"

	"github.com/gabion-go/gabion/internal/bulkhead"
	"github.com/gabion-go/gabion/internal/learned"
	"github.com/gabion-go/gabion/lab/internal/draw"
	"github.com/gabion-go/gabion/policy"
)

// Sixteen workers of 10 ms can do 1600 requests a second.
func admitting(a *Admission) Service {
	return Service{Workers: 16, Queue: 10_000, Time: draw.Exponential(10 * ms), Admission: a}
}

func fixed(n int) *Admission { return &Admission{Limit: n} }

// shop is a fleet of a thousand clients.
func shop(t *testing.T, rate float64, p bulkhead.Priority) Fleet {
	return Fleet{Clients: 1000, Load: Steady(rate), Plan: Plan{Steps: []Step{{Edge: Edge{Rules: tries(t, 1, attemptTimeout(time.Second)), Deadline: true, Priority: p}}}}}
}

func serving(v Service, fleets ...Fleet) *World {
	return &World{Duration: 16 * time.Second, Warmup: 4 * time.Second, Bin: time.Hour, Fleets: fleets, Services: []Service{v}}
}

// A server that can do all that comes refuses nothing, and one that can't does what it
// can. Without an admission everybody waits for a second and leaves.
func TestAdmissionRefusesOnlyWhatIsTooMuch(t *testing.T) {
	for _, c := range []struct {
		fact  string
		v     Service
		times float64 // of the capacity
		good  float64 // share of the capacity that is answered in time
		p99   time.Duration
	}{
		{"nine tenths, nothing is refused", admitting(fixed(16)), 0.9, 0.9, 80 * ms},
		{"a pool of four at eight tenths", Service{Workers: 4, Queue: 10_000, Time: draw.Exponential(40 * ms / 16), Admission: fixed(4)}, 0.8, 0.8, 80 * ms},
		{"three times as much", admitting(fixed(16)), 3, 1, 85 * ms},
		{"three times as much, newest first", admitting(&Admission{Limit: 16, NewestFirst: true}), 3, 1, 85 * ms},
		{"twice as much, and a learned limit", admitting(&Admission{Limit: 100, Learn: &learned.Bounds{Min: 1, Max: 1000}}), 2, 1, 150 * ms},
		{"three times as much, and a refusal costs a hundredth", func() Service { v := admitting(fixed(16)); v.RefuseCost = 0.01; return v }(), 3, 0.98, 85 * ms},
		{"three times as much, and no admission", admitting(nil), 3, 0, 0},
	} {
		t.Run(c.fact, func(t *testing.T) {
			r := play(t, serving(c.v, shop(t, 1600*c.times, 0)))
			got := float64(r.Fleets[0].Good) / float64(r.Fleets[0].Offered) * c.times
			if got < c.good-0.05 || got > c.good+0.05 {
				t.Errorf("a share of %.3f of the capacity is answered in time, want %.2f", got, c.good)
			}
			if p99 := r.Fleets[0].Answered.Quantile(0.99); c.p99 > 0 && p99 > c.p99 {
				t.Errorf("p99 is %v, want at most %v", p99, c.p99)
			}
			if n := r.Services[0].Refused + r.Services[0].Dropped; c.times < 1 && n != 0 {
				t.Errorf("%d of %d were refused, and there was no need to", n, r.Fleets[0].Offered)
			}
		})
	}
}

// A flood of one priority, or of one tenant, is refused, and no other request is.
func TestAFloodConcernsOnlyWhoMakesIt(t *testing.T) {
	for _, c := range []struct {
		fact   string
		a      *Admission
		flood  bulkhead.Priority
		others float64 // share that is answered in time
	}{
		{"of low priority", fixed(16), bulkhead.Low, 0.999},
		{"of one tenant", &Admission{Limit: 16, Fair: true}, bulkhead.Normal, 0.99},
		{"of one tenant that may have half", &Admission{Limit: 16, Fair: true, TenantShare: 0.5}, bulkhead.Normal, 0.999},
		{"of anybody", fixed(16), bulkhead.Normal, 0},
	} {
		t.Run(c.fact, func(t *testing.T) {
			r := play(t, serving(admitting(c.a), shop(t, 300, bulkhead.Normal), shop(t, 4800, c.flood)))
			got := good(r, 0)
			if c.others == 0 && got > 0.6 || c.others > 0 && got < c.others {
				t.Errorf("a share of %.4f of the others' requests is answered in time, want %.3f", got, c.others)
			}
		})
	}
}

// Callers with retries of their own, which honour Retry-After and the mark, add nothing to
// an overload; and what was refused in a burst succeeds when they come again.
func TestRetriesOfThoseWhoAreRefused(t *testing.T) {
	for _, c := range []struct {
		fact  string
		load  Load
		tries float64 // at most, for each call
		good  float64 // at least
	}{
		{"twice the capacity all the time", Steady(3200), 1.15, 0.45},
		{"a burst of ten times the capacity for a tenth of a second", Load{{0, 800}, {8 * time.Second, 800}, {8 * time.Second, 16000}, {8100 * ms, 16000}, {8100 * ms, 800}, {16 * time.Second, 800}}, 1.16, 0.985},
	} {
		t.Run(c.fact, func(t *testing.T) {
			f := shop(t, 0, 0)
			f.Load = c.load
			f.Plan.Steps[0].Edge.Rules = tries(t, 3, func(p *policy.Policy) { p.Timeout.Call = 5 * time.Second })
			r := play(t, serving(admitting(fixed(16)), f))
			e := r.Edges[0]
			if got := float64(e.Attempts) / float64(e.Calls); got > c.tries {
				t.Errorf("%.3f attempts for each call, want at most %.3f", got, c.tries)
			}
			if got := good(r, 0); got < c.good {
				t.Errorf("a share of %.4f is answered, want %.3f", got, c.good)
			}
		})
	}
}

// An admission says when to come again, and that it is no use. A plain loop reads neither.
func TestALoopThatIgnoresHintsTriesAsOftenAsItMay(t *testing.T) {
	for _, c := range []struct {
		fact        string
		blunt       bool
		least, most float64 // attempts for each call
		late        time.Duration
	}{
		{"who reads them tries once, for all are told that it is no use", false, 1, 1.1, 1500 * ms},
		{"who does not tries three times at once", true, 2.2, 3, 100 * ms},
	} {
		t.Run(c.fact, func(t *testing.T) {
			fleet := shop(t, 4800, 0)
			edge := &fleet.Plan.Steps[0].Edge
			edge.Rules, edge.Blunt = tries(t, 3, attemptTimeout(time.Second)), c.blunt
			r := play(t, serving(admitting(fixed(16)), fleet))
			e := &r.Edges[0]
			if got := float64(e.Attempts) / float64(e.Calls); got < c.least || got > c.most {
				t.Errorf("%.2f attempts for each call, want %g to %g", got, c.least, c.most)
			}
			if p99 := r.Fleets[0].Answered.Quantile(0.99); p99 > c.late {
				t.Errorf("p99 is %v, want at most %v", p99, c.late)
			}
		})
	}
}
