package machine

import (
	"math/bits"
	"sync/atomic"
	"time"

	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/internal/latency"
	"github.com/gabion-go/gabion/policy"
)

// totals count the calls that have ended. A success is counted by the budget that it
// earns for, where there is one. All others are counted here, by what they are: each
// number only grows, and no two of them have to agree.
type totals struct {
	lines  atomic.Pointer[[]line]         // one for each shard; nil before the first: most successes are counted by the budget
	shards uint16                         // a power of two
	others []atomic.Pointer[others]       // each is made by the first that it counts: most names of a registry never fail
	times  atomic.Pointer[latency.Sketch] // of the attempts that were sampled; nil before the first
}

// line is a cache line of what successes write.
type line struct {
	successes atomic.Uint64 // that the budget does not count
	overtaken atomic.Uint64 // attempts that a hedge was quicker than
	sampled   atomic.Int64  // when the time of an attempt was taken last
	_         [40]byte
}

// others counts the calls that are no plain success.
type others struct {
	failed  [reasons]atomic.Uint64 // calls that sent an attempt
	unsent  [reasons]atomic.Uint64 // calls that sent none
	retries atomic.Uint64
	hedges  atomic.Uint64
	won     atomic.Uint64 // hedges that brought the answer
	_       [64]byte
}

const (
	reasons   = len(policy.Failures{})
	maxOthers = 8 // shards of others: they take half a kilobyte each
)

// The time of an attempt is taken of the first so many successes of each shard, then of one in
// so many, and of the next one after a while. So of a dependency that is
// called seldom all times are known, and where calls are many, taking them costs little. Where
// the budget counts successes, the while is a quarter of its window.
const (
	timedFirst = 512
	timedEvery = 8
	timedAfter = 250 * time.Millisecond
)

// timed reports whether the n-th success of a shard is one whose time is taken.
func timed(n uint64) bool { return n <= timedFirst || n%timedEvery == 0 }

func newTotals(shards int) *totals {
	n := 1 << bits.Len(uint(max(shards, 1)-1))
	return &totals{shards: uint16(n), others: make([]atomic.Pointer[others], min(n, maxOthers))}
}

func (t *totals) line(shard uint32) *line {
	all := t.lines.Load()
	if all == nil {
		made := make([]line, t.shards)
		t.lines.CompareAndSwap(nil, &made)
		all = t.lines.Load()
	}
	return &(*all)[int(shard)&(len(*all)-1)]
}

func (t *totals) other(shard uint32) *others {
	o := &t.others[int(shard)&(len(t.others)-1)]
	if o.Load() == nil {
		o.CompareAndSwap(nil, new(others))
	}
	return o.Load()
}

func (s *State) totals() *totals {
	if p := s.part(); p != nil {
		return p.totals
	}
	return nil
}

// TurnAway counts a call that ended before it began.
func (s *State) TurnAway(shard uint32, why policy.Reason) {
	if t := s.totals(); t != nil {
		t.other(shard).unsent[why].Add(1)
	}
}

// countSuccess counts a call that ended well, and takes its time. Earned is the number of
// the success among those of its shard that the budget has counted, or zero. Of those that the
// budget has counted it need only be called where the time is to be taken, or for a hedge.
func (c *Short) countSuccess(now clock.Instant, t *Ticket, earned uint64) {
	to := c.state.totals()
	if to == nil {
		return
	}
	n := earned
	if n == 0 {
		n = to.line(c.shard).successes.Add(1)
	}
	switch {
	case t.Hedge:
		to.other(c.shard).won.Add(1)
	case earned != 0:
		to.record(now, now.Sub(t.Sent))
	default:
		to.sample(now, c.shard, n, now.Sub(t.Sent))
	}
}

// countOvertaken samples an attempt that a hedge was quicker than. It would have taken
// longer than it did.
func (c *Call) countOvertaken(now clock.Instant, t *Ticket) {
	if to := c.state.totals(); to != nil && !t.Hedge {
		to.sample(now, c.shard, to.line(c.shard).overtaken.Add(1), now.Sub(t.Sent))
	}
}

// countEnd counts what a call came to that is no plain success.
func (c *Call) countEnd(why policy.Reason) {
	to := c.state.totals()
	if to == nil {
		return
	}
	o := to.other(c.shard)
	switch {
	case c.sent.n == 0:
		o.unsent[why].Add(1)
		return
	case why != policy.None:
		o.failed[why].Add(1)
	}
	if retries := c.sent.tries; retries > 1 {
		o.retries.Add(uint64(retries - 1))
	}
	if hedges := c.sent.n - c.sent.tries; hedges > 0 {
		o.hedges.Add(uint64(hedges))
	}
}

// sample takes the time of an attempt, if it is its turn. The n-th of its shard asks.
func (t *totals) sample(now clock.Instant, shard uint32, n uint64, took time.Duration) {
	l := t.line(shard)
	if !timed(n) && now.Sub(clock.Instant(l.sampled.Load())) < timedAfter {
		return
	}
	l.sampled.Store(int64(now))
	t.record(now, took)
}

func (t *totals) record(now clock.Instant, took time.Duration) {
	times := t.times.Load()
	if times == nil {
		t.times.CompareAndSwap(nil, latency.New(latencySpan, 1))
		times = t.times.Load()
	}
	times.Record(now, 0, took)
}

// givenUp is how many calls their callers gave up before anything was sent.
func (t *totals) givenUp() (n int64) {
	for i := range t.others {
		if o := t.others[i].Load(); o != nil {
			n += int64(o.unsent[policy.Canceled].Load())
		}
	}
	return n
}

// sum adds up what was counted. What is part of another number is read before it.
func (t *totals) sum(earned uint64) (sum policy.Totals) {
	sum.Succeeded = int64(earned)
	if all := t.lines.Load(); all != nil {
		for i := range *all {
			sum.Succeeded += int64((*all)[i].successes.Load())
		}
	}
	var failed int64
	for i := range t.others {
		o := t.others[i].Load()
		if o == nil {
			continue
		}
		sum.HedgesWon += int64(o.won.Load())
		sum.Hedges += int64(o.hedges.Load())
		sum.Retries += int64(o.retries.Load())
		for why := range reasons {
			sent, unsent := int64(o.failed[why].Load()), int64(o.unsent[why].Load())
			sum.Failures[why] += sent + unsent
			sum.Unsent += unsent
			failed += sent
		}
	}
	sum.Calls = sum.Succeeded + failed + sum.Unsent
	sum.Attempts = sum.Succeeded + failed + sum.Retries + sum.Hedges
	return sum
}
