package anchor

import (
	"context"
	"math"
	"time"

	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/internal/budget"
	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/lab/internal/draw"
	"github.com/gabion-go/gabion/lab/internal/engine"
)

// retrySettings are what both experiments with failing attempts share.
var retrySettings = []setting{
	{"x", "0.5", "the share of attempts that fail, each on its own", number(0, 1)},
	{"policy", "bucket", "what decides on a retry", oneOf("none", "retries", "bucket", "breaker")},
	{"retries", "3", "the most of them, of retries and breaker", whole(0, 50)},
	{"fill", "0.1", "tokens that the start of a call brings", number(0, 1000)},
	{"size", "5", "tokens that a bucket begins with and holds", number(0, 1e6)},
	{"threshold", "0.1", "failures to a first try above which the breaker stops all retries", number(0, 1000)},
	{"clients", "100", "who have a bucket or breaker each", whole(1, mostTimes)},
	{"rate", "1000", "calls a second of all clients together", number(0.001, 1e6)},
	{"seconds", "10", "how long calls begin; the last ones are waited for", number(0.001, 100_000)},
	{"network", "10ms", "the mean of an exponential delay, one way", span(0, time.Hour)},
	seeded,
}

// brookerRetry is the experiment of Brooker, "Fixing retries with token buckets and
// circuit breakers" (2022), by the code that goes with it: tokens come with every
// call's start and not with successes, a retry needs more than one of them, tries
// have no other limit, and the breaker counts from the beginning. The bucket is
// package budget's. The breaker is the source's own: gabion's forgets, on purpose.
var brookerRetry = model{
	name:     "brooker-retry",
	says:     "retries, a token bucket and a cumulative breaker beside each other (Brooker 2022)",
	settings: append([]setting{runs("10")}, retrySettings...),
	run: func(ctx context.Context, v values) ([]Figure, error) {
		f := newFailing(v)
		sum := f.all(ctx, v)
		return []Figure{
			{"success", sum.success()},
			{"load", sum.load()},
			{"calls", float64(sum.calls)},
			{"attempts", float64(sum.attempts)},
		}, nil
	},
}

// backoffLoop is the experiment of Brooker, "What is backoff for?" (2022): waiting
// before retries does nothing for a system whose clients come whatever happens, and
// much for one whose clients do one thing after another.
var backoffLoop = model{
	name: "backoff-loop",
	says: "what backoff does to open and to serial clients (Brooker 2022)",
	settings: append([]setting{
		{"loop", "serial", "whether clients wait for one call to end before the next", oneOf("open", "serial")},
		{"backoff", "100ms", "the wait before a first retry, which doubles", span(0, time.Hour)},
		runs("10"),
	}, retrySettings...),
	run: func(ctx context.Context, v values) ([]Figure, error) {
		f := newFailing(v)
		f.serial = v.word("loop") == "serial"
		without := f.all(ctx, v)
		f.waits = backoff.Exp(v.duration("backoff"), aDay)
		with := f.all(ctx, v)
		return []Figure{
			{"load_without", without.load()},
			{"load_with", with.load()},
			{"load_change", with.load()/without.load() - 1},
			{"attempts_without", float64(without.attempts)},
			{"attempts_with", float64(with.attempts)},
			{"calls_without", float64(without.calls)},
			{"calls_with", float64(with.calls)},
			{"attempts_saved", 1 - float64(with.attempts)/float64(without.attempts)},
		}, nil
	},
}

// failing is a server that fails by chance, and its clients.
type failing struct {
	x         float64
	policy    string
	retries   int
	tokens    budget.BucketRules
	threshold float64
	clients   int
	gap       time.Duration // between a client's calls, on average
	end       clock.Instant
	network   time.Duration
	serial    bool
	waits     backoff.Backoff
}

func newFailing(v values) *failing {
	milli := func(tokens float64) int64 { return int64(math.Round(float64(tokens * 1000))) }
	return &failing{
		x: v.number("x"), policy: v.word("policy"), retries: v.count("retries"),
		// A thousandth less makes "at least one token" the source's "more than one".
		tokens:    budget.BucketRules{Capacity: milli(v.number("size")) - 1, Cost: 1000, Refill: milli(v.number("fill"))},
		threshold: v.number("threshold"), clients: v.count("clients"),
		gap:     time.Duration(float64(v.count("clients")) / v.number("rate") * 1e9),
		end:     clock.Instant(float64(v.number("seconds") * 1e9)),
		network: v.duration("network"), waits: backoff.Const(0),
	}
}

// tally is what happened in a run.
type tally struct{ calls, attempts, good int64 }

func (t *tally) success() float64 { return float64(t.good) / float64(max(t.calls, 1)) }
func (t *tally) load() float64    { return float64(t.attempts) / float64(max(t.calls, 1)) }

func (f *failing) all(ctx context.Context, v values) (sum tally) {
	for _, t := range replicate(ctx, v.count("runs"), func(i int) tally { return f.run(uint64(v.count("seed") + i)) }) {
		sum.calls += t.calls
		sum.attempts += t.attempts
		sum.good += t.good
	}
	return sum
}

type caller struct {
	draws    draw.Stream
	bucket   budget.Bucket
	calls    int64
	failures int64
}

// turn is a client's next call (try 0), or the answer to a try of a call.
type turn struct {
	client uint32
	try    int32
	draws  draw.Stream // the call's own, so that policies get the same random numbers
}

type failingRun struct {
	*failing
	seed    uint64
	queue   engine.Queue[turn]
	callers []caller
	tally
}

func (f *failing) run(seed uint64) tally {
	r := failingRun{failing: f, seed: seed, callers: make([]caller, f.clients)}
	for i := range r.callers {
		c := &r.callers[i]
		c.draws = draw.New(seed, forCallers, uint64(i))
		first := c.draws.Exp(f.network)
		if f.serial {
			first += c.draws.Exp(f.gap)
		}
		r.queue.Push(clock.Instant(first), turn{client: uint32(i)})
	}
	for {
		e, ok := r.queue.Pop()
		switch {
		case !ok:
			return r.tally
		case e.What.try > 0:
			r.answered(e.At, e.What)
		case e.At <= f.end:
			r.call(e.At, e.What.client)
		}
	}
}

func (r *failingRun) call(now clock.Instant, client uint32) {
	c := &r.callers[client]
	c.calls++
	r.calls++
	c.bucket.Refill(r.tokens)
	if !r.serial {
		r.queue.Push(now.Add(c.draws.Exp(r.gap)), turn{client: client})
	}
	r.send(now, turn{client: client, draws: draw.New(r.seed, forCalls, uint64(client)<<32|uint64(c.calls))})
}

func (r *failingRun) send(at clock.Instant, t turn) {
	r.attempts++
	t.try++
	there := t.draws.Exp(r.network)
	back := t.draws.Exp(r.network)
	r.queue.Push(at.Add(there).Add(back), t)
}

func (r *failingRun) answered(now clock.Instant, t turn) {
	c := &r.callers[t.client]
	if failed := t.draws.U() < r.x; failed && r.again(c, int(t.try)) {
		r.send(now.Add(r.waits.Delay(int(t.try)-1, 0, 0)), t)
		return
	} else if !failed {
		r.good++
	}
	if r.serial {
		r.queue.Push(now.Add(c.draws.Exp(r.gap)), turn{client: t.client})
	}
}

// again decides on a retry after a number of tries.
func (r *failingRun) again(c *caller, tries int) bool {
	switch r.policy {
	case "retries":
		return tries <= r.retries
	case "bucket":
		return c.bucket.TryWithdraw(r.tokens)
	case "breaker":
		c.failures++
		return float64(c.failures) <= float64(r.threshold*float64(c.calls)) && tries <= r.retries
	}
	return false
}
