package interleave

import (
	"errors"
	"strings"
	"testing"
)

// mutex is one of threads that step.
type mutex struct{ held bool }

func (m *mutex) lock() {
	Wait(func() bool { return !m.held })
	m.held = true
}

func (m *mutex) unlock() {
	Step()
	m.held = false
}

// add adds one in two steps.
func add(v *int) {
	Step()
	was := *v
	Step()
	*v = was + 1
}

// sum is a scene of threads that add one each, and must come to their number.
func sum(threads int, add func(v *int)) Scene {
	return func() (all []func(), check func() error) {
		v := new(int)
		for range threads {
			all = append(all, func() { add(v) })
		}
		return all, func() error {
			if *v != threads {
				return errors.New("an add was lost")
			}
			return nil
		}
	}
}

func nothing() error { return nil }

func TestExplore(t *testing.T) {
	for _, c := range []struct {
		fact          string
		interruptions int
		scene         Scene
		plays         int    // 0 for any number
		wrong         string // "" for nothing
	}{
		{"two threads have two orders", 0, sum(2, add), 2, ""},
		{"three have six", 0, sum(3, add), 6, ""},
		{"an interruption may come at the steps of either", 1, func() ([]func(), func() error) {
			two := func() { Step(); Step() }
			return []func(){two, two}, nothing
		}, 2 + 2*2, ""},
		{"one loses an add", 1, sum(2, add), 0, "an add was lost"},
		{"a lock keeps it, however often they are interrupted", 9, func() ([]func(), func() error) {
			var m mutex
			return sum(3, func(v *int) { m.lock(); add(v); m.unlock() })()
		}, 0, ""},
		{"two locks in two orders", 1, func() ([]func(), func() error) {
			var m, n mutex
			both := func(m, n *mutex) func() { return func() { m.lock(); n.lock(); n.unlock(); m.unlock() } }
			return []func(){both(&m, &n), both(&n, &m)}, nothing
		}, 0, "all wait for each other"},
		{"a thread that panics", 0, func() ([]func(), func() error) {
			return []func(){func() { Step(); panic("oh") }, Step}, nothing
		}, 1, "thread 0 panics: oh"},
		{"a thread that goes on for ever", 0, func() ([]func(), func() error) {
			return []func(){func() {
				for {
					Step()
				}
			}, Step}, nothing
		}, 1, "no end in sight"},
		{"nothing that steps", 5, sum(2, func(v *int) { *v++ }), 2, ""},
	} {
		t.Run(c.fact, func(t *testing.T) {
			plays, _, wrong := explore(c.interruptions, c.scene)
			if c.plays > 0 && plays != c.plays {
				t.Errorf("%d plays, want %d", plays, c.plays)
			}
			switch {
			case wrong == nil && c.wrong != "", wrong != nil && c.wrong == "":
				t.Errorf("%v, want %q", wrong, c.wrong)
			case wrong != nil && !strings.HasPrefix(wrong.Error(), c.wrong):
				t.Errorf("%v, want %q", wrong, c.wrong)
			}
		})
	}
}

// The failure says where each thread was.
func TestWhatWentWrongIsTold(t *testing.T) {
	_, _, wrong := explore(1, sum(2, add))
	if wrong == nil || strings.Count(wrong.Error(), "thread 1 is about to pass") != 2 {
		t.Errorf("%v, want two steps of thread 1", wrong)
	}
}
