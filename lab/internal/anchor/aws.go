package anchor

import (
	"context"
	"math"
	"time"

	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/lab/internal/draw"
	"github.com/gabion-go/gabion/lab/internal/engine"
	"github.com/gabion-go/gabion/lab/internal/stat"
)

// Purposes of draws.
const (
	forContenders draw.Purpose = iota + 1000 // apart from those of package sim
	forCallers
	forCalls
	forArrivals
	forChoices
	forLeaves
	forSwitching
	forProbes
	forPolicy
)

// awsOCC is the experiment behind Brooker, "Exponential Backoff And Jitter" (AWS
// Architecture Blog, 2015): clients contend for one row with optimistic locking.
// The waits are package backoff's. The source counts refusals from one and doubles
// so often, where gabion's first retry waits the base itself: what is retry n there
// is Delay's n here, one doubling more than production would wait.
var awsOCC = model{
	name: "aws-occ",
	says: "clients contend for one row: how jitter saves calls and time (Brooker, AWS 2015)",
	settings: []setting{
		{"clients", "100", "who each must write the row once", whole(1, 10_000)},
		{"strategy", "full", "how long to wait after a refusal", oneOf("none", "exponential", "equal", "full", "decorrelated")},
		{"base", "5ms", "the backoff's base; the first wait is of twice that", span(time.Microsecond, time.Hour)},
		{"cap", "2s", "the backoff's cap", span(time.Microsecond, aDay)},
		{"network", "10ms", "a message's delay: the distance from zero of a normal draw with this mean", span(0, time.Hour)},
		{"deviation", "2ms", "and this standard deviation", span(0, time.Hour)},
		runs("100"), seeded,
	},
	run: func(ctx context.Context, v values) ([]Figure, error) {
		o := occ{
			clients: v.count("clients"),
			backoff: occBackoff(v.word("strategy"), v.duration("base"), v.duration("cap")),
			network: draw.AbsNormal(v.duration("network"), v.duration("deviation")),
		}
		all := replicate(ctx, v.count("runs"), func(i int) contest { return o.run(uint64(v.count("seed") + i)) })
		times := pick(all, func(c *contest) float64 { return float64(c.end) / 1e6 })
		writes := pick(all, func(c *contest) float64 { return float64(c.writes) })
		return []Figure{
			{"time_ms", math.Trunc(mean(times))},
			{"calls", math.Trunc(mean(writes))},
			{"time_deviation_ms", stat.Deviation(times)},
			{"calls_deviation", stat.Deviation(writes)},
		}, nil
	},
}

func occBackoff(strategy string, base, limit time.Duration) backoff.Backoff {
	switch strategy {
	case "exponential":
		return backoff.Exp(base, limit)
	case "equal":
		return backoff.Equal(base, limit)
	case "full":
		return backoff.Full(base, limit)
	case "decorrelated":
		return backoff.Backoff{Kind: backoff.DecorrelatedJitter, Base: base, Cap: limit}
	}
	return backoff.Const(0)
}

// occ is a row that accepts a write of the version that it has.
type occ struct {
	clients int
	backoff backoff.Backoff
	network draw.Dist
}

// contest is one run: writes are what the source counts as calls, reads are not.
type contest struct {
	end    clock.Instant // when the last client knew that it had written
	writes int
}

type contender struct {
	draws   draw.Stream
	refused int
	waited  time.Duration
}

// request is a message that reaches the row: a read, or a write of a version.
type request struct {
	client  uint32
	write   bool
	version uint32
}

func (o *occ) run(seed uint64) (c contest) {
	var queue engine.Queue[request]
	all := make([]contender, o.clients)
	for i := range all {
		all[i].draws = draw.New(seed, forContenders, uint64(i))
		queue.Push(clock.Instant(o.network.Draw(&all[i].draws)), request{client: uint32(i)})
	}
	for version := uint32(0); ; {
		e, ok := queue.Pop()
		if !ok {
			return c
		}
		who := &all[e.What.client]
		home := e.At.Add(o.network.Draw(&who.draws))
		switch {
		case !e.What.write:
			queue.Push(home.Add(o.network.Draw(&who.draws)), request{e.What.client, true, version})
		case e.What.version == version:
			c.writes++
			version++
			c.end = max(c.end, home)
		default:
			c.writes++
			again := home.Add(o.network.Draw(&who.draws)).Add(o.wait(who))
			queue.Push(again, request{client: e.What.client})
		}
	}
}

func (o *occ) wait(who *contender) time.Duration {
	who.refused++
	who.waited = o.backoff.Delay(who.refused, who.waited, who.draws.U())
	return who.waited
}
