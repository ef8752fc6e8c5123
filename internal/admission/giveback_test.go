package admission

import (
	"testing"
	"time"

	"github.com/gabion-go/gabion/internal/clock"
)

// overloaded has a gate go through an interval in which no request was served in time.
func overloaded(g *Gate) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.control.late(at(0))
	g.control.late(at(g.rules.Interval))
	g.setState()
}

// A slot that comes when nothing can be done with it any more goes to the next one.
func TestASlotThatComesTooLateIsGivenBack(t *testing.T) {
	ask := func(g *Gate, now clock.Instant, w *Wait) (Slot, Answer) { return g.Ask(now, w) }
	leave := func(g *Gate, now clock.Instant, w *Wait) (Slot, Answer) { return g.Leave(now, w) }
	for _, c := range []struct {
		fact string
		end  func(*Gate, clock.Instant, *Wait) (Slot, Answer)
		over bool          // in an overload, so that it is handed over by who refuses others
		work time.Duration // that is known to be needed
		at   time.Duration // when the slot is seen; the deadline is at 150 ms
		want Answer
	}{
		{"it is seen in time", ask, false, 0, 149 * ms, Admitted},
		{"it is seen in time in an overload", ask, true, 0, 149 * ms, Admitted},
		{"it is seen by one who leaves", leave, false, 0, 149 * ms, Admitted},
		{"it is seen by one who leaves in an overload", leave, true, 0, 149 * ms, Admitted},
		{"it is seen at the deadline", ask, false, 0, 150 * ms, Expired},
		{"it is seen at the deadline in an overload", ask, true, 0, 150 * ms, Expired},
		{"it is seen at the deadline by one who leaves", leave, false, 0, 150 * ms, Expired},
		{"it is seen at the deadline by one who leaves in an overload", leave, true, 0, 150 * ms, Expired},
		{"it is seen with too little time for the work", ask, false, 20 * ms, 132 * ms, Short},
		{"it is seen with time for the work", ask, false, 20 * ms, 129 * ms, Admitted},
	} {
		t.Run(c.fact, func(t *testing.T) {
			g := New(Rules{Limit: 1, Queue: 10, Target: 5 * ms, Interval: 100 * ms, Shards: 1})
			for range 100 {
				g.Ended(at(50*ms), at(50*ms-c.work), clock.Never, true)
			}
			slot, _ := g.Enter(at(100*ms), "")
			if c.over {
				overloaded(g)
			}
			var v visitor
			g.Join(at(100*ms), &v.Wait, &v, 0, "", at(150*ms))
			g.Release(at(120*ms), slot)
			if v.rung != 1 {
				t.Fatalf("woken %d times", v.rung)
			}
			s, a := c.end(g, at(c.at), &v.Wait)
			if a != c.want || s.Held() != (a == Admitted) {
				t.Fatalf("answer %d with the slot %v, want %d", a, s, c.want)
			}
			if again, a := g.Ask(at(c.at), &v.Wait); again.Held() || a == Admitted || a == Waiting {
				t.Fatalf("asked again: %d with the slot %v", a, again)
			}
			if s.Held() {
				g.Release(at(c.at), s)
			}
			if used, _, queued := g.Occupancy(); used != 0 || queued != 0 || g.waits.head != nil {
				t.Fatalf("%d in use, %d queued", used, queued)
			}
		})
	}
}

// A request that leaves the queue or is refused there gives back its place.
func TestWhoeverLeavesHasNoPlace(t *testing.T) {
	for _, c := range []struct {
		fact string
		when time.Duration
		want Answer
	}{
		{"the caller has gone", 10 * ms, Gone},
		{"too little time is left", 20 * ms, Short},
		{"its deadline has passed", 50 * ms, Expired},
	} {
		t.Run(c.fact, func(t *testing.T) {
			g := New(Rules{Limit: 1, Queue: 1, Target: 5 * ms, Interval: 100 * ms, Shards: 1})
			for range 100 {
				g.Ended(at(30*ms), 0, clock.Never, true)
			}
			slot, _ := g.Enter(0, "")
			var v, next visitor
			g.Join(0, &v.Wait, &v, 0, "", at(50*ms))
			if until := v.Until(); until < at(20*ms) || until > at(21*ms) {
				t.Errorf("it may wait until %v", until)
			}
			if _, a := g.Leave(at(c.when+ms), &v.Wait); a != c.want {
				t.Errorf("answer %d, want %d", a, c.want)
			}
			if a := g.Join(at(c.when+ms), &next.Wait, &next, 0, "", clock.Never); a != Waiting || g.waits.head != &next.Wait {
				t.Errorf("the next one has no place: %d", a)
			}
			g.Release(at(c.when+ms), slot)
			if v.rung != 0 || next.rung != 1 {
				t.Errorf("the one who left was woken %d times, the next %d times", v.rung, next.rung)
			}
		})
	}
}
