package machine

import (
	"sync/atomic"
	"time"

	"github.com/gabion-go/gabion/internal/chance"
	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/internal/terms"
	"github.com/gabion-go/gabion/policy"
)

// dry is what a dependency said of a quota of its own that has nothing left, while it still
// answered well. No call goes until the time that it named, so that none is refused.
//
// The word may be wrong: it may speak of other calls' quota, or be the same in every answer. So the first
// word is tried: one call goes at once, and the others wait for what comes of it. If it is
// refused, the next words are believed. If it is answered well, words count for nothing until the dependency refuses
// a call. Every Pace.Max one call goes in any case. So a false word costs one answer's time, and a
// true one a refusal in seventeen.
type dry struct {
	on atomic.Bool // calls are held; stored under the pacer's mu

	heard clock.Instant // when it was said
	until clock.Instant // when there is something again, as it was said
	probe clock.Instant // when a call may go all the same
	tried clock.Instant // until when one that went is waited for
	trust int8          // this number of words is believed untried; below zero no word is
}

const (
	dryTrust = 16 // words that one refusal proves: a quota of a minute is tried every quarter of an hour
	dryPart  = 4  // of the time that a call is out that was sent to try, after which those ask again that wait for it
	dryLeast = 5 * time.Millisecond
)

// empty hears that a quota has nothing left until then, and reports whether that is new. Most is
// the policy's Pace.Max.
func (p *pacer) empty(now, until clock.Instant, most time.Duration) (news bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	d := &p.dry
	switch {
	case until <= now || d.trust < 0:
		return false
	case d.on.Load() && now < d.until:
		d.until = max(d.until, until)
		return false
	}
	d.heard, d.until, d.probe, d.tried = now, until, now, now
	if d.trust > 0 {
		d.trust--
		d.probe = now.Add(most)
	}
	d.on.Store(true)
	return true
}

// disprove ends the hold if an attempt that was sent after the word was answered well.
func (p *pacer) disprove(sent clock.Instant) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dry.on.Load() && sent >= p.dry.heard {
		p.dry.trust = -1
		p.dry.on.Store(false)
	}
}

// prove believes the next words, if an attempt that was sent after the last one was refused. Any
// refusal lets words count again.
func (p *pacer) prove(now, sent clock.Instant) {
	p.mu.Lock()
	defer p.mu.Unlock()
	d := &p.dry
	if d.on.Load() && sent >= d.heard && now < d.until {
		d.trust, d.tried = dryTrust, now
	}
	d.trust = max(d.trust, 0)
}

// await returns when a call is to ask again because a quota has nothing left. It
// reports false if the call may go. Last is the latest time to which it can wait, and U a draw by which
// those that wait are spread.
func (p *pacer) await(now, last clock.Instant, most time.Duration, u float64) (at clock.Instant, held bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	d := &p.dry
	switch {
	case !d.on.Load():
		return now, false
	case now >= d.until:
		d.on.Store(false)
		return now, false
	case now >= d.probe:
		d.probe, d.tried = now.Add(most), now.Add(most)
		return now, false
	case now < d.tried:
		at = min(now.Add(max(now.Sub(d.tried.Add(-most))/dryPart, dryLeast)), d.until, d.tried)
		if at > last && now < last {
			at = last
		}
		return at, true
	case d.until > last && d.probe <= last:
		return d.probe, true
	}
	over := min(d.until.Sub(d.heard)/4, max(last.Sub(d.until), 0))
	return d.until.Add(time.Duration(float64(u * float64(over)))), true
}

// on reports whether calls are spaced or held.
func (p *pacer) on() bool { return p.active.Load() || p.dry.on.Load() }

// awaitRoom makes the call wait until the dependency's quota has something again, as the dependency said.
// It reports false when the call must wait, or has ended.
func (p *pacer) awaitRoom(c *Call, now clock.Instant) (due bool) {
	last := p.last(c, now)
	at, held := p.await(now, last, c.rules.Policy.Pace.Max, chance.U(c.draw(), 0, uint64(c.sent.n), chance.Pacing))
	switch {
	case !held:
		return true
	case at > last:
		c.tooLong(at.Sub(now), last.Sub(now))
		c.refuse(now, policy.Paced, at.Sub(now))
	default:
		c.waitIn(resting, now, at, terms.ForPace)
	}
	return false
}

// last is how late the call may be let go because the dependency asked for time.
func (*pacer) last(c *Call, now clock.Instant) clock.Instant {
	most := c.rules.Policy.Pace.Max
	return min(c.deadline.Add(-c.margin(now)), now.Add(most+most/4))
}
