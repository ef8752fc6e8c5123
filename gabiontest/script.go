// Package gabiontest helps to test code that calls through gabion: a scripted
// dependency, recorded events, and assertions on attempts and load.
//
// Use it inside testing/synctest: then waits take no time, and a test that says
// "the second retry comes after at most 200 ms" is exact. Make the dependency
// inside the bubble:
//
//	func TestLostAnswer(t *testing.T) {
//		synctest.Test(t, func(t *testing.T) {
//			seen := new(gabiontest.Recorder)
//			bank := gabion.New("bank", policy.Policy{}, gabion.WithObserver(seen))
//			script := gabiontest.NewScript(gabiontest.Step{Hang: true}, gabiontest.Step{})
//			err := bank.Run(t.Context(), script.Run, gabion.WithKey("order-7"))
//			gabiontest.WantReason(t, err, policy.None)
//			seen.WantAttempts(t, 2)
//			gabiontest.NothingHeld(t, bank)
//		})
//	}
//
// With [FreeRetries] a test does not depend on the retry budget.
//
// For HTTP give gabionhttp.Transport a Base of your own. The clock of a bubble does not
// move while something outside of it is in use, such as a socket.
package gabiontest

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/gabion-go/gabion"
)

// Step is how one attempt at a scripted dependency goes. The zero Step succeeds at
// once.
type Step struct {
	Err    error         // what the attempt returns; nil is success
	Takes  time.Duration // how long it takes; it ends early, with the context's cause, when the context does
	Deaf   bool          // it does not listen to its context and takes all of Takes
	Hang   bool          // it takes as long as its context lasts
	Panic  any           // if not nil, it panics with this
	Goexit bool          // it leaves by runtime.Goexit
}

// Script is a dependency whose every attempt goes as written. It is safe for
// concurrent use.
type Script struct {
	mu    sync.Mutex // guards all below
	steps []Step
	seen  []Seen
}

// Seen is what a script saw of one attempt.
type Seen struct {
	At       time.Time
	Key      string    // the idempotency key
	Attempt  int       // 1 is the first of its call
	Deadline time.Time // zero if the context had none
}

// NewScript returns a dependency that goes through the steps, one per attempt, and
// repeats the last one from then on. Without steps every attempt succeeds.
func NewScript(steps ...Step) *Script { return &Script{steps: steps} }

// Fails returns n steps that fail with err. A script repeats its last step, so one
// that fails twice and then works ends with a step that does:
//
//	script := gabiontest.NewScript(append(gabiontest.Fails(2, err), gabiontest.Step{})...)
func Fails(n int, err error) []Step { return slices.Repeat([]Step{{Err: err}}, n) }

// Run is the work to hand to gabion.
func (s *Script) Run(ctx context.Context) error {
	_, err := s.Call(ctx)
	return err
}

// Call is Run for work with a result: the number of the attempt at the script,
// from 1.
func (s *Script) Call(ctx context.Context) (int, error) {
	step, n := s.next(ctx)
	return n, step.run(ctx)
}

func (s *Step) run(ctx context.Context) error {
	err := s.wait(ctx)
	switch {
	case s.Panic != nil:
		panic(s.Panic)
	case s.Goexit:
		runtime.Goexit()
	case err != nil:
		return err
	}
	return s.Err
}

// next is the step of the attempt that begins now, and its number.
func (s *Script) next(ctx context.Context) (Step, int) {
	deadline, _ := ctx.Deadline()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = append(s.seen, Seen{
		At: time.Now(), Key: gabion.Key(ctx), Attempt: gabion.AttemptNumber(ctx), Deadline: deadline,
	})
	if len(s.steps) == 0 {
		return Step{}, len(s.seen)
	}
	return s.steps[min(len(s.seen), len(s.steps))-1], len(s.seen)
}

func (s *Step) wait(ctx context.Context) error {
	switch {
	case s.Hang:
		<-ctx.Done()
		return context.Cause(ctx)
	case s.Takes <= 0:
		return nil
	}
	timer := time.NewTimer(s.Takes)
	defer timer.Stop()
	if s.Deaf {
		<-timer.C
		return nil
	}
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Attempts returns how many attempts the script has seen.
func (s *Script) Attempts() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.seen)
}

// Seen returns what was seen of every attempt, in order.
func (s *Script) Seen() []Seen {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.seen)
}
