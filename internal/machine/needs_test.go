package machine

import (
	"testing"
	"time"

	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/policy"
)

// waitingRoom is a dependency whose first attempts find it full, and whose answers take two
// seconds. The calls have three, and are retried at once.
type waitingRoom struct {
	*trial
	now clock.Instant
}

func newWaitingRoom(t *testing.T, strict bool) *waitingRoom {
	return &waitingRoom{newTrial(t, policy.Policy{
		Safe: true, Timeout: policy.Timeout{Call: 3 * time.Second, Attempt: 3 * time.Second, Strict: strict},
		Retry:   policy.Retry{Hold: policy.Off, Backoff: backoff.Const(time.Millisecond), Budget: policy.Budget{Off: true}},
		Breaker: policy.Breaker{Off: true}, Bulkhead: policy.Bulkhead{Off: true},
	}), clock.Instant(time.Minute)}
}

// answers makes n calls that are answered after so long.
func (w *waitingRoom) answers(n int, after time.Duration) {
	for range n {
		var c Call
		c.Begin(w.state, w.now, &Params{})
		s := c.Next(w.now)
		w.now = w.now.Add(after)
		c.SettleFrom(w.now, &s.Ticket, &policy.Outcome{Class: policy.ClassSuccess})
	}
}

// resends makes a call whose first attempt fails after so long, and reports whether it is
// sent again. What is sent again ends with the call.
func (w *waitingRoom) resends(failsAfter time.Duration) bool {
	var c Call
	c.Begin(w.state, w.now, &Params{})
	s := c.Next(w.now)
	w.now = w.now.Add(failsAfter)
	c.SettleFrom(w.now, &s.Ticket, &policy.Outcome{Class: policy.ClassServer, Busy: true})
	for s = c.Next(w.now); s.Verb == Wait; s = c.Next(w.now) {
		w.now = s.Again
	}
	if s.Verb == Return {
		return false
	}
	w.now = s.Ticket.Deadline
	c.SettleFrom(w.now, &s.Ticket, &policy.Outcome{Class: policy.ClassTimeout})
	c.Next(w.now)
	return true
}

const halfWay = 1500 * time.Millisecond

func TestWhatWouldComeTooLateIsNotSentAgain(t *testing.T) {
	for _, c := range []struct {
		fact       string
		play       func(*waitingRoom)
		failsAfter time.Duration
		again      bool
		strict     bool
	}{
		{"nothing is known: it is sent again", func(w *waitingRoom) { w.answers(50, 2*time.Second) }, halfWay, true, false},
		{"one came too late, answers take two seconds, and half of three are left: it is not", func(w *waitingRoom) {
			w.resends(halfWay)
			w.answers(50, 2*time.Second)
		}, halfWay, false, false},
		{"strict: it is sent again", func(w *waitingRoom) {
			w.resends(halfWay)
			w.answers(50, 2*time.Second)
		}, halfWay, true, true},
		{"there is time enough left: it is", func(w *waitingRoom) {
			w.resends(halfWay)
			w.answers(50, 1900*time.Millisecond)
		}, 100 * time.Millisecond, true, false},
		{"answers come quickly again: it is", func(w *waitingRoom) {
			w.resends(halfWay)
			w.answers(50, 2*time.Second)
			w.answers(20, 20*time.Millisecond)
		}, halfWay, true, false},
		{"none came too late among many answers: it is", func(w *waitingRoom) {
			w.resends(halfWay)
			w.answers(needsForget+1, 2*time.Second)
		}, halfWay, true, false},
		{"nothing is answered at all: it is", func(w *waitingRoom) {
			for range 20 {
				w.resends(2500 * time.Millisecond)
			}
		}, halfWay, true, false},
	} {
		t.Run(c.fact, func(t *testing.T) {
			w := newWaitingRoom(t, c.strict)
			c.play(w)
			if got := w.resends(c.failsAfter); got != c.again {
				t.Errorf("sent again: %v; it needs %v", got, w.state.main.cuts())
			}
		})
	}
}

func TestNothingIsKeptWhereNoResendComesTooLate(t *testing.T) {
	w := newWaitingRoom(t, false)
	w.answers(20, 20*time.Millisecond)
	if w.state.main.cuts() != nil {
		t.Error("something is kept")
	}
	w.resends(halfWay)
	w.answers(needsForget+1, 20*time.Millisecond)
	if w.state.main.cuts().needs.known() {
		t.Error("it is not forgotten")
	}
}
