package consumer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/messages/deadletter"
	"github.com/gabion-go/gabion/messages/inbox"
	"github.com/gabion-go/gabion/policy"
)

// This file is about work that does not return when its context ends. It can't be stopped, so
// it is left: its run counts as one that failed, the message goes on, and the goroutine stays
// for as long as the work takes.

// A Left is a run of work that goes on although its time and its grace are over.
type Left struct {
	ID       string // of the message
	Source   string // of the message
	Position string // of the message
	Begun    time.Time
	Lent     bool // its slot is lent to another message
}

// A LeftError says which work still runs where something has stopped: see [Consumer.Left].
type LeftError struct{ Runs []Left }

// Error implements error.
func (e *LeftError) Error() string {
	const most = 5
	names := make([]string, 0, most+1)
	for i := range e.Runs {
		if i == most {
			names = append(names, "…")
			break
		}
		names = append(names, fmt.Sprintf("%q since %s", e.Runs[i].ID, e.Runs[i].Begun.Format(time.TimeOnly)))
	}
	return fmt.Sprintf("consumer: the work of %d messages still runs: %s", len(e.Runs), strings.Join(names, ", "))
}

// errGoexit is the error of work that ended its goroutine.
var errGoexit error = &inbox.PanicError{Value: errors.New("runtime.Goexit was called")}

// An abandoned is the error of a run that was left.
type abandoned struct {
	after time.Duration // of the run, when it was left
	again bool          // it did not begin, since an earlier run of its message goes on here
}

func (e *abandoned) Error() string {
	if e.again {
		return "consumer: an earlier run of the work was left, and still goes on in this process"
	}
	return fmt.Sprintf("consumer: the work did not return after its context had ended, and was left running after %v", e.after.Round(time.Millisecond))
}

// Is makes it an inbox.ErrAbandoned.
func (e *abandoned) Is(target error) bool { return target == inbox.ErrAbandoned }

// Outcome is what package classify asks of errors that know what they mean.
func (e *abandoned) Outcome() policy.Outcome {
	return policy.Failed(policy.ClassTimeout)
}

// glance is how long work is waited for before its context is asked for its end, which costs
// more than most work takes.
const glance = 50 * time.Millisecond

// await runs the work in a goroutine of its own and returns its error; if the work goes on
// for longer than the grace after its context has ended, an inbox.ErrAbandoned.
func (h *handling) await(w *working) error {
	if h.c.runsYet(h.m) {
		return &abandoned{again: true}
	}
	if h.now = w; h.ended == nil {
		h.ended = make(chan error, 1)
	}
	go h.going()
	grace := h.c.options.Grace
	first := min(grace, glance)
	h.wake(first)
	select {
	case err := <-h.ended:
		return err
	case <-h.timer.C:
	}
	if w.Err() != nil {
		grace -= first
	}
	select {
	case err := <-h.ended:
		return err
	case <-w.Done():
	}
	h.wake(grace)
	select {
	case err := <-h.ended:
		return err
	case <-h.timer.C:
	}
	if h.left = h.c.leave(h.m, w, h.begun); h.left == nil {
		return <-h.ended // it has just returned
	}
	return &abandoned{after: time.Since(h.begun)}
}

// wake sets the timer.
func (h *handling) wake(after time.Duration) {
	if h.timer == nil {
		h.timer = time.NewTimer(after)
		return
	}
	h.timer.Reset(after)
}

// goes runs the work. Its panic and its runtime.Goexit end here.
func (h *handling) goes() {
	w, work, ended := h.now, h.work, h.ended
	err := errGoexit
	defer func() {
		if v := recover(); v != nil {
			err = &inbox.PanicError{Value: v, Stack: debug.Stack()}
		}
		w.End()
		if l := w.left.Swap(&returned); l != nil {
			l.c.back(l)
			return
		}
		ended <- err
	}()
	err = work(w)
}

// bubbled reports whether now is in a bubble of testing/synctest, where time has no reading
// of the monotonic clock. What waits there is of no use outside.
func bubbled(now time.Time) bool { return now == now.Round(0) } //nolint:staticcheck // whether it has a monotonic part is the question

// returned is the leftRun of work that has returned.
var returned leftRun

// A leftRun is a run that was left. All but c and w is guarded by the Consumer's left.mu.
type leftRun struct {
	Left
	c       *Consumer
	key     deadletter.ID
	over    bool            // the work has returned
	attempt *gabion.Attempt // once the message was handled; it is closed when the work returns
	outcome policy.Outcome  // of the attempt
}

// leaving has the runs that were left.
type leaving struct {
	some atomic.Int64 // how many there are
	held atomic.Int64 // how many of them keep their slots
	mu   sync.Mutex   // guards runs and what they have
	runs map[deadletter.ID]*leftRun
}

// runsYet reports whether an earlier run of the message was left here and goes on.
func (c *Consumer) runsYet(m *Message) bool {
	if c.left.some.Load() == 0 {
		return false
	}
	key := c.letter(m)
	c.left.mu.Lock()
	defer c.left.mu.Unlock()
	return c.left.runs[key] != nil
}

// leave notes that a run is left, nil if its work has just returned.
func (c *Consumer) leave(m *Message, w *working, begun time.Time) *leftRun {
	l := &leftRun{Left: Left{ID: m.ID, Source: m.Source, Position: m.Position, Begun: begun}, c: c, key: c.letter(m)}
	c.left.mu.Lock()
	defer c.left.mu.Unlock()
	if !w.left.CompareAndSwap(nil, l) {
		return nil
	}
	if c.left.runs == nil {
		c.left.runs = map[deadletter.ID]*leftRun{}
	}
	c.left.runs[l.key] = l
	c.left.some.Add(1)
	return l
}

// lend ends the handling of a message whose run was left: with the outcome its attempt is
// settled, and the slot is given to others, unless too many were. What keeps its slot is settled
// when its work returns, or when the slot of another is free to be lent.
func (c *Consumer) lend(l *leftRun, a *gabion.Attempt, o policy.Outcome) {
	s := &c.left
	s.mu.Lock()
	l.attempt, l.outcome = a, o
	n, over := s.some.Load(), l.over
	if l.Lent = over || n-s.held.Load() <= int64(c.most()); !l.Lent {
		s.held.Add(1)
	}
	lent := l.Lent
	s.mu.Unlock()
	c.logger().LogAttrs(context.Background(), slog.LevelWarn, "work goes on after its time and its grace: it is left running",
		slog.String("group", c.options.Group), slog.String("message", l.ID), slog.String("source", l.Source),
		slog.Duration("runs", time.Since(l.Begun)), slog.Int64("left", n), slog.Bool("slot_lent", lent))
	if lent {
		l.free(over)
	}
}

// free settles the attempt of a run that was left and gives its slot back; closed says that
// the work has returned.
func (l *leftRun) free(closed bool) {
	_ = l.attempt.SettleOutcome(l.outcome, inbox.ErrAbandoned)
	l.attempt.Outlive()
	if closed {
		l.attempt.Close(nil)
	}
}

// back notes that the work of a run that was left has returned. What it had lent another may
// lend.
func (c *Consumer) back(l *leftRun) {
	s := &c.left
	s.mu.Lock()
	l.over = true
	delete(s.runs, l.key)
	s.some.Add(-1)
	if l.attempt == nil { // who left it closes the attempt
		s.mu.Unlock()
		return
	}
	next := l
	if l.Lent {
		next = s.holder()
	}
	if next != nil {
		s.held.Add(-1)
		next.Lent = true
	}
	s.mu.Unlock()
	if next != nil && next != l {
		next.free(false)
	}
	l.free(true)
}

// holder returns a run that keeps its slot, nil if none does. mu is held.
func (s *leaving) holder() *leftRun {
	for _, l := range s.runs {
		if l.attempt != nil && !l.Lent {
			return l
		}
	}
	return nil
}

// most is how many slots of runs that were left are lent.
func (c *Consumer) most() int {
	if n := c.options.Lend; n != 0 {
		return max(n, 0)
	}
	return max(c.seen.Slots(), leastLent)
}

// leastLent is how many slots are lent at least, where nothing else is said.
const leastLent = 16

// Abandoned reports whether the run of work that has that context was left, since it went on
// for too long: what it does now counts no more, and its message may be worked on by others.
func Abandoned(ctx context.Context) bool {
	w, _ := ctx.Value(workingKey{}).(*working)
	return w != nil && w.left.Load() != nil
}

// Grace returns how long work may go on after its context has ended.
func (c *Consumer) Grace() time.Duration { return c.options.Grace }

// Left returns the runs of work that go on although their time and their grace are over, the
// oldest first. Only the end of the process ends work that ignores its context.
func (c *Consumer) Left() []Left {
	c.left.mu.Lock()
	defer c.left.mu.Unlock()
	all := make([]Left, 0, len(c.left.runs))
	for l := range maps.Values(c.left.runs) {
		all = append(all, l.Left)
	}
	slices.SortFunc(all, func(a, b Left) int { return a.Begun.Compare(b.Begun) })
	return all
}
