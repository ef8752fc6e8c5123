// Package serving admits the requests of a server. It is package admission with a clock,
// with waiting, and with a limit that may be learned. It knows nothing of HTTP, so that
// servers of other protocols can use it.
package serving

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gabion-go/gabion/internal/admission"
	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/internal/learned"
	"github.com/gabion-go/gabion/policy"
)

// Config says how a room admits.
type Config struct {
	admission.Rules

	// Learn moves the limit within these bounds, from Rules.Limit on. Nil means that the
	// limit stays.
	Learn *learned.Bounds

	// QueueOf says how many may wait with a limit. Nil means Rules.Queue, always.
	QueueOf func(limit int) int
}

// Room is where requests are worked on. Make one with [New]. All methods are safe for
// concurrent use.
type Room struct {
	gate    *admission.Gate
	epoch   time.Time
	limit   *learned.Limit // nil where it stays
	queueOf func(limit int) int
	moving  sync.Mutex

	admitted atomic.Int64
	answers  [admission.NumAnswers]atomic.Int64
}

// New returns a room.
func New(c Config) *Room {
	d := &Room{epoch: time.Now(), queueOf: c.QueueOf}
	if c.Learn != nil {
		d.limit = learned.New(d.now(), learned.NewRule(*c.Learn, c.Limit), 4*runtime.GOMAXPROCS(0))
		c.Limit = d.limit.Limit()
	}
	if c.QueueOf != nil {
		c.Queue = c.QueueOf(c.Limit)
	}
	c.Shards = runtime.GOMAXPROCS(0)
	d.gate = admission.New(c.Rules)
	return d
}

func (d *Room) now() clock.Instant { return clock.Instant(0).Add(time.Since(d.epoch)) }

// Request is who asks to be let in. The zero Request is one of normal priority, of the
// tenant without a name, and without a deadline.
type Request struct {
	Tenant   string
	Priority policy.Priority
	Deadline time.Time // besides that of the context; zero means none
}

// Pass is the right to be worked on. It is given back once, with [Room.Leave].
type Pass struct {
	slot     admission.Slot
	began    clock.Instant
	deadline clock.Instant
}

// Result is what became of a request that asked to be let in.
type Result struct {
	Answer admission.Answer
	Whole  bool // refused in an overload of the whole server
	Waited bool
}

// Enter lets a request in, at once or after it has waited for its turn. A request whose
// context or deadline is over, or who has too little time left for the work, is not let in. The Pass is only good if the answer is
// Admitted.
func (d *Room) Enter(ctx context.Context, r Request) (Pass, Result) {
	now := d.now()
	deadline := d.deadline(ctx, r.Deadline)
	if now >= deadline {
		return d.refused(Result{Answer: admission.Expired})
	}
	if ctx.Err() != nil {
		return d.refused(Result{Answer: admission.Gone})
	}
	if !d.gate.Worth(now, deadline) {
		return d.refused(Result{Answer: admission.Short})
	}
	if s, ok := d.gate.Enter(now, r.Tenant); ok {
		d.admitted.Add(1)
		return Pass{s, now, deadline}, Result{Answer: admission.Admitted}
	}
	return d.wait(ctx, now, &r, deadline)
}

// deadline is the earliest deadline of a request.
func (d *Room) deadline(ctx context.Context, other time.Time) clock.Instant {
	at, ok := ctx.Deadline()
	switch {
	case !ok && other.IsZero():
		return clock.Never
	case !ok || !other.IsZero() && other.Before(at):
		at = other
	}
	return clock.Instant(0).Add(at.Sub(d.epoch))
}

func (d *Room) refused(r Result) (Pass, Result) {
	d.answers[r.Answer].Add(1)
	if d.limit != nil && d.gate.Lacks(r.Answer) {
		d.learn(d.now(), 0, 0, learned.Lacked)
	}
	return Pass{}, r
}

// bell wakes one who waits.
type bell chan struct{}

// Wake implements bulkhead.Waker.
func (b bell) Wake() {
	select {
	case b <- struct{}{}:
	default:
	}
}

// wait is Enter where no slot is free.
func (d *Room) wait(ctx context.Context, now clock.Instant, r *Request, deadline clock.Instant) (Pass, Result) {
	w, rings := new(admission.Wait), make(bell, 1)
	if a := d.gate.Join(now, w, rings, r.Priority, r.Tenant, deadline); a != admission.Waiting {
		return d.refused(Result{Answer: a, Whole: w.Whole()})
	}
	timer := time.NewTimer(w.Until().Sub(now))
	defer timer.Stop()
	left := true
	defer func() {
		if left { // by runtime.Goexit or a panic, which only a caller's own context makes
			d.abandon(w)
		}
	}()
	slot, answer := d.answer(ctx, w, rings, timer.C)
	left = false
	if answer != admission.Admitted {
		return d.refused(Result{Answer: answer, Whole: w.Whole(), Waited: true})
	}
	d.admitted.Add(1)
	return Pass{slot, d.now(), deadline}, Result{Answer: admission.Admitted, Waited: true}
}

// answer waits for what becomes of a wait.
func (d *Room) answer(ctx context.Context, w *admission.Wait, rings bell, over <-chan time.Time) (admission.Slot, admission.Answer) {
	for {
		select {
		case <-rings:
			if slot, answer := d.gate.Ask(d.now(), w); answer != admission.Waiting {
				return slot, answer
			}
		case <-over:
			return d.gate.Leave(max(d.now(), w.Until()), w)
		case <-ctx.Done():
			return d.gone(ctx, w)
		}
	}
}

// gone ends the wait of a request whose context has ended.
func (d *Room) gone(ctx context.Context, w *admission.Wait) (admission.Slot, admission.Answer) {
	slot, answer := d.gate.Leave(d.now(), w)
	if answer == admission.Admitted {
		d.gate.Release(d.now(), slot)
		answer = admission.Gone
	}
	if answer == admission.Gone && ctx.Err() == context.DeadlineExceeded {
		answer = admission.Expired // the context's timer may be a moment early
	}
	return admission.Slot{}, answer
}

func (d *Room) abandon(w *admission.Wait) {
	now := d.now()
	if slot, answer := d.gate.Leave(now, w); answer == admission.Admitted {
		d.gate.Release(now, slot)
	}
	d.answers[admission.Gone].Add(1)
}

// Leave gives a pass back. The verdict is what the work showed of how much the server can
// take, for a learned limit.
func (d *Room) Leave(p Pass, v learned.Verdict) {
	now := d.now()
	d.gate.Release(now, p.slot)
	if v != learned.Nothing {
		d.gate.Ended(now, p.began, p.deadline, v == learned.Worked)
	}
	if d.limit != nil {
		d.learn(now, uint32(p.began>>10), now.Sub(p.began), v)
	}
}

func (d *Room) learn(now clock.Instant, shard uint32, took time.Duration, v learned.Verdict) {
	if _, moved := d.limit.Done(now, shard, took, v); moved {
		d.move()
	}
}

// End gives a pass back when the work of a request has ended, as [Verdict] says. It is made for a
// defer, so that nothing stands between the pass and it. The pass is given back even if the
// context, which may be a user's own, panics.
func (d *Room) End(ctx context.Context, p Pass, done *bool) {
	v := learned.Nothing
	defer func() { d.Leave(p, v) }()
	v = Verdict(ctx, *done)
}

// move puts the learned limit in force. The lock keeps an older limit from undoing a newer
// one.
func (d *Room) move() {
	d.moving.Lock()
	defer d.moving.Unlock()
	limit := d.limit.Limit()
	queue := -1
	if d.queueOf != nil {
		queue = d.queueOf(limit)
	}
	d.gate.Resize(limit, queue)
}

// Stats is a room at one moment, and what it has counted.
type Stats struct {
	policy.BulkheadStats
	Overloaded bool
	Admitted   int64
	Answers    [admission.NumAnswers]int64 // requests that were not let in
}

// Stats returns the numbers of one moment.
func (d *Room) Stats() (s Stats) {
	s.BulkheadStats, s.Overloaded = d.gate.Stats()
	s.Admitted = d.admitted.Load()
	for i := range d.answers {
		s.Answers[i] = d.answers[i].Load()
	}
	return s
}
