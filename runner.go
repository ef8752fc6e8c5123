package gabion

import (
	"context"
	"errors"
	"time"
	"unsafe"

	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/internal/machine"
	"github.com/gabion-go/gabion/policy"
)

// runner has what every driver of a call needs and does not depend on the result's type:
// the machine, the clock, the timers and the events.
type runner struct {
	call    machine.Call
	ctx     context.Context // the caller's
	told    context.Context // ctx, or what a Tracer made of it: what observers and attempts get
	d       *Dependency
	o       callOptions
	waker   waker
	log     *machine.Log
	id      uint64
	muted   uint64        // observers that do not follow the call, by their seats
	skip    machine.Kinds // what none of the others wants to know
	spoke   bool          // observers were told something since an attempt was last sent
	began   clock.Instant
	keep    bool  // results outlive the call
	tallied bool  // its observers tally, and it has no log yet
	part    *part // what the call is part of; nil for most
}

// prepare readies a call whose result is a T, and of which ctx, d and part are known. The
// dependency is not touched yet.
func prepare[T any](r *runner, opts []CallOption) error {
	if err := r.read(opts); err != nil {
		return err
	}
	if r.o.judge != nil || r.d.judge != nil {
		if err := suits[T](r); err != nil {
			return err
		}
	}
	if a := r.d.audience.Load(); a != nil && r.part == nil {
		r.observe(a)
	}
	return nil
}

// read reads the clock and the options.
func (r *runner) read(opts []CallOption) error {
	d := r.d
	r.told, r.began, r.o.discard = r.ctx, d.now(), d.discard
	if r.began < 0 { // the dependency was made in another synctest bubble
		return elsewhere(d)
	}
	if len(opts) > 0 {
		r.o.collect(opts)
		if err := r.o.problem(); err != nil {
			return d.turnAway(r.ctx, &r.o, &Error{Dependency: d.name, Reason: policy.Invalid, Err: err})
		}
		if e := r.o.Endpoint; e != nil && *e != "" && r.part == nil && !machine.HasEndpoint(d.state, *e) {
			return d.turnAway(r.ctx, &r.o, &Error{Dependency: d.name, Reason: policy.Invalid, Err: noEndpoint(d, *e)})
		}
	}
	if deadline, ok := r.ctx.Deadline(); ok {
		r.o.Deadline = nonzero(d.instant(deadline))
	}
	if r.part != nil || r.o.key != "" || d.state.Rules().Policy.Key != policy.KeyDeclared { // there is one, or one is needed
		if err := r.settleKey(); err != nil {
			return d.turnAway(r.ctx, &r.o, err)
		}
	}
	return nil
}

func elsewhere(d *Dependency) error {
	return &Error{Dependency: d.name, Reason: policy.Invalid, Err: errElsewhere}
}

// settleKey finds the call's key. A part has that of its attempt, unless it brings its own:
// what the policy asks for was asked there.
func (r *runner) settleKey() error {
	switch {
	case r.part == nil:
		return r.o.settleKey(r.d)
	case r.o.key != "":
		return r.o.checkKey(r.d)
	}
	if k := keyOf(r.ctx); k != nil {
		r.o.key = k.key
	}
	return nil
}

// observe numbers a call that is observed, and lets every Tracer have its context. One that is tallied
// gets its number with its first event.
// Nothing is taken or locked yet.
func (r *runner) observe(a *audience) {
	r.skip = a.skip
	if r.tallied = a.tallies; r.tallied {
		return
	}
	r.number()
	if a.traced {
		r.told, r.muted = a.traceCall(r.ctx, r.d, &Event{
			At: r.began, Operation: r.o.operation, Partition: machine.BoundedName(r.o.Partition), Call: r.id,
		})
	}
	r.skip, _ = a.without(r.muted)
}

// begin starts the call.
func (r *runner) begin() clock.Instant {
	d, p, now := r.d, &r.o.Params, r.began
	p.Shard = shardOf(&r.call.Short, now)
	p.Keyed = r.o.key != ""
	if r.id != 0 {
		r.log = d.logs.take()
		r.log.Skip(r.skip)
		p.Log = r.log
	}
	if d.tracked && r.part == nil {
		arrive(d, now)
	}
	state := d.state
	if r.part != nil {
		state, p.Endpoint = d.bareState(), nil // it goes where its attempt goes
	}
	r.call.Begin(state, now, p)
	if r.log != nil { // events name the partition that the call counts in, not what the caller wrote
		p.Partition = r.call.Partition()
	}
	return now
}

// waker wakes a call that waits. It never blocks and takes no lock. A nil waker does nothing.
type waker chan struct{}

// Wake implements bulkhead.Waker.
func (w waker) Wake() {
	select {
	case w <- struct{}{}:
	default:
	}
}

// wakeable makes the waker when the call waits for the first time, and reports whether
// it did so now.
func (r *runner) wakeable() bool {
	if r.waker != nil {
		return false
	}
	r.wakeBy(make(waker, 1))
	return true
}

func (r *runner) wakeBy(w waker) {
	r.waker = w
	r.call.SetWaker(w)
}

// shardOf picks a shard by the address of the call's memory. A goroutine usually gets
// the same shard again, and goroutines that run at once get different ones. Two that get
// the same shard get others a millisecond later.
func shardOf(c *machine.Short, now clock.Instant) uint32 {
	const page = 13  // the smallest distance between two goroutines' memory: 2^13 bytes
	const while = 20 // how long a goroutine keeps its shard: 2^20 ns
	at := uint64(uintptr(unsafe.Pointer(c)))>>page ^ uint64(now)>>while<<32
	at *= 0x9e3779b97f4a7c15
	at ^= at >> 32
	return uint32(at * 0xd6e8feb86659fd93 >> 32)
}

// nonzero is t, or the instant before it where t would mean "none".
func nonzero(t clock.Instant) clock.Instant {
	if t == 0 {
		return -1
	}
	return t
}

// context makes the context of an attempt: the part that the runner uses, and the
// context that work sees. Parent is the caller's, or what a Tracer made of it. Where
// results outlive the call, a watch ends it in time.
func (r *runner) context(parent context.Context, t *machine.Ticket) (*attemptContext, context.Context) {
	var a *attemptContext
	var seen context.Context
	switch {
	case machine.Placed(&r.call):
		a, seen = place(r, t)
	case r.o.key == "" && r.keep:
		o := new(openContext)
		a, seen = &o.attemptContext, o
	case r.o.key == "":
		a = new(attemptContext)
		seen = a
	default:
		k := &keyedContext{key: r.o.key}
		a, seen = &k.attemptContext, k
	}
	if q := machine.Reserved(&r.call, t); q != nil {
		parent = &quotaContext{parent, r.d, q}
	}
	a.set(parent, r.d, t)
	if r.keep || r.part != nil {
		r.mark(a)
	}
	return a, seen
}

// mark says of an attempt's context that a watch keeps its time, or that its call is a part.
func (r *runner) mark(a *attemptContext) {
	if r.keep {
		a.marks.Store(watched)
	}
	if r.part != nil {
		a.marks.Or(partial)
	}
}

// report tells the machine what an attempt came to, and the attempt around it if the call is
// part of one.
func (r *runner) report(now clock.Instant, t *machine.Ticket, at *attemptContext, o *policy.Outcome) {
	if o.Class != policy.ClassSuccess && r.o.key != "" && at != nil && !at.is(used) && !o.NeverSent && !o.Undone {
		r.call.Unkeyed()
	}
	r.call.SettleFrom(now, t, o)
	if r.part != nil {
		r.part.settled(o, r.o.Safe || r.o.key != "" || r.d.state.Rules().Policy.Safe)
	}
}

// canceled reports whether the caller gave up. The end of the caller's deadline is not a
// cancel, since the call has that deadline too. But it is one if the caller's context did
// not tell its deadline, or ended well before the call's by another clock.
func (r *runner) canceled() bool {
	err := r.ctx.Err()
	if err == nil || !errors.Is(err, context.DeadlineExceeded) {
		return err != nil
	}
	return r.call.Deadline().Sub(r.d.now()) > time.Millisecond
}

// wanted reports whether the caller's context has not ended. One that panics has.
func (r *runner) wanted() (wanted bool) {
	defer func() { _ = recover() }()
	return r.ctx.Err() == nil
}

// canceledSafely is canceled for calls that a user's code has left. If the caller's
// context panics, too, that must not keep them from giving back.
func (r *runner) canceledSafely() (canceled bool) {
	defer func() { _ = recover() }()
	return r.canceled()
}

// publish tells the observer what was decided.
func (r *runner) publish() {
	if r.log != nil {
		r.tellAll()
	}
}

// start sets the start of the attempt that is about to be made. The time that observers
// took is not the attempt's. Parent is for the attempt's context.
func (r *runner) start(now clock.Instant, t *machine.Ticket) (started clock.Instant, parent context.Context) {
	if r.log == nil {
		return now, r.told
	}
	parent, traced := r.trace(t, machine.EndpointOf(&r.call, t))
	if traced || r.spoke {
		r.spoke = false
		now = r.d.now()
		r.call.Start(now, t)
	}
	return now, parent
}

// trace returns what the attempt's context is made of: that of the call, or what a Tracer
// made of it. To is where the attempt goes: the call is not asked, since another goroutine may use it.
func (r *runner) trace(t *machine.Ticket, to *policy.Endpoint) (made context.Context, traced bool) {
	a := r.d.audience.Load()
	if a == nil || !a.traced {
		return r.told, false
	}
	if r.muted != 0 {
		if _, traced = a.without(r.muted); !traced {
			return r.told, false
		}
	}
	left := policy.NoDeadline
	if end := r.call.Deadline(); end != clock.Never {
		left = end.Sub(t.Sent)
	}
	partition := r.o.Partition
	if to != nil {
		partition = to.Name
	}
	return a.traceAttempt(r.told, r.d, &Event{
		Kind: policy.KindAttemptSent, At: t.Sent, Until: t.Deadline, Attempt: t.Attempt, Hedge: t.Hedge, Left: left,
		Operation: r.o.operation, Partition: partition, Call: r.number(),
	}, r.muted), true
}

func (r *runner) tellAll() {
	events := r.log.Drain()
	for i := range events {
		r.tell(&events[i])
	}
	r.spoke = r.d.deliver(r.told) || len(events) > 0 || r.spoke
}

func (r *runner) tell(e *Event) {
	if e.Kind == machine.KindPlain {
		r.tally(e.Took, e.Left, e.Slow)
		return
	}
	e.Operation, e.Call = r.o.operation, r.number()
	if e.Partition == "" { // else it is the endpoint
		e.Partition = r.o.Partition
	}
	r.d.publishBut(r.told, e, r.muted)
}

// sleep waits for a wake-up, for the end of the caller's context, or until then. It reads
// the clock itself, since observers may have taken time.
func (r *runner) sleep(until clock.Instant) {
	wait := until.Sub(r.d.now())
	if wait <= 0 {
		return
	}
	done := r.ctx.Done()
	if r.ctx.Err() != nil {
		if r.canceled() {
			return
		}
		done = nil // its deadline passed: work that is out gets a moment to return
	}
	timer := r.d.timers.start(wait)
	select {
	case <-timer.C:
	case <-r.waker:
	case <-done:
	}
	r.d.timers.stop(timer)
}

// pause sleeps, and returns the time after that. A call that had no waker until now is
// asked again at once, since it may want to queue.
func (r *runner) pause(now, until clock.Instant) clock.Instant {
	if r.wakeable() {
		return now
	}
	r.sleep(until)
	now = r.d.now()
	if r.canceled() {
		r.call.Cancel(now)
	}
	return now
}

// arrive counts a call in for [Registry].
func arrive(d *Dependency, now clock.Instant) {
	d.used.Store(int64(now))
	d.out.Add(1)
}

// finish counts the call out for [Registry], which forgets idle instances. A part is not
// counted: its result may never be closed, since it ends with the attempt.
func (r *runner) finish() {
	if r.d.tracked && r.part == nil {
		r.d.out.Add(-1)
	}
}
