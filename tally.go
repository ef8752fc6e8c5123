package gabion

import (
	"context"
	"time"

	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/internal/machine"
)

// PlainSuccess is a call that made one attempt, at once, which succeeded. It says what the call's
// events would say.
type PlainSuccess struct {
	Dependency string
	Operation  string        // empty if the call named none
	Took       time.Duration // the attempt, and so the call
	Left       time.Duration // until the call's deadline when the attempt was sent; policy.NoDeadline if it has none
	Slow       bool          // it took longer than the slow limit
	Shard      uint32        // any number: calls that end at once mostly have different ones, so that what counts them can be divided
}

// Tallier is an [Observer] that counts plain successes without their events, which cost a call
// more than all else that observes it. All else comes as events.
//
// A dependency tallies where each of its observers is a Tallier and none of them wants
// policy.KindAttemptSent. Where one is not, all of them get the events of all calls, and no Tally: so a
// Tallier must count both alike. Of one call it never gets both.
type Tallier interface {
	Selective

	// Tally takes in a plain success, once the call is over. It comes outside every lock, with the
	// caller's context, and should be quick: the call waits for it. It may come on any number of
	// goroutines at once. A panic is treated like one of Observe.
	Tally(context.Context, PlainSuccess)
}

// listen gives a call its log that began without one, since its observers tally. From here on what it
// decides comes in events, but for a plain success.
func (r *runner) listen() {
	if r.tallied {
		r.attachLog()
	}
}

func (r *runner) attachLog() {
	r.tallied = false
	r.log = r.d.logs.take()
	r.log.Skip(r.skip)
	r.log.Tally()
	r.log.Join(&r.call)
	r.o.Partition = r.call.Partition()
}

// number is the call's number, which one gets that has events.
func (r *runner) number() uint64 {
	if r.id == 0 {
		r.id = callNumbers.Add(1)
	}
	return r.id
}

// tallyPlain tells of a call that has succeeded by the short way.
func (r *runner) tallyPlain(now clock.Instant, t *machine.Ticket) {
	r.tallied = false
	left, slow := machine.Plain(now, &r.call.Short, t)
	r.tally(now.Sub(t.Sent), left, slow)
	r.d.deliver(r.told)
}

// tally tells of a plain success.
func (r *runner) tally(took, left time.Duration, slow bool) {
	tally(r.told, r.d, &PlainSuccess{Dependency: r.d.name, Operation: r.o.operation, Took: took, Left: left, Slow: slow, Shard: r.o.Shard})
}

func tally(ctx context.Context, d *Dependency, p *PlainSuccess) {
	a := d.audience.Load()
	if a == nil {
		return
	}
	for _, s := range a.all {
		if s.tallier != nil && !s.ended.Load() {
			tallyBy(ctx, d, s.tallier, p)
		}
	}
}

func tallyBy(ctx context.Context, d *Dependency, t Tallier, p *PlainSuccess) {
	defer d.survive(ctx)
	t.Tally(ctx, *p)
}
