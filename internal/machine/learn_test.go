package machine

import (
	"testing"
	"time"

	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/internal/learned"
	"github.com/gabion-go/gabion/policy"
)

// steps is a limit that moves to 7 at its first look.
type steps struct{ limit int }

func (r *steps) Judge(clock.Instant, *learned.Window) (limit, verdict int, settle time.Duration) {
	r.limit = 7
	return r.limit, learned.Anew, 0
}
func (r *steps) SetBounds(learned.Bounds) int { return r.limit }
func (r *steps) Limit() int                   { return r.limit }

func learning(t *testing.T, b policy.Bulkhead) *Rules {
	t.Helper()
	b.Limit = policy.Learned
	r, err := Compile(policy.Policy{Bulkhead: b})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// answer makes one call that is answered after so long.
func answer(s *State, now clock.Instant, took time.Duration, o policy.Outcome) clock.Instant {
	var c Call
	c.Begin(s, now, &Params{})
	step := c.Next(now)
	now = now.Add(took)
	c.Settle(now, step.Ticket, o)
	c.Next(now)
	return now
}

func TestALearnedLimitMovesTheBulkhead(t *testing.T) {
	r := learning(t, policy.Bulkhead{}).WithLimit(func(learned.Bounds) learned.Rule { return &steps{100} })
	s := NewState(0, r, Setup{Events: true})
	if b := s.Stats(0).Bulkhead; b.Limit != 100 || b.QueueLimit != 200 || !b.Learned || b.Min != 1 || b.Max != 1000 {
		t.Fatalf("it begins as %+v", b)
	}
	now := clock.Instant(0)
	for range 200 {
		now = answer(s, now, 2*time.Millisecond, policy.Outcome{Class: policy.ClassSuccess})
	}
	if b := s.Stats(now).Bulkhead; b.Limit != 7 || b.QueueLimit != 14 {
		t.Errorf("the bulkhead is %+v", b)
	}
	var moves []policy.Event
	s.Deliver(func(e policy.Event) { moves = append(moves, e) })
	if len(moves) != 1 || moves[0].Kind != policy.KindLimitMoved || moves[0].Count != 7 || moves[0].Numbers.Before != 100 {
		t.Errorf("the events are %v", moves)
	}
}

func TestWhatTeachesALimit(t *testing.T) {
	out := policy.Outcome{Effect: policy.UnknownEffect}
	class := func(c policy.Class) policy.Outcome { o := out; o.Class = c; return o }
	for _, c := range []struct {
		fact string
		o    policy.Outcome
		took time.Duration
		want learned.Verdict
	}{
		{"a success", class(policy.ClassSuccess), time.Millisecond, learned.Worked},
		{"a permanent error is an answer", class(policy.ClassClient), time.Millisecond, learned.Worked},
		{"a valid no is an answer", class(policy.ClassBusiness), time.Millisecond, learned.Worked},
		{"a refused connection says nothing", policy.Outcome{Class: policy.ClassNetwork, NeverSent: true}, time.Millisecond, learned.Nothing},
		{"neither does a 500", policy.Outcome{Class: policy.ClassServer, Once: true}, time.Millisecond, learned.Nothing},
		{"nor a 429, which paces", class(policy.ClassThrottled), time.Millisecond, learned.Nothing},
		{"no room is no room", policy.Outcome{Class: policy.ClassServer, Busy: true}, time.Millisecond, learned.Busy},
		{"our own timeout", class(policy.ClassTimeout), 15 * time.Second, learned.Late},
		{"the dependency's timeout says nothing of ours", class(policy.ClassTimeout), time.Second, learned.Nothing},
		{"what the caller gave up", class(policy.ClassIgnored), time.Millisecond, learned.Nothing},
	} {
		t.Run(c.fact, func(t *testing.T) {
			s := NewState(0, learning(t, policy.Bulkhead{}), Setup{})
			var call Call
			call.Begin(s, 0, &Params{})
			step := call.Next(0)
			if got := call.teaches(clock.Instant(c.took), &step.Ticket, &c.o, false); got != c.want {
				t.Errorf("shows %d, want %d", got, c.want)
			}
		})
	}
}

func TestReloadsOfALearnedLimit(t *testing.T) {
	s := NewState(0, learning(t, policy.Bulkhead{}), Setup{})
	limit := func() int { return s.Stats(0).Bulkhead.Limit }
	for _, c := range []struct {
		fact string
		b    policy.Bulkhead
		want int
	}{
		{"a lower most lowers it", policy.Bulkhead{Limit: policy.Learned, Max: 40}, 40},
		{"a fixed limit takes its place", policy.Bulkhead{Limit: 5}, 5},
		{"it comes back as it was left", policy.Bulkhead{Limit: policy.Learned}, 40},
		{"a higher least raises it", policy.Bulkhead{Limit: policy.Learned, Min: 60}, 60},
	} {
		r, err := Compile(policy.Policy{Bulkhead: c.b})
		if err != nil {
			t.Fatal(err)
		}
		if s.Reload(0, r); limit() != c.want {
			t.Errorf("%s: the limit is %d, want %d", c.fact, limit(), c.want)
		}
	}
}

func TestALearnedLimitAllocatesNothing(t *testing.T) {
	s := NewState(0, learning(t, policy.Bulkhead{}), Setup{})
	now := clock.Instant(0)
	o := policy.Outcome{Class: policy.ClassSuccess}
	var c Call
	if n := testing.AllocsPerRun(1000, func() {
		c.Begin(s, now, &Params{})
		step := c.Next(now)
		now = now.Add(10 * time.Microsecond)
		c.Settle(now, step.Ticket, o)
	}); n > 0 {
		t.Errorf("a call allocates %v times", n)
	}
}

func TestWhatAnOpenResultTeachesALimit(t *testing.T) {
	for _, c := range []struct {
		fact  string
		o     policy.Outcome
		broke bool
		want  learned.Window
	}{
		{"an answer worked when its body has ended", policy.Outcome{Class: policy.ClassSuccess}, false, learned.Window{Good: 1, Time: 3 * time.Millisecond}},
		{"a no is an answer", policy.Outcome{Class: policy.ClassClient}, false, learned.Window{Good: 1, Time: 3 * time.Millisecond}},
		{"no room is no room, whatever the body", policy.Outcome{Class: policy.ClassServer, Busy: true}, false, learned.Window{Busy: 1}},
		{"a 500 says nothing, and its body neither", policy.Outcome{Class: policy.ClassServer, Once: true}, false, learned.Window{}},
		{"a body that breaks says nothing", policy.Outcome{Class: policy.ClassSuccess}, true, learned.Window{}},
	} {
		t.Run(c.fact, func(t *testing.T) {
			seen := new(witness)
			s := NewState(0, learning(t, policy.Bulkhead{}).WithLimit(func(learned.Bounds) learned.Rule { return seen }), Setup{})
			busy := policy.Outcome{Class: policy.ClassServer, Busy: true}
			now := answer(s, 0, time.Millisecond, busy) // begins the window
			var call Call
			call.Begin(s, now, &Params{})
			step := call.Next(now)
			o := c.o
			o.Open = true
			call.Settle(now.Add(time.Millisecond), step.Ticket, o)
			call.Next(now.Add(time.Millisecond))
			call.Release(now.Add(3*time.Millisecond), step.Ticket, c.broke)
			answer(s, now, time.Minute, busy) // has the rule asked
			w := seen.last
			w.Span, w.Limit, w.Busy = 0, 0, w.Busy-1
			if w != c.want {
				t.Errorf("the limit saw %+v, want %+v", w, c.want)
			}
		})
	}
}

// A call that finds no slot teaches the limit that it lacks one.
func TestACallWithoutASlotTeachesALimit(t *testing.T) {
	for _, c := range []struct {
		fact  string
		queue int
		wait  time.Duration
	}{
		{"no slot and no queue", policy.Off, 0},
		{"the longest wait for a slot is over", 0, time.Second},
	} {
		t.Run(c.fact, func(t *testing.T) {
			seen := new(witness)
			s := NewState(0, learning(t, policy.Bulkhead{Queue: c.queue, Max: 100}).WithLimit(func(learned.Bounds) learned.Rule { return seen }), Setup{})
			answer(s, 0, 0, policy.Outcome{Class: policy.ClassServer, Busy: true}) // begins the window
			calls := make([]Call, 101)
			var first Ticket
			for i := range calls {
				calls[i].Begin(s, 0, &Params{Waker: noWaker{}})
				if step := calls[i].Next(0); i == 0 {
					first = step.Ticket
				}
			}
			calls[100].Next(clock.Instant(c.wait))
			calls[0].Settle(clock.Instant(2*time.Second), first, policy.Outcome{Class: policy.ClassSuccess}) // has the rule asked
			if seen.last.Lack != 1 {
				t.Errorf("the limit saw %+v", seen.last)
			}
		})
	}
}

type noWaker struct{}

func (noWaker) Wake() {}

// witness is a rule that only looks.
type witness struct{ last learned.Window }

func (r *witness) Judge(_ clock.Instant, w *learned.Window) (limit, verdict int, settle time.Duration) {
	r.last = *w
	return 100, learned.Longer, 0
}
func (r *witness) SetBounds(learned.Bounds) int { return 100 }
func (r *witness) Limit() int                   { return 100 }
