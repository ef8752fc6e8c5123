package budget

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/internal/interleave"
)

// floor allows so many re-sends, whatever is called.
func floor(resends int64) Rules { return Rules{0, resends * 1000} }

// scene is a Window of two shards with slices of a second, and workers that write
// down what they do to it, one for each shard.
type scene struct {
	*Window
	workers [2]*worker
}

func newScene() *scene {
	w := Make((slices-1)*time.Second, 2)
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

// lend lets worker 1 withdraw once, so that credits are out, and worker 0 so often.
func (s *scene) lend(t *testing.T, r Rules, others int) {
	t.Helper()
	s.workers[1].withdraw(0, r)
	for range others {
		s.workers[0].withdraw(0, r)
	}
	if !s.out() {
		t.Fatal("no credits are out")
	}
}

// falselyRefused returns an error if somebody was refused though less was surely
// granted than the calls surely allow.
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
		if most := n.rules.allowed(calls); resends < most {
			return fmt.Errorf("refused under %+v after %d re-sends for %d calls", n.rules, resends, calls)
		}
	}
	return nil
}

func TestInterleavedWindow(t *testing.T) {
	type verbs func(s *scene, me *worker)
	for _, c := range []struct {
		fact    string
		before  func(t *testing.T, s *scene)
		one     verbs // what worker 0 does
		two     verbs // and worker 1
		at      clock.Instant
		r       Rules // the rules in the end
		surplus int64 // how many more may be counted then than were granted
		gone    int64 // how many fewer, since they are a span old
	}{
		{
			fact:   "the last one",
			before: func(t *testing.T, s *scene) { s.workers[0].withdraw(0, floor(2)) },
			one:    func(_ *scene, me *worker) { me.withdraw(0, floor(2)) },
			two:    func(_ *scene, me *worker) { me.withdraw(0, floor(2)) },
			r:      floor(2),
		},
		{
			fact: "a deposit that pays for one",
			one:  func(_ *scene, me *worker) { me.deposit(0); me.withdraw(0, Rules{million, 0}) },
			two:  func(_ *scene, me *worker) { me.deposit(0); me.withdraw(0, Rules{million, 0}) },
			r:    Rules{million, 0},
		},
		{
			fact:   "the last credit",
			before: func(t *testing.T, s *scene) { s.lend(t, floor(16), 13) },
			one:    func(_ *scene, me *worker) { me.withdraw(0, floor(16)); me.withdraw(0, floor(16)) },
			two:    func(_ *scene, me *worker) { me.withdraw(0, floor(16)); me.withdraw(0, floor(16)) },
			r:      floor(16),
		},
		{
			fact: "two of one shard, of whom one gets credits",
			one:  func(_ *scene, me *worker) { me.withdraw(0, floor(16)); me.withdraw(0, floor(16)) },
			two:  func(_ *scene, me *worker) { me.id = 0; me.withdraw(0, floor(16)); me.withdraw(0, floor(16)) },
			r:    floor(16),
		},
		{
			fact:   "the last credit, which another calls in",
			before: func(t *testing.T, s *scene) { s.lend(t, floor(16), 14) },
			one:    func(_ *scene, me *worker) { me.withdraw(0, floor(16)) },
			two:    func(_ *scene, me *worker) { me.w.Level(0, floor(16)) },
			r:      floor(16),
		},
		{
			fact:   "credits, and other rules that allow less",
			before: func(t *testing.T, s *scene) { s.lend(t, floor(18), 0) },
			one:    func(_ *scene, me *worker) { me.withdraw(0, floor(3)); me.withdraw(0, floor(3)) },
			two:    func(_ *scene, me *worker) { me.withdraw(0, floor(18)); me.withdraw(0, floor(18)) },
			r:      floor(18),
		},
		{
			fact:   "credits that are issued, and other rules that allow less",
			before: func(_ *testing.T, s *scene) { s.workers[1].withdraw(0, floor(18)); s.Level(0, floor(18)) },
			one:    func(_ *scene, me *worker) { me.withdraw(0, floor(18)); me.withdraw(0, floor(18)) },
			two:    func(_ *scene, me *worker) { me.withdraw(0, floor(3)); me.withdraw(0, floor(3)) },
			r:      floor(18),
		},
		{
			fact:   "credits that are called in and issued anew for other rules",
			before: func(t *testing.T, s *scene) { s.lend(t, floor(16), 0) },
			one: func(s *scene, me *worker) {
				me.w.Level(0, floor(18))
				me.id = 1
				me.withdraw(0, floor(18))
				me.withdraw(0, floor(18))
			},
			two: func(_ *scene, me *worker) { me.withdraw(0, floor(16)); me.withdraw(0, floor(16)) },
			r:   floor(18),
		},
		{
			fact: "credits that are issued, and a turn",
			one:  func(_ *scene, me *worker) { me.withdraw(0, floor(18)) },
			two:  func(_ *scene, me *worker) { me.deposit(s) },
			at:   s,
			r:    floor(18),
		},
		{
			fact:   "credits, and a turn",
			before: func(t *testing.T, s *scene) { s.lend(t, floor(18), 0) },
			one:    func(_ *scene, me *worker) { me.withdraw(s, floor(18)); me.withdraw(s, floor(18)) },
			two:    func(_ *scene, me *worker) { me.withdraw(0, floor(18)); me.withdraw(s, floor(18)) },
			at:     s,
			r:      floor(18),
		},
		{
			fact:   "the last credit, and a turn",
			before: func(t *testing.T, s *scene) { s.lend(t, floor(16), 13) },
			one:    func(_ *scene, me *worker) { me.deposit(s); me.withdraw(s, floor(16)) },
			two:    func(_ *scene, me *worker) { me.withdraw(0, floor(16)); me.withdraw(0, floor(16)) },
			at:     s,
			r:      floor(16),
		},
		{
			fact:   "credits, and the moment when the floor is back",
			before: func(t *testing.T, s *scene) { s.lend(t, floor(18), 0) },
			one: func(_ *scene, me *worker) {
				me.withdraw((slices-1)*s, floor(18))
				me.withdraw((slices-1)*s, floor(18))
			},
			two:  func(_ *scene, me *worker) { me.withdraw(500*ms, floor(18)) },
			at:   (slices - 1) * s,
			r:    floor(18),
			gone: 1,
		},
		{
			fact:   "a level that is asked for beside credits",
			before: func(t *testing.T, s *scene) { s.lend(t, floor(16), 12) },
			one:    func(_ *scene, me *worker) { me.w.Level(0, floor(16)); me.withdraw(0, floor(16)) },
			two:    func(_ *scene, me *worker) { me.withdraw(0, floor(16)); me.withdraw(0, floor(16)) },
			r:      floor(16),
		},
		{
			fact:   "a refund of a credit, and a refusal",
			before: func(t *testing.T, s *scene) { s.lend(t, floor(16), 14) },
			one:    func(_ *scene, me *worker) { me.withdraw(0, floor(16)); me.withdraw(0, floor(16)) },
			two:    func(_ *scene, me *worker) { me.refund(0, 0); me.withdraw(0, floor(16)) },
			r:      floor(16),
		},
		{
			fact:    "a re-send that is refunded when a turn came between",
			before:  func(t *testing.T, s *scene) { s.workers[1].withdraw(0, floor(3)) },
			one:     func(_ *scene, me *worker) { me.withdraw(0, floor(3)); me.refund(s, 0) },
			two:     func(_ *scene, me *worker) { me.deposit(s); me.withdraw(1500*ms, floor(3)) },
			at:      slices * s,
			r:       floor(3),
			surplus: 1,
		},
	} {
		t.Run(c.fact, func(t *testing.T) {
			interleave.Explore(t, 2, func() ([]func(), func() error) {
				s := newScene()
				if c.before != nil {
					c.before(t, s)
				}
				one, two := s.workers[0], s.workers[1]
				return []func(){func() { c.one(s, one) }, func() { c.two(s, two) }}, func() error {
					return s.settled(c.at, c.r, c.surplus, c.gone)
				}
			})
		})
	}
}

// settled compares what is counted in the end with what was written down, and
// withdraws all that is left.
func (s *scene) settled(at clock.Instant, r Rules, surplus, gone int64) error {
	log := s.log()
	if _, wrong := check(s.Window, log); wrong != nil {
		return wrong
	}
	if wrong := falselyRefused(log); wrong != nil {
		return wrong
	}
	calls, resends, young := int64(0), int64(0), int64(0)
	for _, d := range log {
		switch {
		case floorDiv(int64(d.at), int64(time.Second)) <= floorDiv(int64(at), int64(time.Second))-slices:
		case d.kind == 'd' && floorDiv(int64(d.at), int64(time.Second)) > floorDiv(int64(at), int64(time.Second))-slices+1:
			calls++
		case d.kind == 'g' && d.back == 0:
			resends++
			if at.Sub(d.at) < s.Span() {
				young++
			}
		}
	}
	gotCalls, got := s.Counts(at, r)
	if gotCalls != calls || got < resends-gone || got > resends+surplus {
		return fmt.Errorf("counts %d/%d in the end, want %d/%d", got, gotCalls, resends, calls)
	}
	for left := r.allowed(calls) - got; ; left-- {
		_, ok := s.TryWithdraw(at, uint32(left), r)
		if ok != (left > 0) {
			return fmt.Errorf("granted %v in the end with %d left", ok, left)
		}
		if !ok {
			break
		}
		young++
	}
	if most := r.allowed(calls); young > most {
		return fmt.Errorf("%d re-sends in the last span, %d calls", young, calls)
	}
	return nil
}
