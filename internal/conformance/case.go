// Package conformance holds the front door and the machine to the same decisions.
//
// A [Case] is a script: a policy, calls that begin at given times, attempts that
// take so long and end in such a way, and hands that move things meanwhile. It is
// run twice. [Run] drives policy.Call on a heap of events, in made-up time and on
// one goroutine; the tests run the same script through gabion.Do in a synctest
// bubble. Both must log the same decisions at the same times.
//
// Within one instant the order of a live program is undefined, so logs are
// compared instant by instant, each sorted. Scripts avoid such ties where they
// can, by times that differ in their last digits.
package conformance

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gabion-go/gabion/classify"
	"github.com/gabion-go/gabion/internal/breaker"
	"github.com/gabion-go/gabion/internal/bulkhead"
	"github.com/gabion-go/gabion/policy"
)

// Case is one script and what must come of it.
type Case struct {
	ID     string // of CONFORMANCE.md or SPEC.md, as many as it covers: "C52 C5"
	Fact   string // what is true, in words
	Policy policy.Policy
	Seed   uint64
	Hands  []Hand
	Calls  []Call

	// Check judges runs whose logs take too many lines or are drawn by chance. Nil
	// means that the log must be the one in testdata/decisions.txt.
	Check func(Log) error
}

// Call is one scripted call. Times count from the start of the case.
type Call struct {
	At       time.Duration
	Script   []Work        // one for each attempt; the last one repeats
	Cancel   time.Duration // when the caller gives up; zero is never
	Deadline time.Duration // the caller's own; zero means no deadline
	Timeout  time.Duration // in place of the policy's call timeout

	Unsafe    bool // nothing declares the work safe to repeat
	NoRetry   bool
	NoHedge   bool
	Priority  bulkhead.Priority
	Tenant    string
	Partition string
	Open      bool          // the result outlives the call
	Hold      time.Duration // for so long
	Breaks    bool          // and then breaks
}

// Work is what one attempt does.
type Work struct {
	Takes  time.Duration
	Err    error           // nil is success, unless Means says otherwise
	Means  *policy.Outcome // what a result without error means: a 503 with its body
	Panics bool
	Exits  bool // runtime.Goexit
	Deaf   bool // does not listen to its context
}

// Hand is something done to the dependency by hand.
type Hand struct {
	At time.Duration
	Do func(Handle)
}

// Handle is what a hand can hold.
type Handle interface {
	// Reload puts another policy in force.
	Reload(policy.Policy) error

	// SetRetries switches retries on or off.
	SetRetries(on bool)

	// Move gives the hand the breaker of a partition, "" for the main one.
	Move(partition string, f func(b *breaker.Breaker, now Instant))
}

// Line is one decision.
type Line struct {
	At    time.Duration // since the start of the case
	Call  int           // from 1; 0 is the dependency
	Event policy.Event
}

// String is the line without what only a comparison of two runs looks at.
func (l Line) String() string {
	who := fmt.Sprintf("c%d", l.Call)
	if l.Call == 0 {
		who = "--"
	}
	text := l.Event.String()
	if l.Call == 0 && l.Event.Partition != "" {
		text += " in " + l.Event.Partition
	}
	return fmt.Sprintf("%s %s %s", l.At, who, text)
}

// full is everything about the decision that both drivers know.
func (l Line) full() string {
	e := l.Event
	e.Dependency, e.Operation, e.Call, e.Seq = "", "", 0, 0
	if l.Call != 0 {
		e.Partition = "" // the front door adds it
	}
	return fmt.Sprintf("%s c%d %s %+v", l.At, l.Call, e.String(), e)
}

// Log is what a run decided, in order.
type Log []Line

// String is one line each.
func (l Log) String() string {
	var b strings.Builder
	for _, line := range l {
		b.WriteString(line.String() + "\n")
	}
	return b.String()
}

// Sorted returns the lines, those of one instant in alphabetical order.
func (l Log) Sorted() []string { return l.sorted(Line.String) }

func (l Log) sorted(text func(Line) string) []string {
	type entry struct {
		at   time.Duration
		text string
	}
	all := make([]entry, len(l))
	for i, line := range l {
		all[i] = entry{line.At, text(line)}
	}
	slices.SortStableFunc(all, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.at, b.at), strings.Compare(a.text, b.text))
	})
	texts := make([]string, len(all))
	for i, e := range all {
		texts[i] = e.text
	}
	return texts
}

// inOrder returns the lines by time.
func (l Log) inOrder() Log {
	c := slices.Clone(l)
	slices.SortStableFunc(c, func(a, b Line) int { return cmp.Compare(a.At, b.At) })
	return c
}

// Of returns the lines of one kind.
func (l Log) Of(kinds ...policy.Kind) (some Log) {
	for _, line := range l {
		if slices.Contains(kinds, line.Event.Kind) {
			some = append(some, line)
		}
	}
	return some
}

// judge reads a scripted result. Both drivers use it.
func judge(means *policy.Outcome, err error) policy.Outcome {
	switch {
	case err != nil:
		return classify.Error(err)
	case means != nil:
		return *means
	}
	return policy.Outcome{Class: policy.ClassSuccess}
}

// work returns the script of an attempt, from 1.
func (c *Call) work(attempt uint8) Work {
	if len(c.Script) == 0 {
		return Work{}
	}
	return c.Script[min(int(attempt), len(c.Script))-1]
}
