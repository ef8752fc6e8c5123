package sim

import (
	"slices"
	"testing"
	"time"

	"github.com/gabion-go/gabion/lab/internal/draw"
	"github.com/gabion-go/gabion/policy"
)

// Work counts to the phase in which it began, requests to that in which they were
// made, and nothing is lost between the two.
func TestPhasesAreThePartsOfARun(t *testing.T) {
	w := station(t, 10, 0, draw.Constant(time.Second), 30*time.Second)
	w.Warmup, w.Drain = 0, time.Minute
	w.Fleets[0].Even = true
	whole := Run(w, 1)
	w.Cuts = []time.Duration{10 * time.Second, 20 * time.Second}
	r := Run(w, 1)
	var sum Counts
	sum.Ended = map[policy.Reason]int64{}
	for i := range r.Phases {
		f := &r.Phases[i].Fleets[0]
		if f.Offered != f.Good || f.Offered < 99 || f.Offered > 101 || f.Latency.N() != f.Offered {
			t.Errorf("phase %d: %d begun, %d good, %d timed", i, f.Offered, f.Good, f.Latency.N())
		}
		if n := &r.Phases[i].Edges[0]; n.Calls != f.Offered || n.Ended[policy.None] != f.Good {
			t.Errorf("phase %d: of %d calls %d ended well, of %d pieces of work %d", i, n.Calls, n.Ended[policy.None], f.Offered, f.Good)
		}
		sum.add(&r.Phases[i].Edges[0])
	}
	if sum.Calls != r.Edges[0].Calls || sum.Calls != whole.Edges[0].Calls || r.Fleets[0].Good != whole.Fleets[0].Good {
		t.Errorf("%d calls in phases, %d in all, %d uncut", sum.Calls, r.Edges[0].Calls, whole.Edges[0].Calls)
	}
	// An answer is a second later than its call.
	if got := r.Phases[0].Services[0].Effects; got < 89 || got > 91 {
		t.Errorf("%d pieces of work were done in the first phase", got)
	}
	if broken := slices.Concat(r.Broken, whole.Broken); len(broken) > 0 {
		t.Error(broken)
	}
}

func TestOneClientIsWatched(t *testing.T) {
	w := outage(t, 10, 50, 30*time.Second)
	plain := Run(w, 3)
	returned, others := int64(0), 0
	calls := map[uint64]bool{}
	r := RunWatched(w, 3, &Watch{Client: 4, Tell: func(call uint64, edge int, e policy.Event) {
		calls[call] = true
		if e.Kind == policy.KindReturned {
			returned++
		}
		if edge != 0 {
			others++
		}
	}})
	if r.Hash != plain.Hash {
		t.Error("a run that is watched is another one")
	}
	if returned == 0 || returned != int64(len(calls)) || returned > r.Edges[0].Calls/5 || others > 0 {
		t.Errorf("%d of %d calls came back, of %d in all", returned, len(calls), r.Edges[0].Calls)
	}
}
