package budget

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/internal/interleave"
)

// floor allows a number of re-sends, whatever is called.
func floor(resends int64) Rules { return Rules{0, resends * 1000} }

// scene is a Window of two shards with slices of a second, and workers that write
// down what they do to it, one for each shard.
type scene struct {
	*Window
	workers [2]*worker
}

func newScene() *scene {
	w := MakeWindow((slices-1)*time.Second, 2)
	s := &scene{Window: &w}
	for i := range s.workers {
		s.workers[i] = &worker{w: &w, ticks: new(atomic.Int64), id: uint32(i)}
		s.workers[i].ticks = s.workers[0].ticks
	}
	return s
}

func (s *scene) log() []*deed {
	return append(append([]*deed(nil), s.workers[0].log...), s.workers[1].log...)
}

// falselyRefused returns an error if a re-send was refused though surely fewer were granted than
// the calls allow.
func falselyRefused(log []*deed) error {
	for _, n := range log {
		if n.kind != 'n' {
			continue
		}
		calls, resends := int64(0), int64(0)
		for _, d := range log {
			switch {
			case d.kind == 'd' && d.end < n.begin:
				calls++
			case d.kind == 'g' && d.begin < n.end && (d.back == 0 || d.backEnd > n.begin):
				resends++
			}
		}
		if most := n.rules.Allows(calls); resends < most {
			return fmt.Errorf("refused under %+v after %d re-sends for %d calls", n.rules, resends, calls)
		}
	}
	return nil
}

func TestInterleaved(t *testing.T) {
	type verbs func(me *worker)
	all := Rules{million, 0} // one re-send for each call
	for _, c := range []struct {
		fact   string
		before verbs // what worker 1 does first
		one    verbs // what worker 0 does then
		two    verbs // and worker 1
		at     clock.Instant
		r      Rules // the rules in the end
		gone   int64 // how many re-sends are forgotten then, since they are a span old
	}{
		{
			fact:   "the last one",
			before: func(me *worker) { me.withdraw(0, floor(2)) },
			one:    func(me *worker) { me.withdraw(0, floor(2)) },
			two:    func(me *worker) { me.withdraw(0, floor(2)) },
			r:      floor(2),
		},
		{
			fact: "a deposit that pays for one",
			one:  func(me *worker) { me.deposit(0); me.withdraw(0, all) },
			two:  func(me *worker) { me.deposit(0); me.withdraw(0, all) },
			r:    all,
		},
		{
			fact:   "the last one, and other rules that allow less",
			before: func(me *worker) { me.withdraw(0, floor(4)) },
			one:    func(me *worker) { me.withdraw(0, floor(2)); me.withdraw(0, floor(2)) },
			two:    func(me *worker) { me.withdraw(0, floor(4)); me.withdraw(0, floor(4)) },
			r:      floor(4),
		},
		{
			fact: "a re-send, and a new slice",
			one:  func(me *worker) { me.withdraw(0, floor(2)); me.withdraw(s, floor(2)) },
			two:  func(me *worker) { me.deposit(s); me.withdraw(0, floor(2)) },
			at:   s,
			r:    floor(2),
		},
		{
			fact: "deposits, and a new slice",
			one:  func(me *worker) { me.deposit(0); me.withdraw(s, all) },
			two:  func(me *worker) { me.deposit(s); me.withdraw(0, all) },
			at:   s,
			r:    all,
		},
		{
			fact:   "a call that is about to be forgotten",
			before: func(me *worker) { me.deposit(0) },
			one:    func(me *worker) { me.deposit((slices - 2) * s); me.withdraw((slices-2)*s, all) },
			two:    func(me *worker) { me.deposit((slices - 1) * s); me.withdraw((slices-1)*s, all) },
			at:     (slices - 1) * s,
			r:      all,
		},
		{
			fact:   "the moment when the floor is back",
			before: func(me *worker) { me.withdraw(0, floor(2)) },
			one:    func(me *worker) { me.withdraw((slices-1)*s, floor(2)); me.withdraw((slices-1)*s, floor(2)) },
			two:    func(me *worker) { me.withdraw(500*ms, floor(2)) },
			at:     (slices - 1) * s,
			r:      floor(2),
			gone:   1,
		},
		{
			fact:   "a refund, and a refusal",
			before: func(me *worker) { me.withdraw(0, floor(2)) },
			one:    func(me *worker) { me.withdraw(0, floor(2)); me.withdraw(0, floor(2)) },
			two:    func(me *worker) { me.refund(0, 0); me.withdraw(0, floor(2)) },
			r:      floor(2),
		},
		{
			fact:   "a refund after a new slice has come",
			before: func(me *worker) { me.withdraw(0, floor(3)) },
			one:    func(me *worker) { me.withdraw(0, floor(3)); me.refund(s, 0) },
			two:    func(me *worker) { me.deposit(s); me.withdraw(1500*ms, floor(3)) },
			at:     slices * s,
			r:      floor(3),
		},
	} {
		t.Run(c.fact, func(t *testing.T) {
			interleave.Explore(t, 4, func() ([]func(), func() error) {
				s := newScene()
				one, two := s.workers[0], s.workers[1]
				if c.before != nil {
					c.before(two)
				}
				return []func(){func() { c.one(one) }, func() { c.two(two) }}, func() error {
					return s.settled(c.at, c.r, c.gone)
				}
			})
		})
	}
}

// settled compares what is counted in the end with what was written down, and
// withdraws all that is left.
func (s *scene) settled(at clock.Instant, r Rules, gone int64) error {
	log := s.log()
	if _, wrong := check(s.Window, log); wrong != nil {
		return wrong
	}
	if wrong := falselyRefused(log); wrong != nil {
		return wrong
	}
	slice := func(at clock.Instant) int64 { return floorDiv(int64(at), int64(time.Second)) }
	least, most, resends, young := int64(0), int64(0), int64(0), int64(0)
	for _, d := range log {
		if d.kind == 'd' && slice(d.at) > slice(at)-slices+1 {
			least++
		}
		if d.kind == 'd' && slice(latest(d, log)) > slice(at)-slices+1 {
			most++
		}
		if d.kind == 'g' && d.back == 0 && slice(d.at) > slice(at)-slices {
			resends++
			if at.Sub(d.at) < s.Span() {
				young++
			}
		}
	}
	calls, got := s.Counts(at)
	if calls < least || calls > most || got < resends-gone || got > resends {
		return fmt.Errorf("counts %d/%d in the end, want %d/%d to %d", got, calls, resends, least, most)
	}
	for left := r.Allows(calls) - got; ; left-- {
		_, ok := s.TryWithdraw(at, r)
		if ok != (left > 0) {
			return fmt.Errorf("granted %v in the end with %d left", ok, left)
		}
		if !ok {
			break
		}
		young++
	}
	if most := r.Allows(calls); young > most {
		return fmt.Errorf("%d re-sends in the last span, %d calls", young, calls)
	}
	return nil
}
