package machine

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/policy"
)

// The short way of a plain call decides what the long way decides: two dependencies of one seed get the
// same calls, one with SendPlain and SucceedPlain and one without, and never differ.
func TestThePlainWayDecidesTheSame(t *testing.T) {
	var short, long, shorts, leased int
	for seed := range uint64(300) {
		g := newPlainGame(t, seed)
		moves := 300
		if seed%50 == 0 { // the time of an attempt is taken of the first hundreds of successes, and then of some
			moves = 6000
		}
		for range moves {
			g.move()
			if t.Failed() {
				t.Fatalf("seed %d, policy %+v", seed, g.policy)
			}
		}
		short += g.short
		long += g.long
		shorts += g.shorts
		leased += g.leased
	}
	t.Logf("%d plain calls and %d others, %d of which began as a Short, %d under a share", short, long, shorts, leased)
	if short < 5000 || long < 5000 || shorts < 5000 || leased < 2000 {
		t.Error("too few of one")
	}
}

// plainGame plays the same calls on both sides. Side 0 goes the short way.
type plainGame struct {
	t           *testing.T
	r           *rand.Rand
	policy      policy.Policy
	now         clock.Instant
	states      [2]*State
	calls       []*plainCall
	open        []*plainCall // whose results live on
	failing     int          // one attempt in so many fails
	short, long int
	shorts      int // calls that began as a Short
	leased      int // of these, under a share
}

// plainCall is a call on both sides.
type plainCall struct {
	call  [2]Call
	step  [2]Step
	open  [2]Ticket // of a result that may live on
	waits bool
}

type deaf struct{}

func (deaf) Wake() {}

func newPlainGame(t *testing.T, seed uint64) *plainGame {
	g := &plainGame{t: t, r: rand.New(rand.NewPCG(seed, 1)), now: clock.Instant(seed) - 50}
	g.policy, g.failing = g.anyPolicy(), []int{3, 10, 50}[g.r.IntN(3)]
	if seed%3 == 0 {
		g.policy, g.failing = g.restless(), 2
	}
	for i := range g.states {
		g.states[i] = NewState(g.now, g.rules(), Setup{Shards: 2, Seed: seed, Events: true, Totals: true})
	}
	return g
}

func (g *plainGame) rules() *Rules {
	r, err := Compile(g.policy)
	if err != nil {
		g.t.Fatal(err)
	}
	return r
}

func (g *plainGame) anyPolicy() policy.Policy {
	one := func(n int) bool { return g.r.IntN(n) == 0 }
	p := policy.Policy{
		Safe:     one(2),
		Timeout:  policy.Timeout{Call: 3 * time.Second, Attempt: 200 * time.Millisecond},
		Retry:    policy.Retry{Attempts: 1 + g.r.IntN(3), Backoff: backoff.Full(10*time.Millisecond, 100*time.Millisecond)},
		Breaker:  policy.Breaker{Window: 2 * time.Second, MinCalls: 5, FailureRate: 0.5, Open: 300 * time.Millisecond},
		Bulkhead: policy.Bulkhead{Limit: 1 + g.r.IntN(20), Queue: g.r.IntN(3), QueueTimeout: 100 * time.Millisecond},
	}
	if one(3) {
		p.Retry.Backoff = backoff.Const(0)
	}
	if one(3) {
		p.Timeout.Last = 500 * time.Millisecond
	}
	if one(4) {
		p.Timeout.Call = policy.Off
	}
	if one(4) {
		p.Bulkhead = policy.Bulkhead{Off: true}
	}
	if one(4) {
		p.Breaker = policy.Breaker{Off: true}
	} else if one(3) {
		p.Breaker.SlowCall, p.Breaker.SlowRate, p.Breaker.InFlight = 100*time.Millisecond, 0.5, one(2)
	} else if one(5) {
		p.Breaker.WindowCalls, p.Breaker.Window = 20, 0
	}
	switch g.r.IntN(5) {
	case 0:
		p.Retry.Budget = policy.Budget{Floor: 2}
	case 1:
		p.Retry.Budget = policy.Budget{Off: true}
	}
	switch g.r.IntN(8) { // layers that the short way leaves to the long one
	case 0:
		p.RateLimit = policy.RateLimit{Rate: 20, Burst: 3}
	case 1:
		p.Throttle = policy.Throttle{K: 2}
	case 2:
		if !p.Breaker.Off {
			p.Breaker.Per = policy.PerCall
		}
	}
	if one(3) {
		p.Partitions = policy.Partitions{Max: 2}
	}
	return p
}

// restless is a policy under which calls fail often, retry at once, and find slots in use and others waiting.
func (g *plainGame) restless() policy.Policy {
	return policy.Policy{
		Safe:     true,
		Timeout:  policy.Timeout{Call: 3 * time.Second},
		Retry:    policy.Retry{Attempts: 4, Backoff: backoff.Const(0), Budget: policy.Budget{Off: true}},
		Breaker:  policy.Breaker{Off: true},
		Bulkhead: policy.Bulkhead{Limit: 2 + g.r.IntN(5), Queue: 1 + g.r.IntN(2), QueueTimeout: 100 * time.Millisecond},
	}
}

// move makes one move on both sides, and compares them.
func (g *plainGame) move() {
	switch n := g.r.IntN(100); {
	case n < 40:
		g.begin()
	case n < 70 && len(g.calls) > 0:
		g.settle()
	case n < 80 && len(g.open) > 0:
		g.release()
	case n < 95:
		g.now = g.now.Add(time.Duration(g.r.Int64N(int64(100 * time.Millisecond))))
		if g.r.IntN(20) == 0 {
			g.now = g.now.Add(5 * time.Second)
		}
	case n < 96:
		until := g.now.Add(200 * time.Millisecond)
		g.both(func(i int) { g.states[i].StopRetries(g.now, until, "") })
	case n < 97:
		g.policy.Retry.Attempts = 1 + g.r.IntN(3)
		if !g.policy.Bulkhead.Off {
			g.policy.Bulkhead.Limit = 1 + g.r.IntN(g.policy.Bulkhead.Limit+1)
		}
		g.both(func(i int) { g.states[i].Reload(g.now, g.rules()) })
	case n < 98:
		g.both(func(i int) {
			if b := g.states[i].Breaker(""); b != nil {
				b.By("").ForceOpen(g.now, g.now.Add(100*time.Millisecond))
			}
		})
	case n < 99:
		l := g.lease()
		g.both(func(i int) { Grant(g.states[i], g.now, l) })
	}
	if g.drive(); g.r.IntN(8) == 0 {
		g.compare()
	}
}

// lease is a share that ends soon, or none.
func (g *plainGame) lease() *Lease {
	if g.r.IntN(2) == 0 {
		return nil
	}
	share := func() Share {
		return Share{Limits: SharedLimits(g.r.IntN(1 << 3)), Rate: float64(g.r.IntN(8) * 50), Slots: g.r.IntN(20), Floor: g.r.Float64()}
	}
	return &Lease{Until: g.now.Add(time.Duration(g.r.Int64N(int64(time.Second)))), Share: share(), Lost: share()}
}

func (g *plainGame) both(f func(side int)) { f(0); f(1) }

func (g *plainGame) begin() {
	p := Params{
		Safe: g.r.IntN(3) == 0, Keyed: g.r.IntN(4) == 0, NoRetry: g.r.IntN(9) == 0, NoHedge: true, Strict: g.r.IntN(9) == 0,
		NoSlot: g.r.IntN(9) == 0, Inside: g.r.IntN(15) == 0, Repeat: g.r.IntN(15) == 0, Shard: g.r.Uint32(), Waker: deaf{},
	}
	if g.r.IntN(5) == 0 {
		p.Partition = fmt.Sprint("p", g.r.IntN(4))
	}
	switch g.r.IntN(10) {
	case 0:
		p.Deadline = g.now.Add(time.Duration(g.r.Int64N(4)) * 100 * time.Millisecond)
	case 1:
		p.Timeout = 250 * time.Millisecond
	}
	asks := g.r.IntN(2) == 0
	if !asks { // it may begin as a Short
		p = Params{Shard: p.Shard, Deadline: p.Deadline, Timeout: p.Timeout, Safe: p.Safe, NoRetry: p.NoRetry, Strict: p.Strict, Priority: p.Priority, NoHedge: true}
	}
	k := &plainCall{}
	r := g.states[0].Rules() // a share in it may have ended
	g.both(func(i int) { q := p; k.call[i].Begin(g.states[i], g.now, &q) })
	sent := false
	if !asks && r.Short() {
		if r.lease != nil {
			g.leased++
		}
		var s Short
		BeginShort(&s, g.states[0], r, g.now, p.Deadline, p.Shard)
		s.Declare(p.Safe, p.NoRetry, p.Timeout, p.Deadline)
		sent = SendShort(&s, &k.step[0].Ticket)
		k.call[0] = Call{}
		Resume(&k.call[0], &s, &p, sent)
		g.both(func(i int) { k.call[i].SetWaker(deaf{}) })
		g.shorts++
	} else {
		sent = k.call[0].SendPlain(g.now, &k.step[0].Ticket)
	}
	if sent {
		g.short++
		k.step[0].Verb = Send
		k.call[1].NextInto(g.now, &k.step[1])
		k.step[0].Again = k.step[1].Again
		g.same("the step", k)
	} else {
		g.long++
		g.next(k)
	}
	g.calls = append(g.calls, k)
}

// next asks both sides, until an attempt is out, the call waits, or it is over.
func (g *plainGame) next(k *plainCall) {
	g.both(func(i int) { k.call[i].NextInto(g.now, &k.step[i]) })
	g.same("the step", k)
	k.waits = k.step[1].Verb == Wait
}

// drive lets calls go on that wait, and forgets those that are over.
func (g *plainGame) drive() {
	live := g.calls[:0]
	for _, k := range g.calls {
		if k.waits && !k.call[1].Over() {
			g.next(k)
		}
		if !k.call[1].Over() || k.call[1].Out() > 0 {
			live = append(live, k)
		}
	}
	g.calls = live
}

func (g *plainGame) settle() {
	k := g.calls[g.r.IntN(len(g.calls))]
	if g.r.IntN(15) == 0 {
		g.both(func(i int) { k.call[i].Cancel(g.now) })
	}
	if k.call[1].Out() == 0 {
		return
	}
	o := policy.Outcome{Class: policy.ClassSuccess}
	if g.r.IntN(g.failing) == 0 {
		o = policy.Outcome{Class: policy.Class(g.r.IntN(int(policy.ClassCrashed) + 1)), Effect: policy.UnknownEffect, Busy: g.r.IntN(9) == 0}
	}
	o.NeverSent = g.r.IntN(20) == 0
	if g.r.IntN(20) == 0 {
		o.HasAfter, o.After = true, time.Duration(g.r.Int64N(int64(100*time.Millisecond)))
	}
	if o.Open = g.r.IntN(3) == 0; o.Open {
		k.open = [2]Ticket{k.step[0].Ticket, k.step[1].Ticket}
		defer func() { g.open = append(g.open, k) }()
	}
	said := [2]policy.Outcome{o, o}
	if !k.call[0].SucceedPlain(g.now, &k.step[0].Ticket, &said[0]) {
		k.call[0].SettleFrom(g.now, &k.step[0].Ticket, &said[0])
	}
	k.call[1].SettleFrom(g.now, &k.step[1].Ticket, &said[1])
	if said[0] != said[1] {
		g.t.Errorf("the outcome became %+v and %+v", said[0], said[1])
	}
	g.next(k) // a driver asks right after it
}

// release ends a result that lived on, or lets it go on without its slot.
func (g *plainGame) release() {
	i := g.r.IntN(len(g.open))
	k := g.open[i]
	if g.r.IntN(3) == 0 {
		g.both(func(i int) { k.call[i].Outlive(g.now, &k.open[i]) })
		return
	}
	broke := g.r.IntN(3) == 0
	g.both(func(i int) { k.call[i].Release(g.now, k.open[i], broke) })
	g.open = append(g.open[:i], g.open[i+1:]...)
}

// same compares a call on both sides. The slot of each side's ticket is its own bulkhead's.
func (g *plainGame) same(what string, k *plainCall) {
	a, b := k.step[0], k.step[1]
	if b.Verb == Send && a.Ticket.held.slot.Held() != b.Ticket.held.slot.Held() {
		g.t.Errorf("%s: one side has a slot", what)
	}
	if a.Ticket.held.slot = b.Ticket.held.slot; b.Verb != Send {
		a.Ticket = b.Ticket // it means nothing
	}
	if a != b {
		g.t.Errorf("%s is\n%+v by the short way and\n%+v by the long", what, a, b)
	}
	if x, y := k.call[0].End(), k.call[1].End(); !reflect.DeepEqual(x, y) || k.call[0].Over() != k.call[1].Over() {
		g.t.Errorf("the end is %+v and %+v", x, y)
	}
}

// compare compares all that the sides know.
func (g *plainGame) compare() {
	type knowledge struct {
		stats      policy.Stats
		events     []policy.Event
		draws      uint64
		flags      uint32
		successes  uint64
		sent       int64
		cut, needs uint64
		inside     []int32 // calls in each partition
	}
	var seen [2]knowledge
	g.both(func(i int) {
		s, k := g.states[i], &seen[i]
		s.Deliver(func(e policy.Event) { k.events = append(k.events, e) })
		k.stats, k.draws, k.flags = s.Stats(g.now), s.draws.Load(), s.flags.Load()
		k.successes, k.sent = s.earned.Successes(), s.earned.Sent()
		s.eachPartition(func(p *partition, name string) {
			if name != "" {
				k.inside = append(k.inside, s.partitions().peek(name).out.Load())
			}
		})
		if c := s.main.cuts(); c != nil {
			k.cut, k.needs = c.word.Load(), c.needs.word.Load()
		}
	})
	if !reflect.DeepEqual(seen[0], seen[1]) {
		g.t.Errorf("the short way leaves\n%+v and the long\n%+v", seen[0], seen[1])
	}
}
