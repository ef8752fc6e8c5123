package breaker

import (
	"time"

	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/internal/window"
)

// Receipt says where the success of a result that lives on was counted, so that
// [Breaker.Fail] can turn it into a failure. The zero Receipt is none.
type Receipt struct {
	at   uint64 // the window.Place, or the number in the ring
	kind receiptKind
}

// receiptKind says where, as a set.
type receiptKind uint8

const (
	inWindow receiptKind = 1 << iota
	inRing
	ofProbe
	wasSlow
)

func receipt(at uint64, where receiptKind, slow bool) Receipt {
	if slow {
		where |= wasSlow
	}
	return Receipt{at, where}
}

func (rc Receipt) is(k receiptKind) bool { return rc.kind&k != 0 }

// SettleOpen is [Breaker.Settle] for an attempt whose result lives on after its verdict,
// as a response body does. A success is counted, but it ends a run of failures only once
// [Breaker.Whole] says that the result came whole, and [Breaker.Fail] turns it into a
// failure. The success of a probe is counted only then: until one of the two is called,
// or the result has lived on for ProbeTimeout, the probe is still out.
func (b *Breaker) SettleOpen(now clock.Instant, shard uint32, p Permit, v Result, after time.Duration) Receipt {
	word := b.word.Load()
	switch s := stateOf(word); {
	case p.word != word:
	case v != Good:
		b.Settle(now, shard, p, v, after)
	case s == HalfOpen:
		return b.probeLives(now, p)
	case counts(s):
		return b.recordOpen(now, shard, p, after)
	}
	return Receipt{}
}

// recordOpen counts a success, as record does, but leaves the run of failures as it is.
func (b *Breaker) recordOpen(now clock.Instant, shard uint32, p Permit, after time.Duration) Receipt {
	r := b.rules.Load()
	slow := r.slow(now.Sub(p.start))
	if p.serial != 0 || r.byCount() || r.ageing() {
		return b.recordLocked(now, shard, p, Good, slow, true, after)
	}
	rc := b.tally(now, shard, false, slow)
	if slow || b.reached.Load() != b.win.Turn() {
		b.look(now, p.word, r, after)
	}
	return rc
}

// tally adds one outcome to the time window and says where.
func (b *Breaker) tally(now clock.Instant, shard uint32, failed, slow bool) Receipt {
	b.add(now, shard, failed, slow)
	return receipt(uint64(b.win.Place()), inWindow, slow)
}

// Whole says that a result that lived on came to a good end, or that it has lived on
// for so long that the answer is good whatever its end. It does nothing when the
// breaker has moved since.
func (b *Breaker) Whole(now clock.Instant, p Permit) {
	word := b.word.Load()
	switch s := stateOf(word); {
	case p.word != word:
	case s == HalfOpen:
		b.probeEnds(now, p, Receipt{}, false)
	case counts(s):
		b.track(now, p, b.rules.Load(), false)
	}
}

// probeLives notes that a probe brought a good answer whose result lives on.
func (b *Breaker) probeLives(now clock.Instant, p Permit) Receipt {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.word.Load() != p.word {
		return Receipt{}
	}
	place := b.extra.probes.find(p.slot, p.serial)
	if place == nil || place.lives {
		return Receipt{}
	}
	place.lives, place.slow, place.start = true, b.rules.Load().slow(now.Sub(p.start)), now
	return receipt(0, ofProbe, place.slow)
}

// probeEnds counts a probe whose result lived on, now that its end is known. One that
// was counted as good already becomes a failure if it breaks after all.
func (b *Breaker) probeEnds(now clock.Instant, p Permit, rc Receipt, broke bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.word.Load() != p.word {
		return
	}
	s := b.extra
	switch place := s.probes.find(p.slot, p.serial); {
	case place != nil && place.lives:
		slow := place.slow
		s.probes.remove(p.slot, p.serial)
		s.count(broke, slow)
	case broke && place == nil && rc.is(ofProbe):
		s.outcomes.Failures++
		s.bad += int64(one(!rc.is(wasSlow))) // a slow one was bad already
	default:
		return
	}
	b.decide(now, now, 0)
}

// Fail says that a result broke after its verdict, as a response body can. Where the
// window still holds the success of the receipt, that becomes a failure of now, so that
// the call is counted once. Else a failure is added: the success is forgotten, or was
// never counted because the verdict was neutral. Nothing is counted if the breaker has
// moved since. Use a receipt once.
func (b *Breaker) Fail(now clock.Instant, shard uint32, p Permit, rc Receipt) {
	word := b.word.Load()
	s := stateOf(word)
	switch {
	case p.word != word:
	case s == HalfOpen:
		b.probeEnds(now, p, rc, true)
	case !counts(s):
	case rc.is(inRing):
		b.failInRing(now, p, rc)
	default:
		slow := rc.is(wasSlow)
		slow = rc.is(inWindow) && b.win.Take(window.Place(rc.at), now, slow) && slow
		b.failAnew(now, shard, p, slow)
	}
}

func (b *Breaker) failAnew(now clock.Instant, shard uint32, p Permit, slow bool) {
	p.serial = 0 // with its first verdict the call was forgotten
	b.record(now, shard, p, b.rules.Load(), Bad, slow, 0)
}

func (b *Breaker) failInRing(now clock.Instant, p Permit, rc Receipt) {
	if !b.turnInRing(now, p, rc) {
		b.failAnew(now, 0, p, false)
	}
}

// turnInRing reports false when the ring has forgotten the outcome.
func (b *Breaker) turnInRing(now clock.Instant, p Permit, rc Receipt) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.word.Load() != p.word {
		return true // silent
	}
	if b.extra.ring == nil || !b.extra.ring.fail(rc.at) {
		return false
	}
	b.track(now, p, b.rules.Load(), true)
	b.judge(now, 0)
	return true
}
