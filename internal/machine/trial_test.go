package machine

import (
	"testing"
	"time"

	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/policy"
)

// trial drives calls of one dependency by hand.
type trial struct {
	t     *testing.T
	state *State
}

func newTrial(t *testing.T, p policy.Policy) *trial {
	p.Safe = true
	r, err := Compile(p)
	if err != nil {
		t.Fatal(err)
	}
	return &trial{t, NewState(0, r, Setup{Seed: 5})}
}

// begin starts a call and sends its first attempt.
func (tr *trial) begin(now clock.Instant) (*Call, Ticket) {
	tr.t.Helper()
	c := new(Call)
	c.Begin(tr.state, now, &Params{})
	s := c.Next(now)
	if s.Verb != Send {
		tr.t.Fatalf("%+v", c.End())
	}
	return c, s.Ticket
}

// home ends an attempt and says what comes next.
func (tr *trial) home(now clock.Instant, c *Call, t Ticket, class policy.Class) Step {
	c.Settle(now, t, policy.Outcome{Class: class})
	return c.Next(now)
}

// call makes a call of one attempt.
func (tr *trial) call(now, ends clock.Instant, class policy.Class) {
	c, t := tr.begin(now)
	c.noRetry = true
	tr.home(ends, c, t, class)
}

// goOn asks a call that waits until it does not, and returns when that was.
func (tr *trial) goOn(c *Call, s Step) (Step, clock.Instant) {
	now := s.Again
	for range 20 {
		if s = c.Next(now); s.Verb != Wait {
			break
		}
		now = s.Again
	}
	return s, now
}

const ms, sec = clock.Instant(time.Millisecond), clock.Instant(time.Second)

// rulesOf makes p ready.
func rulesOf(t *testing.T, p policy.Policy) *Rules {
	t.Helper()
	r, err := Compile(p)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// nobody is woken.
type nobody struct{}

func (nobody) Wake() {}
