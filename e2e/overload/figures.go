package overload

import (
	"math"
	"slices"
	"time"
)

// A Phase is a part of a run: the calls that were due in it, and the attempts that were
// sent in it.
type Phase struct {
	Goodput       float64            // answered in time, as a share of the capacity
	Answered      float64            // the same, as a share of the calls
	P50, P90, P99 float64            // of the calls that were answered, milliseconds since they were due; 0 of none
	Admitted      float64            // p99 of the attempts that were answered well, milliseconds; 0 of none
	PerCall       float64            // attempts for each call
	Endings       map[string]float64 `json:",omitempty"` // the other calls by what became of them, as shares
	Attempted     float64            // attempts a second, as a share of the capacity
}

// Figures are what a run comes to, in real time or in the lab.
type Figures struct {
	Before, Trigger, After Phase
	Recovery               float64    // seconds from the end of the trigger, of several runs the median; Never
	Recoveries             [2]float64 // of several runs the shortest and the longest, which may be Never
	Wasted                 float64    // work for callers who had gone, as a share of all work
}

// Never is the recovery of what did not recover while it was watched.
const Never = -1

// never takes the infinite for Never, which JSON has no number for.
func never(seconds float64) float64 {
	if math.IsInf(seconds, 1) {
		return Never
	}
	return seconds
}

var endings = [numEndings]string{good: "answered", refused: "refused by the server", stopped: "refused by the client", timedOut: "out of time", failed: "failed otherwise"}

// Figures returns what the run came to.
func (r *Run) Figures() Figures {
	w := &r.World
	change, end := w.Before, w.Before+w.Trigger
	f := Figures{
		Before: r.phase(0, change), Trigger: r.phase(change, end), After: r.phase(end, w.Duration()),
		Recovery: never(w.recovery(r.seconds())),
	}
	f.Recoveries = [2]float64{f.Recovery, f.Recovery}
	if r.served > 0 {
		f.Wasted = float64(r.wasted) / float64(r.served)
	}
	return f
}

func (r *Run) phase(from, to time.Duration) (p Phase) {
	within := func(at time.Duration) bool { return at >= from && at < to }
	var took, admitted []time.Duration
	var ends [numEndings]float64
	n := 0.0
	for _, c := range r.calls {
		if !within(c.due) {
			continue
		}
		n++
		ends[c.end]++
		if c.end == good {
			took = append(took, c.took)
		}
	}
	for _, a := range r.attempts.well {
		if within(a.sent) {
			admitted = append(admitted, a.took)
		}
	}
	sent := 0.0
	for _, at := range r.attempts.sent {
		if within(at) {
			sent++
		}
	}
	capacity := r.World.Capacity() * (to - from).Seconds()
	p.Goodput, p.Attempted = ends[good]/capacity, sent/capacity
	p.Answered, p.PerCall = ends[good]/n, sent/n
	p.P50, p.P90, p.P99, p.Admitted = quantile(took, 0.5), quantile(took, 0.9), quantile(took, 0.99), quantile(admitted, 0.99)
	p.Endings = map[string]float64{}
	for e := refused; e < numEndings; e++ {
		if ends[e] > 0 {
			p.Endings[endings[e]] = ends[e] / n
		}
	}
	return p
}

// quantile returns milliseconds, and 0 of so few that none is beyond it.
func quantile(all []time.Duration, p float64) float64 {
	if float64(len(all))*(1-p) < 1-1e-9 {
		return 0
	}
	slices.Sort(all)
	at := int(math.Ceil(p*float64(len(all)))) - 1
	return float64(all[at]) / 1e6
}

// second is what ended in a second of a run.
type second struct{ good, ended, due float64 }

func (r *Run) seconds() []second {
	all := make([]second, int(r.World.Duration()/time.Second))
	for _, c := range r.calls {
		if i := int(c.due / time.Second); i < len(all) {
			all[i].due++
		}
		i := int((c.due + c.took) / time.Second)
		if i >= len(all) {
			continue
		}
		all[i].ended++
		if c.end == good {
			all[i].good++
		}
	}
	return all
}

// recovery is how many seconds after the trigger a second was last wrong, by the lab's
// rule: the share of good endings is at 99 % of what it was before, less four standard
// deviations of what chance does to it. What recovers has also to answer as many
// calls as are due.
func (w *World) recovery(seconds []second) float64 {
	var before second
	for _, s := range seconds[:int(w.Before/time.Second)] {
		before.good, before.ended = before.good+s.good, before.ended+s.ended
	}
	base := before.good / before.ended
	first := int((w.Before + w.Trigger + time.Second - 1) / time.Second)
	for i := len(seconds) - 1; i >= first; i-- {
		s := seconds[i]
		wrong := s.ended == 0 && s.due > 0 || s.ended > 0 && s.good/s.ended < 0.99*base-noise(base*(1-base), s.ended)
		switch {
		case wrong && i == len(seconds)-1:
			return math.Inf(1)
		case wrong:
			return float64(i + 1 - first)
		}
	}
	return 0
}

func noise(variance, n float64) float64 { return 4 * math.Sqrt(max(variance, 0.0099)/max(n, 1)) }
