package quota

import (
	"container/heap"
	"math"
	"math/rand/v2"
	"slices"
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
	grain  float64 // to which it rounds what it says; zero: it does not

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
	if p.grain > 0 {
		left.Left = math.Round(p.left/p.grain) * p.grain
	}
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
	quota     policy.Quota
	says      float64 // of a call, what it says that it will use, as a multiple; 0 means that it says nothing

	now    clock.Instant
	events events
	groups []*Group
	late   time.Duration // by which the last process begins after the others
	taken  []int         // attempts by process, since the start
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
}

// play runs the world for that many spans after a start of some.
func (w *world) play(start, spans float64) (r result) {
	w.provider.left, w.provider.amount, w.provider.span = w.quota.Amount, w.quota.Amount, w.quota.Span
	w.provider.window = w.quota.Window
	w.taken = make([]int, w.processes)
	for i := range w.processes {
		w.groups = append(w.groups, New(w.now, []policy.Quota{w.quota}))
		for range w.callers {
			begin := time.Duration(i) * time.Microsecond
			if i == w.processes-1 {
				begin += w.late
			}
			w.in(begin, func() { w.call(w.groups[i]) })
		}
	}
	begin := w.now.Add(time.Duration(start * float64(w.span)))
	w.until(begin)
	before := w.provider
	clear(w.taken)
	w.until(begin.Add(time.Duration(spans * float64(w.span))))
	r.share = (w.used - before.used) / (spans * w.amount)
	if w.late > 0 { // the level rises when another comes, which takes from what is used, once, and is not lost
		r.share += (w.left - before.left) / (spans * w.amount)
	}
	r.served = w.served - before.served
	r.refused = float64(w.refused) / float64(max(w.served+w.refused, 1))
	return r
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
	w    *world
	g    *Group
	r    *Reservation
	turn int // of the timer that counts
	size float64
}

func (w *world) call(g *Group) {
	size := w.quota.Estimate * (0.2 + 0.86*w.rand.Float64())
	if w.rand.IntN(10) == 0 {
		size = w.quota.Estimate * (2 + 4*w.rand.Float64())
	}
	c := &caller{w: w, g: g, size: size}
	var cost *Cost
	if w.says > 0 {
		cost = &Cost{Unit: "tokens", Amount: size * w.says}
	}
	c.r = g.Reserve(cost, "", policy.PriorityNormal)
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
	used := c.size
	w.taken[slices.Index(w.groups, c.g)]++
	there := time.Duration(w.rand.Int64N(int64(20 * time.Millisecond)))
	back := 20*time.Millisecond + time.Duration(w.rand.Int64N(int64(100*time.Millisecond)))
	w.in(there, func() {
		left, ok := w.serve(w.now, used)
		w.in(back, func() {
			if ok {
				c.r.Spent(w.now, "tokens", used)
			}
			if !w.silent {
				c.r.Told(w.now, []policy.Remaining{left})
			}
			c.r.End(w.now, false, !ok)
			var think time.Duration
			if !ok {
				think = w.span / 20
			}
			w.in(think, func() { w.call(c.g) })
		})
	})
}
