package sim

import (
	"testing"
	"time"

	"github.com/gabion-go/gabion/lab/internal/draw"
)

// Pauses of L after gaps of G, and work of w that is shorter than G. Who comes in a pause waits for
// its rest, from 0 to L alike; who comes in the last w of a gap waits for all of the next one; all
// others wait for nothing.
func TestPausesDelayWhomTheyMeet(t *testing.T) {
	const gap, rest, work = 900.0, 100.0, 50.0
	w := steady(tries(t, 1), 200, 1000*time.Second, Service{Time: draw.Constant(work * ms), Pauses: Pauses{draw.Constant(gap * ms), draw.Constant(rest * ms)}})
	r := play(t, w)
	h := &r.Fleets[0].Answered
	near(t, "mean", h.Mean().Seconds()*1000, work+rest/(gap+rest)*rest/2+work/(gap+rest)*rest, 0.01)
	// 15 % wait at all, and of these 5 % for all of it: 12 % wait for 30 ms or longer.
	near(t, "p88", h.Quantile(0.88).Seconds()*1000, work+30, 0.03)
	near(t, "p97", h.Quantile(0.97).Seconds()*1000, work+100, 0.01)
	if d := h.Quantile(0.84); d > 51*ms {
		t.Errorf("p84 is %v, of work that meets no pause", d)
	}
}

// White and Christie, "Queuing with preemptive priorities or with breakdown", 1958: in a queue before
// one worker who breaks down at rate x and is mended at rate y, idle or not, there are on average
// λ ((x+y)² + μx) / ((x+y) (μy - λ(x+y))). Little's law makes a time of it.
func TestAQueueBeforeAPausingWorkerAgreesWithWhiteAndChristie(t *testing.T) {
	const rate, served, x, y = 60.0, 100.0, 0.5, 5.0
	w := steady(tries(t, 1), rate, 20_000*time.Second, Service{
		Workers: 1, Queue: 1 << 20, Time: draw.Exponential(10 * ms), Pauses: Pauses{draw.Exponential(2 * time.Second), draw.Exponential(200 * ms)},
	})
	w.Warmup = 10 * time.Second
	near(t, "mean", play(t, w).Fleets[0].Answered.Mean().Seconds(), ((x+y)*(x+y)+served*x)/((x+y)*(served*y-rate*(x+y))), 0.03)
}

// A replica that pauses says nothing, not even that it has no room, and one that is down is not there.
func TestWhoPausesRefusesNothingEither(t *testing.T) {
	resting := Pauses{draw.Constant(time.Second), draw.Constant(time.Second)}
	for _, c := range []struct {
		fact  string
		v     Service
		fault []Fault
		took  time.Duration
	}{
		{"no room", Service{Workers: 1, Pauses: resting, Time: draw.Constant(400 * ms)}, nil, 800 * ms},
		{"down", Service{Pauses: resting}, []Fault{{Kind: Refuse, For: time.Minute}}, 0},
	} {
		t.Run(c.fact, func(t *testing.T) {
			w := at(tries(t, 1), c.v, 700*ms, 1200*ms) // the first works on until 2100
			w.Faults = c.fault
			is(t, "the second's failure took", play(t, w).Fleets[0].Failed.Max(), c.took)
		})
	}
}

// Each replica has its own pauses, and nothing of them depends on what it does.
func TestPausesAreTheReplicasOwn(t *testing.T) {
	v := Service{Replicas: 2, Pauses: Pauses{draw.Exponential(time.Second), draw.Exponential(100 * ms)}}
	s := newSim(steady(tries(t, 1), 1, time.Second, v), 1, nil)
	first, second, again := newPauses(s, &service{Service: &v}, 0), newPauses(s, &service{Service: &v}, 1), newPauses(s, &service{Service: &v}, 0)
	if first.at(0, 0) == second.at(0, 0) {
		t.Error("both pause at once")
	}
	later := first.at(0, 20)
	for i := range 20 {
		again.done(again.at(0, 0).to.Add(-1), time.Duration(i)*ms)
	}
	for again.at(later.from, 0).from < later.from {
		again.at(again.at(later.from, 0).to, 0)
	}
	is(t, "the same pause", again.at(later.from, 0), later)
}
