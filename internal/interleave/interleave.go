// Package interleave plays a few threads in every order of their steps.
//
// What is concurrent in gabion takes no lock on its hot paths, and the dangerous
// moments are a few instructions long: running it on many processors for long
// shows little. So the tests of this package compile the very code with atomic
// and sync packages whose every access is a step ([Step]), and play the scenes
// that its tests tell ([Explore]) one step at a time: in all orders in which a
// thread that could go on is kept waiting no more than a few times. Most mistakes
// need one or two of such interruptions (Musuvathi and Qadeer, "Iterative Context
// Bounding", 2007). One thread runs at a time, so an order that goes wrong goes
// wrong again, and is printed. Memory is seen in that order, too, as Go promises
// of its atomics.
//
// Where the code was compiled as usual nothing steps, and threads run one after
// the other. So scenes are ordinary tests, too.
package interleave

import (
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// A Scene prepares something and returns threads that use it, and a check for
// when all are through. It is played often, and must do the same each time.
type Scene func() (threads []func(), check func() error)

// Explore plays a scene in all orders of its steps with at most a number of interruptions: another
// thread goes on although the current one could have. It fails where the check does, a thread
// panics, or all wait for each other. Only one scene is played at a time: the tests that tell them
// must not be parallel.
func Explore(t *testing.T, interruptions int, scene Scene) {
	t.Helper()
	plays, steps, wrong := explore(interruptions, scene)
	switch {
	case wrong != nil:
		t.Fatalf("play %d: %v", plays, wrong)
	case steps == 0 && os.Getenv(MustStep) != "":
		t.Fatal("nothing steps: the packages were compiled as usual")
	}
	t.Logf("%d plays, %d steps the last", plays, steps)
}

// explore is Explore. It returns the number of plays, and of steps in the last.
func explore(interruptions int, scene Scene) (plays, steps int, wrong error) {
	var path []choice
	for plays = 1; ; plays++ {
		p := play(scene, path, interruptions, false)
		if p.wrong != nil {
			again := play(scene, p.path, interruptions, true)
			return plays, p.steps, fmt.Errorf("%w\n%s", p.wrong, again.story.String())
		}
		if path = next(p.path); len(path) == 0 {
			return plays, p.steps, nil
		}
	}
}

// MustStep is the environment variable that is set where scenes must have steps.
const MustStep = "GABION_MUST_STEP"

// choice is which of the threads that could go on did.
type choice struct{ taken, of int }

// next returns the beginning of the next path to take.
func next(path []choice) []choice {
	for n := len(path); n > 0; n-- {
		if c := path[n-1]; c.taken+1 < c.of {
			return append(path[:n-1], choice{c.taken + 1, c.of})
		}
	}
	return nil
}

// tooLong is after how many steps a play is taken to go on for ever.
const tooLong = 100_000

// player plays a scene once.
type player struct {
	threads []*thread
	now     *thread // who goes on; nil before and after
	path    []choice
	at      int // in the path
	left    int // interruptions
	steps   int
	wrong   error
	tell    bool
	story   strings.Builder
}

// thread is one of the threads of a play.
type thread struct {
	id    int
	wait  func() bool // until this, if not nil
	over  bool
	yield func(struct{}) bool
}

// stage is the play that is on, if any.
var stage *player

// gone ends a thread of a play that went wrong.
type gone struct{}

func play(scene Scene, path []choice, interruptions int, tell bool) (p *player) {
	p = &player{path: path, left: interruptions, tell: tell}
	threads, check := scene()
	resume := make([]func() (struct{}, bool), len(threads))
	for i, run := range threads {
		th := &thread{id: i}
		p.threads = append(p.threads, th)
		var stop func()
		resume[i], stop = iter.Pull(func(yield func(struct{}) bool) {
			defer p.leave(th)
			th.yield = yield
			run()
		})
		defer stop()
	}
	stage = p
	for p.now = p.choose(nil); p.now != nil; {
		if _, on := resume[p.now.id](); !on {
			p.now = p.choose(nil)
		}
	}
	stage = nil
	if p.wrong == nil {
		p.wrong = check()
	}
	return p
}

// leave ends a thread.
func (p *player) leave(th *thread) {
	th.over = true
	switch r := recover(); r.(type) {
	case nil, gone:
	default:
		p.wrong = fmt.Errorf("thread %d panics: %v", th.id, r)
	}
}

// choose returns who goes on, cur or another. It returns nil once all are through, or something is
// wrong.
func (p *player) choose(cur *thread) *thread {
	switch {
	case p.wrong != nil:
		return nil
	case cur != nil && p.left == 0:
		return cur
	}
	able := make([]*thread, 0, 8)
	if cur != nil {
		able = append(able, cur)
	}
	waiting := false
	for _, th := range p.threads {
		switch {
		case th == cur || th.over:
		case th.wait != nil && !th.wait():
			waiting = true
		default:
			able = append(able, th)
		}
	}
	if len(able) == 0 {
		if waiting {
			p.wrong = fmt.Errorf("all wait for each other")
		}
		return nil
	}
	chosen := able[p.pick(len(able))]
	if cur != nil && chosen != cur {
		p.left--
	}
	return chosen
}

// pick follows the path, and makes it longer.
func (p *player) pick(of int) int {
	if of == 1 {
		return 0
	}
	if p.at == len(p.path) {
		p.path = append(p.path, choice{0, of})
	}
	p.at++
	return p.path[p.at-1].taken
}

// Step is a moment at which another thread may go on. The stand-ins for atomics
// and locks call it before each access.
func Step() { stop(nil) }

// Wait is [Step], and goes on only when ready reports true.
func Wait(ready func() bool) { stop(ready) }

func stop(ready func() bool) {
	p := stage
	if p == nil {
		if ready != nil && !ready() {
			panic("interleave: waits where no other thread can go on")
		}
		return
	}
	th := p.now
	if p.steps++; p.steps > tooLong {
		p.wrong = fmt.Errorf("no end in sight")
	}
	p.note(th)
	th.wait = ready
	cur := th
	if ready != nil && !ready() {
		cur = nil
	}
	if p.now = p.choose(cur); p.now != th && !th.yield(struct{}{}) {
		panic(gone{})
	}
	th.wait = nil
}

// note writes down where a thread comes to, if the play is to be told.
func (p *player) note(th *thread) {
	if !p.tell || p.steps > 1000 { // enough to read
		return
	}
	var pcs [16]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs[:])])
	for {
		f, more := frames.Next()
		if !strings.Contains(filepath.ToSlash(f.File), "/interleave/") || strings.HasSuffix(f.File, "_test.go") {
			fmt.Fprintf(&p.story, "\tthread %d is about to pass %s:%d\n", th.id, filepath.Base(f.File), f.Line)
			return
		}
		if !more {
			return
		}
	}
}
