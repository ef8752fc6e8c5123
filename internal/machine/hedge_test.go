package machine

import (
	"container/heap"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/internal/testrace"
	"github.com/gabion-go/gabion/policy"
)

// calling plays calls of one dependency in virtual time: each attempt succeeds after as
// long as takes says, and losers come home when they are cut off.
type calling struct {
	state  *State
	takes  func(n int) time.Duration // of an attempt of the nth call
	due    moments
	hedged int
}

// moment is when a call is asked again, or when an attempt of it is home.
type moment struct {
	at   clock.Instant
	call *played
	home int // the attempt, or -1
}

type played struct {
	Call
	n    int
	out  []Ticket
	done bool
}

type moments []moment

func (m moments) Len() int           { return len(m) }
func (m moments) Less(i, j int) bool { return m[i].at < m[j].at }
func (m moments) Swap(i, j int)      { m[i], m[j] = m[j], m[i] }
func (m *moments) Push(x any)        { *m = append(*m, x.(moment)) }
func (m *moments) Pop() any {
	last := (*m)[len(*m)-1]
	*m = (*m)[:len(*m)-1]
	return last
}

func (p *calling) run(calls int, rate float64) {
	for i := range calls {
		c := &played{n: i}
		at := clock.Instant(float64(i) / rate * 1e9)
		for len(p.due) > 0 && p.due[0].at <= at {
			p.take(heap.Pop(&p.due).(moment))
		}
		c.Begin(p.state, at, &Params{})
		p.step(at, c)
	}
	for len(p.due) > 0 {
		p.take(heap.Pop(&p.due).(moment))
	}
}

func (p *calling) take(m moment) {
	c := m.call
	switch {
	case c.done:
		return
	case m.home >= 0:
		c.Settle(m.at, c.out[m.home], policy.Outcome{Class: policy.ClassSuccess})
	}
	p.step(m.at, c)
}

func (p *calling) step(now clock.Instant, c *played) {
	for {
		s := c.Next(now)
		switch s.Verb {
		case Send:
			if len(c.out) == 1 {
				p.hedged++
			}
			heap.Push(&p.due, moment{now.Add(p.takes(c.n)), c, len(c.out)})
			c.out = append(c.out, s.Ticket)
		case Wait:
			heap.Push(&p.due, moment{s.Again, c, -1})
			return
		case Return:
			c.done = true
			for _, t := range c.out { // the winner is not heard twice
				c.Settle(now, t, policy.Outcome{Class: policy.ClassIgnored})
			}
			return
		}
	}
}

// A delay of the 95th percentile hedges a twentieth of the calls: an attempt that loses
// to its hedge took longer than the delay, and must be counted as such.
func TestAPercentileHedgesTheShareThatItSays(t *testing.T) {
	testrace.Serial(t)
	lognormal := func(r *rand.Rand, median, sigma float64) time.Duration {
		return time.Duration(median * math.Exp(sigma*r.NormFloat64()))
	}
	for _, c := range []struct {
		fact    string
		rate    float64
		attempt func(r *rand.Rand, n int) time.Duration
	}{
		{"lognormal, 200 a second", 200, func(r *rand.Rand, _ int) time.Duration { return lognormal(r, 20e6, 0.7) }},
		{"lognormal, 50 a second", 50, func(r *rand.Rand, _ int) time.Duration { return lognormal(r, 20e6, 0.7) }},
		{"one in ten slow, 50 a second", 50, func(r *rand.Rand, _ int) time.Duration {
			if r.Float64() < 0.1 {
				return lognormal(r, 500e6, 0.5)
			}
			return lognormal(r, 20e6, 0.5)
		}},
	} {
		for percentile, want := range map[policy.Ratio]float64{0.95: 0.05, 0.9: 0.1} {
			r, err := Compile(policy.Policy{Safe: true, Hedge: policy.Hedge{Max: 1, Percentile: percentile}, Bulkhead: policy.Bulkhead{Off: true}})
			if err != nil {
				t.Fatal(err)
			}
			rnd := rand.New(rand.NewPCG(7, 7))
			p := &calling{state: NewState(0, r, Setup{Seed: 3})}
			p.takes = func(n int) time.Duration { return c.attempt(rnd, n) }
			const calls = 20_000
			p.run(calls, c.rate)
			if share := float64(p.hedged) / calls; math.Abs(share-want) > 0.01 {
				t.Errorf("%s: a percentile of %v hedges %.1f %%", c.fact, percentile, 100*share)
			}
		}
	}
}

// One call, one latency: that of its first attempt, or how long it was out when its hedge
// won. Those whose caller left tell nothing.
func TestACallIsMeasuredByItsFirstAttempt(t *testing.T) {
	for _, c := range []struct {
		fact string
		end  func(now clock.Instant, c *Call, first, hedge Ticket)
		n    int64
		took time.Duration
	}{
		{"the first wins", func(now clock.Instant, c *Call, first, hedge Ticket) {
			c.Settle(now, first, policy.Outcome{Class: policy.ClassSuccess})
			c.Settle(now, hedge, policy.Outcome{Class: policy.ClassIgnored})
		}, 1, 40 * time.Millisecond},
		{"the hedge wins", func(now clock.Instant, c *Call, first, hedge Ticket) {
			c.Settle(now, hedge, policy.Outcome{Class: policy.ClassSuccess})
			c.Settle(now, first, policy.Outcome{Class: policy.ClassIgnored})
		}, 1, 40 * time.Millisecond},
		{"the first ignores that it lost, and is late", func(now clock.Instant, c *Call, first, hedge Ticket) {
			c.Settle(now, hedge, policy.Outcome{Class: policy.ClassSuccess})
			c.Settle(now.Add(time.Second), first, policy.Outcome{Class: policy.ClassSuccess})
		}, 1, 1040 * time.Millisecond},
		{"the caller leaves", func(now clock.Instant, c *Call, first, hedge Ticket) {
			c.Cancel(now)
			c.Settle(now, hedge, policy.Outcome{Class: policy.ClassIgnored})
			c.Settle(now, first, policy.Outcome{Class: policy.ClassIgnored})
		}, 0, 0},
		{"both fail", func(now clock.Instant, c *Call, first, hedge Ticket) {
			c.Settle(now, hedge, policy.Outcome{Class: policy.ClassNetwork})
			c.Settle(now, first, policy.Outcome{Class: policy.ClassNetwork})
		}, 0, 0},
	} {
		tr := newTrial(t, policy.Policy{Hedge: policy.Hedge{Max: 1, Delay: 10 * time.Millisecond, Percentile: 0.9}})
		call, first := tr.begin(0)
		s := call.Next(10 * ms)
		if s.Verb != Send || !s.Ticket.Hedge {
			t.Fatalf("%s: no hedge: %+v", c.fact, s)
		}
		c.end(40*ms, call, first, s.Ticket)
		got, n := tr.state.main.times.Load().all.Quantile(50*ms, 1)
		if n != c.n || math.Abs(float64(got-c.took)) > 0.02*float64(c.took) {
			t.Errorf("%s: %d measured, %s", c.fact, n, got)
		}
	}
}
