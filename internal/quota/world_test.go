package quota

import (
	"container/heap"
	"math/rand/v2"
	"time"

	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/policy"
)

// provider is a server with a token bucket, or with windows, that refuses what it has not left.
type provider struct {
	amount float64
	span   time.Duration
	window bool
	silent bool    // it says nothing of what is left
	lies   float64 // what it says is left, whatever is; below zero: the truth

	left    float64
	at      clock.Instant
	used    float64
	served  int
	refused int
}

func (p *provider) refill(now clock.Instant) {
	if p.window {
		if now.Sub(p.at) >= p.span {
			p.left, p.at = p.amount, p.at.Add(now.Sub(p.at)/p.span*p.span)
		}
		return
	}
	p.left = min(p.amount, p.left+p.amount*float64(now.Sub(p.at))/float64(p.span))
	p.at = now
}

func (p *provider) serve(now clock.Instant, cost float64) (left policy.Remaining, ok bool) {
	p.refill(now)
	if ok = cost <= p.left; ok {
		p.left -= cost
		p.used += cost
		p.served++
	} else {
		p.refused++
	}
	left = policy.Remaining{Unit: "tokens", Left: p.left, Limit: p.amount}
	if p.lies >= 0 {
		left.Left = p.lies
	}
	if p.window {
		left.Reset = p.at.Add(p.span).Sub(now)
	}
	return left, ok
}

// world plays processes that share one provider, in virtual time.
type world struct {
	provider
	rand      *rand.Rand
	processes int
	callers   int // of each process, each with one call at a time
	think     time.Duration
	quota     policy.Quota
	wrong     float64 // what an attempt uses, as a multiple of its estimate
	small     bool    // no mixed sizes
	quiet     bool    // answers don't say what was used

	now    clock.Instant
	events events
	groups []*Group
	waits  []time.Duration
}

type event struct {
	at clock.Instant
	do func()
}

type events []event

func (e events) Len() int           { return len(e) }
func (e events) Less(i, j int) bool { return e[i].at < e[j].at }
func (e events) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)        { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

func (w *world) in(d time.Duration, do func()) {
	heap.Push(&w.events, event{w.now.Add(max(d, 0)), do})
}

// result is what a part of the time came to.
type result struct {
	share   float64 // of what came back
	refused float64 // of the attempts
	served  int
	p99     time.Duration
}

// play runs the world for that many spans after a start of some.
func (w *world) play(start, spans float64) (r result) {
	w.provider.left, w.provider.amount, w.provider.span = w.quota.Amount, w.quota.Amount, w.quota.Span
	w.provider.window = w.quota.Window
	for i := range w.processes {
		w.groups = append(w.groups, New(w.now, []policy.Quota{w.quota}))
		for range w.callers {
			w.in(time.Duration(i)*time.Microsecond, func() { w.call(w.groups[i]) })
		}
	}
	begin := w.now.Add(time.Duration(start * float64(w.span)))
	w.until(begin)
	before := w.provider
	w.waits = nil
	w.until(begin.Add(time.Duration(spans * float64(w.span))))
	r.share = (w.used - before.used) / (spans * w.amount)
	r.served = w.served - before.served
	r.refused = float64(w.refused-before.refused) / float64(max(w.served+w.refused-before.served-before.refused, 1))
	r.p99 = percentile(w.waits, 0.99)
	return r
}

func percentile(all []time.Duration, p float64) time.Duration {
	if len(all) == 0 {
		return 0
	}
	sorted := append([]time.Duration(nil), all...)
	sortTimes(sorted)
	return sorted[min(int(p*float64(len(sorted))), len(sorted)-1)]
}

func (w *world) until(end clock.Instant) {
	for len(w.events) > 0 && w.events[0].at <= end {
		e := heap.Pop(&w.events).(event)
		w.now = e.at
		e.do()
	}
	w.now = end
}

// caller is a call that may wait.
type caller struct {
	w     *world
	g     *Group
	r     *Reservation
	began clock.Instant
	turn  int // of the timer that counts
	size  float64
}

func (w *world) call(g *Group) {
	size := w.quota.Estimate
	if !w.small {
		size *= 0.2 + 1.6*w.rand.Float64()
		if w.rand.IntN(20) == 0 {
			size *= 4
		}
	}
	c := &caller{w: w, g: g, began: w.now, size: size}
	c.r = g.Reserve(&Cost{Unit: "tokens", Amount: size}, "", policy.PriorityNormal)
	c.ask()
}

// Wake implements Waker.
func (c *caller) Wake() {
	c.turn++
	turn := c.turn
	c.w.in(0, func() {
		if turn == c.turn {
			c.ask()
		}
	})
}

func (c *caller) ask() {
	w := c.w
	at, a := c.r.Ask(w.now, clock.Never, c)
	switch a {
	case Taken:
		w.waits = append(w.waits, w.now.Sub(c.began))
		c.send()
	case Later:
		c.turn++
		turn := c.turn
		if at != clock.Never {
			w.in(max(at.Sub(w.now), 1), func() {
				if turn == c.turn {
					c.ask()
				}
			})
		}
	default:
		w.in(w.span/10, func() { w.call(c.g) })
	}
}

func (c *caller) send() {
	w := c.w
	c.turn++
	used := c.size * max(w.wrong, 0.01)
	if w.wrong == 0 {
		used = c.size
	}
	there := time.Duration(w.rand.Int64N(int64(20 * time.Millisecond)))
	back := 20*time.Millisecond + time.Duration(w.rand.Int64N(int64(100*time.Millisecond)))
	w.in(there, func() {
		left, ok := w.serve(w.now, used)
		w.in(back, func() {
			if ok && !w.quiet {
				c.r.Spent(w.now, "tokens", used)
			}
			if !w.silent {
				c.r.Told(w.now, []policy.Remaining{left})
			}
			c.r.End(w.now, false, !ok)
			think := w.think
			if !ok {
				think += w.span / 20
			}
			w.in(think, func() { w.call(c.g) })
		})
	})
}
