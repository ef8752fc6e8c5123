// Package breaker stops calling a dependency that fails or drags.
//
// A [Breaker] is a state machine without a clock, a goroutine or a random source: time
// is an argument, and a move that falls due while nobody asks is made at the next call.
// Each admitted call gets a [Permit] and settles it with a [Result]. Every move begins a
// new generation, and permits of an old one do nothing. So a late, cancelled or hung
// call can neither close nor open the breaker.
package breaker

import (
	"math"
	"math/bits"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gabion-go/gabion/internal/chance"
	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/internal/window"
)

// Breaker guards one dependency, or one partition of it. It is made by [New],
// all its methods are safe for concurrent use, and it must not be copied.
type Breaker struct {
	word    atomic.Uint64         // generation and state
	until   atomic.Int64          // when open or forced open ends; stored before word. Of states that lapse: when; stored after word
	since   atomic.Int64          // when the first call of the run of failures began, or else the last run ended; stored before run
	rules   atomic.Pointer[Rules] // the newest rules decide, whoever started a call
	run     atomic.Uint32         // failures in a row, and runLasts; kept only while the rules ask for it
	reached atomic.Uint32         // the turn of the window in which successes need no look
	longest atomic.Uint32         // run of failures that ended while most calls failed; see Rules.enough

	win window.Elastic

	mu      sync.Mutex // taken by moves and all that is not plain closed; guards what follows
	log     Log
	seed    uint64
	extra   *extra // nil until it is needed; then it stays
	seq     uint32 // changes logged
	opens   uint16 // opens since the last close
	crossed uint8  // observe-only: the rules that are broken just now, as Causes
	spread  uint8  // the most shards, as a power of two
}

// extra is what only refusing, half-open, isolation, ageing and a count window need.
type extra struct {
	refusedSince atomic.Int32  // calls refused since the last probe; kept only with OpenCalls
	probeAfter   atomic.Int32  // how many of these let the next probe go; 0 if only time does, or a hand
	why          atomic.Uint32 // the Cause of the last move to a state that refuses; stored before word
	refused      refusals      // since calls were last admitted; needs no lock, and is there before the first is refused
	probes       trackedCalls
	outcomes     window.Counts // of the probes that were settled
	bad          int64         // those of them that failed or were slow
	watched      trackedCalls  // calls watched for ageing
	ring         *ring         // the count window
	added        uint64        // outcomes in count windows of before
	held         []uint64      // isolations, by their ids
	lastID       uint64
	returnTo     State // where the last release goes
	returnUntil  clock.Instant
}

// Permit says that a call was admitted. It must be settled exactly once. In a closed
// breaker a second Settle counts as another call, in the other states it does nothing.
// The zero Permit is none, and settling it does nothing.
type Permit struct {
	word   uint64
	start  clock.Instant
	serial uint32 // of the tracked call, 0 for none
	slot   uint16
}

// Change tells of a move, or, in observe-only, of a rule that was broken.
type Change struct {
	From, To State
	Cause    Cause         // the first of Exceeded where rules decided
	Exceeded Causes        // every rule that was broken
	Counts   window.Counts // what led to it
	InRow    int           // of a run of failures that was too long: how many were
	At       clock.Instant // when it was done
	Due      clock.Instant // when it fell due: earlier than At if nobody asked before
	Until    clock.Instant // when open, or a state that was set by hand, ends; Never for no end
	Who      string        // of a move by hand
	Opens    int           // opens since the last close, this one included
	Seq      uint64        // 1 for the breaker's first change
}

// Log is told of changes. BreakerMoved is called under the breaker's lock, so
// the order is that of the moves: it must only append, and must not call the
// breaker.
type Log interface{ BreakerMoved(Change) }

// stateBits of a word are its state; what is above them is the generation.
const stateBits = 3

// never is no turn of a window: its lower half is no cell.
const never = math.MaxUint32

func stateOf(word uint64) State { return State(word & (1<<stateBits - 1)) }

// New returns a closed breaker with empty counts. Shards is over how many cache lines it
// counts at most (256, rounded up to a power of two): about as many as processors, 1 in a
// simulator. It begins with one, and takes more when calls that end at the same time get
// in each other's way. The seed is for the jitter of open times. A nil log is none.
func New(r *Rules, shards int, seed uint64, log Log) *Breaker {
	b := &Breaker{win: window.MakeElastic(r.Window, buckets), seed: seed, log: log}
	b.spread = uint8(bits.Len(uint(min(max(shards, 1), maxShards) - 1)))
	b.rules.Store(r)
	b.reached.Store(never)
	b.word.Store(1<<stateBits | uint64(Closed))
	if r.byCount() {
		b.needExtra().ring = newRing(r.windowCalls(), 0)
	}
	return b
}

func (b *Breaker) needExtra() *extra {
	if b.extra == nil {
		b.extra = new(extra)
	}
	return b.extra
}

// Pass is [Breaker.Acquire] where the breaker is closed and lets every call through. A permit
// of Pass that was not used need not be settled. Ok false says nothing: Acquire is to be asked.
func (b *Breaker) Pass(now clock.Instant) (p Permit, ok bool) {
	word := b.word.Load()
	if stateOf(word) != Closed || b.rules.Load().ageing() {
		return Permit{}, false
	}
	return Permit{word: word, start: now}, true
}

// Acquire asks to make a call. When ok is false the call must not be made, and
// retryAfter says when asking again may help; zero means that this is not known.
func (b *Breaker) Acquire(now clock.Instant, shard uint32) (p Permit, retryAfter time.Duration, ok bool) {
	word, counted := b.word.Load(), false
	switch stateOf(word) {
	case Closed:
		if !b.rules.Load().ageing() {
			return Permit{word: word, start: now}, 0, true
		}
	case ObserveOnly:
		if now < clock.Instant(b.until.Load()) && !b.rules.Load().ageing() {
			return Permit{word: word, start: now}, 0, true
		}
	case Disabled:
		if now < clock.Instant(b.until.Load()) {
			return Permit{word: word, start: now}, 0, true
		}
	case Open, ForcedOpen:
		if until := clock.Instant(b.until.Load()); now < until && b.word.Load() == word {
			if counted = stateOf(word) == Open; !counted || !b.extra.countRefusal() {
				b.refuse(shard)
				return Permit{}, left(now, until), false
			}
		}
	}
	return b.enter(now, shard, counted)
}

// refuse counts a refusal. A breaker refuses only after a move, and that made extra.
func (b *Breaker) refuse(shard uint32) {
	b.extra.refused.add(shard, 1<<b.spread)
}

// left returns the time until then, zero where no end is known.
func left(now, until clock.Instant) time.Duration {
	if until == clock.Never {
		return 0
	}
	return max(until.Sub(now), 0)
}

// enter is Acquire under the lock. Counted says that the call was counted already as one
// that an open breaker refused.
func (b *Breaker) enter(now clock.Instant, shard uint32, counted bool) (Permit, time.Duration, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.due(now)
	if s := b.state(); refuses(s) {
		until := clock.Instant(b.until.Load())
		early := now < until
		if early && s == Open && !counted {
			b.extra.countRefusal()
		}
		switch {
		case early && (s != Open || !b.extra.probeDue()):
			b.refuse(shard)
			return Permit{}, left(now, until), false
		case early:
			b.move(HalfOpen, Change{Cause: CallsRefused, At: now, Due: now})
		default:
			b.move(HalfOpen, Change{Cause: CooldownOver, At: now, Due: until})
		}
	}
	if b.state() == HalfOpen {
		return b.probe(now, shard)
	}
	return b.admit(now), 0, true
}

// due makes the moves that fell due while nobody asked.
func (b *Breaker) due(now clock.Instant) {
	b.lapse(now)
	switch s := b.state(); {
	case s == HalfOpen && !b.room():
		b.expire(now)
	case counts(s) && b.grownSlow(now, b.rules.Load()):
		b.judge(now, 0)
	}
}

func (b *Breaker) admit(now clock.Instant) Permit {
	p := Permit{word: b.word.Load(), start: now}
	if counts(stateOf(p.word)) && b.rules.Load().ageing() {
		p.slot, p.serial, _ = b.needExtra().watched.add(now, maxAgeing)
	}
	return p
}

// Settle gives a permit back with its verdict. After is the time that the dependency
// asked for with this answer, or zero: if this verdict opens the breaker, it stays open
// for at least as long, within OpenMax.
func (b *Breaker) Settle(now clock.Instant, shard uint32, p Permit, v Result, after time.Duration) {
	word := b.word.Load()
	if p.word != word {
		return
	}
	switch stateOf(word) {
	case HalfOpen:
		b.probed(now, p, v, after)
	case Closed, ObserveOnly:
		r := b.rules.Load()
		b.record(now, shard, p, r, v, r.slow(now.Sub(p.start)), after)
	}
}

// Succeed is [Breaker.Settle] with Good, for an answer that asks for no time. Nearly always it only
// counts.
func (b *Breaker) Succeed(now clock.Instant, shard uint32, p *Permit) {
	r := b.rules.Load()
	plain := p.serial == 0 && r.onlyCounts(now, p) && b.run.Load() == 0
	if !plain || stateOf(p.word) != Closed || b.word.Load() != p.word {
		b.Settle(now, shard, *p, Good, 0)
		return
	}
	if b.win.AddGood(now, shard) {
		b.win.Grow(1 << b.spread)
	}
	if b.reached.Load() != b.win.Turn() {
		b.look(now, p.word, r, 0)
	}
}

func (b *Breaker) record(now clock.Instant, shard uint32, p Permit, r *Rules, v Result, slow bool, after time.Duration) {
	if p.serial != 0 || r.byCount() || r.ageing() {
		b.recordLocked(now, shard, p, v, slow, false, after)
		return
	}
	if v == Neutral {
		return
	}
	b.add(now, shard, v == Bad, slow)
	b.track(now, p, r, v == Bad) // after add, so that the run's failures are in the counts of a Change
	// A quick success only lowers the rates. Once the minimum was reached in the newest
	// bucket, the rates were looked at after every outcome that could raise them, and
	// older successes are forgotten only when the window turns.
	if v == Good && !slow && b.reached.Load() == b.win.Turn() {
		return
	}
	b.look(now, p.word, r, after)
}

func (b *Breaker) add(now clock.Instant, shard uint32, failed, slow bool) {
	if b.win.Add(now, shard, failed, slow) {
		b.win.Grow(1 << b.spread)
	}
}

// recordLocked is record under the lock, and returns where the outcome was counted. With
// open the result lives on: the run of failures stays as it is.
func (b *Breaker) recordLocked(now clock.Instant, shard uint32, p Permit, v Result, slow, open bool, after time.Duration) (rc Receipt) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.word.Load() != p.word || p.serial != 0 && !b.extra.watched.remove(p.slot, p.serial) || v == Neutral {
		return Receipt{}
	}
	r := b.rules.Load()
	if r.byCount() {
		rc = receipt(b.extra.ring.add(v == Bad, slow), inRing, slow)
	} else {
		rc = b.tally(now, shard, v == Bad, slow)
	}
	if !open {
		b.track(now, p, r, v == Bad)
	}
	b.judge(now, after)
	return rc
}

func (b *Breaker) state() State { return stateOf(b.word.Load()) }

// open moves to Open. The open time begins when that was due.
func (b *Breaker) open(c Change, after time.Duration) {
	u := chance.U(b.seed, b.word.Load()>>stateBits, 0, chance.OpenTime)
	c.Until = c.Due.Add(b.rules.Load().openFor(int(b.opens)+1, after, u))
	b.move(Open, c)
}

// move is the only place where the state changes. It reports false for a move
// that the table does not have.
func (b *Breaker) move(to State, c Change) bool {
	word := b.word.Load()
	c.From, c.To = stateOf(word), to
	if !moves[c.From][to].Has(c.Cause) {
		return false
	}
	switch to {
	case Open:
		b.opens = uint16(min(int(b.opens)+1, math.MaxUint16))
	case Closed, Disabled, ObserveOnly:
		b.opens = 0
	}
	if to != Open { // an open breaker still shows what opened it
		b.empty(c.At)
	}
	if c.Cause == WasReset {
		b.longest.Store(0)
	}
	if refuses(to) || to == HalfOpen {
		b.expectProbes(to, c.Cause)
	}
	if b.extra != nil {
		b.extra.forgetCalls()
	}
	if refuses(to) { // before the word, since whoever reads that refuses until then
		b.until.Store(int64(c.Until))
	}
	b.word.Store((word>>stateBits+1)<<stateBits | uint64(to))
	if lapses(to) { // after it: a call that is late may still refuse until the old one
		b.until.Store(int64(c.Until))
	}
	c.Opens = int(b.opens)
	b.note(c)
	return true
}

// OpenedBy returns why the breaker last began to refuse. It takes no lock, and means
// something only to a caller that was refused.
func (b *Breaker) OpenedBy() Cause {
	if b.extra == nil {
		return numCauses
	}
	return Cause(b.extra.why.Load())
}

// empty forgets what the last generation counted.
func (b *Breaker) empty(now clock.Instant) {
	endRun(b, now)
	b.reached.Store(never)
	b.crossed = 0
	b.win.Reset(now)
	if b.extra == nil {
		return
	}
	b.extra.refused.clear()
	if b.extra.ring != nil {
		b.extra.ring.clear()
	}
}

func (b *Breaker) note(c Change) {
	b.seq++
	c.Seq = uint64(b.seq)
	if b.log != nil {
		b.log.BreakerMoved(c)
	}
}
