package gabiontest

import (
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/policy"
)

// Recorder is an Observer that keeps every event. The zero Recorder is ready. It
// is safe for concurrent use.
type Recorder struct {
	mu     sync.Mutex // guards events
	events []gabion.Event
}

// Observe implements gabion.Observer.
func (r *Recorder) Observe(_ context.Context, e gabion.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e)
}

// Events returns what was recorded, in order.
func (r *Recorder) Events() []gabion.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.events)
}

// Decisions returns every event as its one line, without times.
func (r *Recorder) Decisions() []string {
	var lines []string
	for _, e := range r.Events() {
		lines = append(lines, e.String())
	}
	return lines
}

// Load is what a dependency was made to bear.
type Load struct {
	Calls    int // calls that ended
	Attempts int // attempts that were sent
	Hedges   int // of them hedges
	Failed   int // calls that ended without success
	Refused  map[gabion.Reason]int
}

// Amplification is attempts per call, refused calls included: above 1 the
// dependency bears more than its callers asked for.
func (l Load) Amplification() float64 {
	if l.Calls == 0 {
		return 0
	}
	return float64(l.Attempts) / float64(l.Calls)
}

// Load counts what was recorded.
func (r *Recorder) Load() Load {
	l := Load{Refused: map[gabion.Reason]int{}}
	for _, e := range r.Events() {
		l.add(&e)
	}
	return l
}

func (l *Load) add(e *gabion.Event) {
	switch e.Kind {
	case policy.KindAttemptSent:
		l.Attempts++
		if e.Hedge {
			l.Hedges++
		}
	case policy.KindReturned:
		l.Calls++
		if e.Reason != policy.None {
			l.Failed++
		}
	case policy.KindAttemptRefused:
		l.Refused[e.Reason]++
	}
}

// WantAttempts fails the test unless exactly want attempts were sent.
func (r *Recorder) WantAttempts(t testing.TB, want int) {
	t.Helper()
	if got := r.Load().Attempts; got != want {
		t.Errorf("%d attempts were sent, want %d\n%s", got, want, r.Decisions())
	}
}

// WantLoad fails the test if more was sent than ratio attempts per call and floor
// more. The default retry budget is a ratio of 1.3 and a floor of 2. One with
// shape: window of 10 % and 1/s is a ratio of 1.1 and a floor of one per second of the
// test and window.
func (r *Recorder) WantLoad(t testing.TB, ratio float64, floor int) {
	t.Helper()
	l := r.Load()
	if most := ratio*float64(l.Calls) + float64(floor); float64(l.Attempts) > most {
		t.Errorf("%d attempts for %d calls: %.2f per call, want at most %.0f in all", l.Attempts, l.Calls, l.Amplification(), most)
	}
}

// WantReason fails the test unless err is a call's end for that reason; policy.None
// wants success.
func WantReason(t testing.TB, err error, want gabion.Reason) {
	t.Helper()
	if got := gabion.ReasonOf(err); got != want || (err == nil) != (want == policy.None) {
		t.Errorf("the call ended with %v (%s), want %s", err, got, want)
	}
}
