package machine

import (
	"slices"
	"testing"
	"time"

	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/policy"
)

// bell notes the order in which calls are woken.
type bell struct {
	name int
	rung *[]int
}

func (b bell) Wake() { *b.rung = append(*b.rung, b.name) }

// Calls that waited at the old rate must not go on to wait when another process's share comes in.
func TestThoseWhoWaitMoveUpAtOnceInALargerShare(t *testing.T) {
	p := rated(100, 1)
	p.RateLimit.MaxWait = 10 * time.Second
	s := NewState(0, rulesOf(t, p), Setup{})
	Grant(s, 0, &Lease{Until: 100 * second, Share: turns(1)})
	var rung []int
	calls := make([]Call, 6)
	for i := range calls {
		calls[i].Begin(s, 0, &Params{Waker: bell{i, &rung}})
		if step := calls[i].Next(0); i > 0 && (step.Verb != Wait || step.Again != clock.Instant(i)*second) {
			t.Fatalf("call %d: %+v", i, step)
		}
	}
	calls[3].Cancel(0)
	Grant(s, second/2, &Lease{Until: 100 * second, Share: turns(10)})
	if want := []int{1, 2, 4, 5}; !slices.Equal(rung, want) {
		t.Fatalf("woken are %v, want %v", rung, want)
	}
	at := second/2 + second/20 + 1 // half of a turn was there
	for _, i := range rung {
		if step := calls[i].Next(second / 2); step.Verb != Wait || step.Again != at {
			t.Errorf("call %d: %+v, want its turn at %s", i, step, time.Duration(at))
		}
		at += second / 10
	}
	for _, i := range rung {
		if step := calls[i].Next(at); step.Verb != Send {
			t.Errorf("call %d: %+v", i, step)
		}
	}
	if n := len(s.rules.Load().line.waiting); n != 0 {
		t.Errorf("%d calls are in the line, and none waits", n)
	}
}

// hall is a waker that looks whether other dependencies could go on while it is woken.
type hall struct{ woken, shut int }

func (h *hall) Wake() {
	h.woken++
	if !reloading.TryLock() {
		h.shut++
		return
	}
	reloading.Unlock()
}

// There may be tens of thousands that wait, and one lock is for the rules of all dependencies.
func TestThoseWhoWaitAreWokenWithoutTheLockOfAllDependencies(t *testing.T) {
	p := rated(100, 1)
	p.RateLimit.MaxWait = time.Minute
	other := p
	other.RateLimit.Rate = 50
	for name, change := range map[string]func(*State){
		"by another share":    func(s *State) { Grant(s, second/2, &Lease{Until: 100 * second, Share: turns(10)}) },
		"by its end":          func(s *State) { current(s, second) },
		"by a reload":         func(s *State) { s.Reload(second/2, rulesOf(t, other)) },
		"by no share, at all": func(s *State) { Grant(s, second/2, nil) },
	} {
		s := NewState(0, rulesOf(t, p), Setup{})
		Grant(s, 0, &Lease{Until: second, Share: turns(99), Lost: turns(1)})
		var h hall
		calls := make([]Call, 20)
		for i := range calls {
			calls[i].Begin(s, 0, &Params{Waker: &h})
			calls[i].Next(0)
		}
		if change(s); h.shut > 0 || h.woken != len(calls)-1 {
			t.Errorf("%s: %d are woken, want all but the first, and %d of them while no other dependency can reload", name, h.woken, h.shut)
		}
	}
}

// Each share that comes would let it wait anew.
func TestSharesThatChangeLetNoCallWaitForLonger(t *testing.T) {
	p := rated(100, 1)
	p.RateLimit.MaxWait = time.Second
	for share, want := range map[float64]clock.Instant{0.25: 0, 0.4: 2*second/5 + second/2 + 1} { // what is left of a turn takes 0.8 s, and 0.5
		s := NewState(0, rulesOf(t, p), Setup{})
		Grant(s, 0, &Lease{Until: 100 * second, Share: turns(2)})
		var first, waits Call
		first.Begin(s, 0, &Params{})
		first.Next(0)
		waits.Begin(s, 0, &Params{})
		if step := waits.Next(0); step.Verb != Wait || step.Again != second/2 {
			t.Fatal(step)
		}
		Grant(s, 2*second/5, &Lease{Until: 100 * second, Share: turns(share)})
		step := waits.Next(2 * second / 5)
		for step.Verb == Wait && step.Again < second/2 {
			step = waits.Next(step.Again)
		}
		if want == 0 && (step.Verb != Return || waits.End().Reason != policy.RateLimited) || want != 0 && step.Again != want {
			t.Errorf("with %v/s %+v, %+v, want its turn at %s", share, step, waits.End(), time.Duration(want))
		}
	}
}
