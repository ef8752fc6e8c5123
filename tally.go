package gabion

import (
	"context"
	"time"

	"github.com/gabion-go/gabion/internal/adapter"
	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/internal/machine"
)

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
	tally(r.told, r.d, &adapter.PlainSuccess{Dependency: r.d.name, Operation: r.o.operation, Took: took, Left: left, Slow: slow, Shard: r.o.Shard})
}

func tally(ctx context.Context, d *Dependency, p *adapter.PlainSuccess) {
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

func tallyBy(ctx context.Context, d *Dependency, t adapter.Tallier, p *adapter.PlainSuccess) {
	defer d.survive(ctx)
	t.Tally(ctx, *p)
}
