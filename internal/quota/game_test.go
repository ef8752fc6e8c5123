package quota

import (
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/policy"
)

// purse is a quota by the simplest count that is right: what is left, and what came back.
type purse struct {
	policy.Quota
	left float64
	at   clock.Instant
	ends clock.Instant
	open bool
}

func (p *purse) bring(now clock.Instant) {
	switch {
	case !p.Window:
		p.left = min(p.Amount, p.left+p.Amount*float64(now.Sub(p.at))/float64(p.Span))
	case !p.open || now >= p.ends:
		p.left, p.open = p.Amount, false
	}
	p.at = now
}

func (p *purse) take(now clock.Instant, n float64) {
	if p.Window && !p.open {
		p.ends, p.open = now.Add(p.Span), true
	}
	p.left -= n
}

func (p *purse) correct(by float64) { p.left = max(min(p.left-by, p.Amount), -p.Amount) }

// game plays calls of all kinds against a group, and compares it with purses.
type game struct {
	testing.TB
	*rand.Rand
	now    clock.Instant
	g      *Group
	purses []purse
	all    []*played // that are not over
	told   bool      // some word was told: then less may be left than by own count
}

// played is a call.
type played struct {
	r     *Reservation
	has   []float64 // what it has of each quota
	last  clock.Instant
	rings bell
}

func newGame(t testing.TB, seed uint64) *game {
	y := &game{TB: t, Rand: rand.New(rand.NewPCG(seed, 7)), now: clock.Instant(seed%3) * -100 * second}
	quotas := []policy.Quota{{Unit: "tokens", Amount: 100, Span: 100 * time.Second, Estimate: 10, Among: 1}}
	if y.IntN(2) == 0 {
		quotas = append(quotas, policy.Quota{Unit: policy.Requests, Amount: 20, Span: 50 * time.Second, Estimate: 1, Among: 1, Window: true})
	}
	if y.IntN(2) == 0 {
		quotas = append(quotas, policy.Quota{Unit: "usd", Amount: 5, Span: 20 * time.Second, Estimate: 0.1, Among: 1, Window: y.IntN(2) == 0})
	}
	y.g = New(y.now, quotas)
	for _, q := range quotas {
		y.purses = append(y.purses, purse{Quota: q, left: q.Amount, at: y.now})
	}
	return y
}

// move makes one move.
func (y *game) move(words bool) {
	switch y.IntN(12) {
	case 0, 1, 2:
		y.begin()
	case 3, 4:
		y.now = y.now.Add(time.Duration(y.Float64() * y.Float64() * float64(40*time.Second)))
	case 5:
		y.reload()
	default:
		if len(y.all) > 0 {
			y.play(y.all[y.IntN(len(y.all))], words)
		}
	}
	y.agree()
}

func (y *game) begin() {
	cost := &Cost{Unit: "tokens", Amount: 30 * y.Float64() * y.Float64()}
	if y.IntN(8) == 0 {
		cost.Amount = 100 * y.Float64()
	}
	if y.IntN(3) == 0 {
		cost.Next = &Cost{Unit: "usd", Amount: y.Float64()}
	}
	c := &played{r: y.g.Reserve(cost, []string{"", "a", "b"}[y.IntN(3)], policy.Priority(y.IntN(3)-1)), last: y.now.Add(time.Duration(y.IntN(200)) * time.Second)}
	y.all = append(y.all, c)
	if y.IntN(6) == 0 { // as a hedge
		if y.r(c).Now(y.now) {
			y.took(c)
		} else {
			y.over(c)
		}
		return
	}
	y.ask(c)
}

func (y *game) r(c *played) *Reservation {
	for i := range y.purses {
		y.purses[i].bring(y.now)
	}
	return c.r
}

func (y *game) ask(c *played) {
	before, waited := slices.Clone(y.g.line.waiting), c.r.Waits()
	at, a := y.r(c).Ask(y.now, c.last, &c.rings)
	switch a {
	case Taken:
		y.took(c)
		y.notPassed(c, before, waited)
	case Later:
		if at <= y.now || !c.r.Waits() {
			y.Fatalf("asked at %v to come again at %v, and waits: %t", y.now, at, c.r.Waits())
		}
	case Refused, TooLarge:
		if a == Refused && at <= y.now {
			y.Fatalf("refused at %v with room at %v", y.now, at)
		}
		y.over(c)
	}
}

// took checks that there was what a call has taken, by own count.
func (y *game) took(c *played) {
	c.has = nil
	for i := range y.purses {
		p, want := &y.purses[i], c.r.parts[i].want
		if want > p.left+1e-6 {
			y.Fatalf("%v %s are taken of %v", want, p.Unit, p.left)
		}
		p.take(y.now, want)
		c.has = append(c.has, want)
	}
}

// notPassed checks that the first of those who go before a call that has just gone still has its room.
func (y *game) notPassed(c *played, before []*Reservation, waited bool) {
	if len(before) == 0 || before[0] == c.r || waited && compare(before[0], c.r) > 0 {
		return
	}
	first := before[0]
	for i := range first.parts {
		if p := &first.parts[i]; first.mask&c.r.mask>>i&1 != 0 && p.level.own < p.want-1e-6 {
			y.Fatalf("one that needs %v %s was passed by one that took %v", p.want, p.level.rules.Unit, c.r.parts[i].want)
		}
	}
}

func (y *game) over(c *played) {
	y.all = slices.DeleteFunc(y.all, func(other *played) bool { return other == c })
	if c.r.Waits() {
		y.Fatal("it is over, and waits")
	}
}

// play does something with a call that waits or is out.
func (y *game) play(c *played, words bool) {
	if c.has == nil {
		if y.IntN(3) == 0 {
			y.r(c).Drop(y.now)
			y.over(c)
		} else {
			y.ask(c)
		}
		return
	}
	switch n := y.IntN(6); {
	case n == 0 && words:
		y.told = true
		y.r(c).Told(y.now, []policy.Remaining{{Unit: "tokens", Left: 120 * y.Float64(), Reset: time.Duration(y.IntN(50)) * time.Second, Full: y.IntN(2) == 0}})
	case n <= 2:
		used := min(60*y.Float64()*y.Float64(), careless*y.purses[0].Amount) // reloads have made that small
		y.r(c).Spent(y.now, "tokens", used)
		y.purses[0].correct(used - c.has[0])
		c.has[0] = used
	default:
		y.end(c)
	}
}

func (y *game) end(c *played) {
	unsent, refused := y.IntN(4) == 0, y.IntN(4) == 0
	spent := make([]bool, len(c.has))
	for i := range spent {
		spent[i] = c.r.parts[i].spent
	}
	y.r(c).End(y.now, unsent, refused)
	for i := range c.has {
		if unsent || refused && !spent[i] {
			y.purses[i].correct(-c.has[i])
			c.has[i] = 0
		}
	}
	c.r.End(y.now, true, true) // a second end does nothing
	y.over(c)
}

// reload changes amounts: what is used stays used.
func (y *game) reload() {
	quotas := make([]policy.Quota, len(y.purses))
	for i := range y.purses {
		p := &y.purses[i]
		p.bring(y.now)
		used := p.Amount - p.left
		p.Amount *= 0.7 + 0.6*y.Float64()
		p.Amount = max(p.Amount, 2)
		p.left = max(p.Amount-used, -p.Amount)
		if p.Window && p.left < p.Amount && !p.open {
			p.ends, p.open = y.now.Add(p.Span), true
		}
		quotas[i] = p.Quota
	}
	y.g.Reload(y.now, quotas)
}

// agree compares what is left, and who waits.
func (y *game) agree() {
	waiting := 0
	for _, c := range y.all {
		if c.has == nil {
			waiting++
		}
	}
	if len(y.g.line.waiting) != waiting || !slices.IsSortedFunc(y.g.line.waiting, compare) {
		y.Fatalf("%d wait, want %d, in order", len(y.g.line.waiting), waiting)
	}
	for i, s := range y.g.Stats(y.now) {
		p := &y.purses[i]
		p.bring(y.now)
		if left := max(p.left, 0); s.Left > left+1e-6 || !y.told && s.Left < left-1e-6 {
			y.Fatalf("%v %s are left, want %v", s.Left, p.Unit, left)
		}
	}
}

// finish ends all that is not over. After that nothing is missing.
func (y *game) finish() {
	for len(y.all) > 0 {
		c := y.all[0]
		if c.has == nil {
			c.r.Drop(y.now)
			y.over(c)
		} else {
			y.end(c)
		}
	}
	y.now = y.now.Add(time.Hour)
	if !y.g.Idle(y.now) || y.g.out != 0 {
		y.Fatalf("not idle at the end: %d are out", y.g.out)
	}
	for i, s := range y.g.Stats(y.now) {
		if l := y.g.levels[i]; l.out != 0 || math.Abs(s.Left-y.purses[i].Amount) > 1e-6 || s.Waiting != 0 {
			y.Fatalf("%v of %v %s are left, %d are out", s.Left, y.purses[i].Amount, s.Unit, l.out)
		}
	}
	for tenant, f := range y.g.line.tenants {
		if f.waiting != 0 {
			y.Fatalf("%d of tenant %q wait for ever", f.waiting, tenant)
		}
	}
}

// Whatever calls do, what they take is there by own count, the first in the line is not passed, and all that is
// given back is back.
func FuzzGame(f *testing.F) {
	for seed := range uint64(40) {
		f.Add(seed, uint16(400), seed%2 == 0)
	}
	f.Add(uint64(315), uint16(1223), false)
	f.Fuzz(func(t *testing.T, seed uint64, moves uint16, words bool) {
		y := newGame(t, seed)
		for range moves % 2000 {
			y.move(words)
		}
		y.finish()
	})
}

// Everything at once: the race detector looks on, and at the end nothing is missing.
func TestManyUseAGroupAtOnce(t *testing.T) {
	quotas := []policy.Quota{{Unit: "tokens", Amount: 1000, Span: time.Second, Estimate: 10, Among: 1}, {Unit: policy.Requests, Amount: 100, Span: time.Second, Estimate: 1, Among: 1, Window: true}}
	g := New(0, quotas)
	var clocks atomic.Int64
	now := func() clock.Instant { return clock.Instant(clocks.Add(int64(100 * time.Microsecond))) }
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			r := rand.New(rand.NewPCG(uint64(i), 1))
			for range 500 {
				race(g, r, now)
			}
		})
	}
	all.Go(func() {
		for i := range 200 {
			q := slices.Clone(quotas)
			q[0].Amount += float64(i % 3 * 100)
			g.Reload(now(), q[:1+i%2])
			g.Stats(now())
			g.Idle(now())
		}
		g.Reload(now(), quotas)
	})
	all.Wait()
	if end := now() + 1000*second; !g.Idle(end) {
		t.Errorf("not idle at the end: %+v", g.Stats(end))
	}
}

// chime is a waker of a goroutine.
type chime chan struct{}

func (c chime) Wake() {
	select {
	case c <- struct{}{}:
	default:
	}
}

// race makes one call among many.
func race(g *Group, rnd *rand.Rand, now func() clock.Instant) {
	r := g.Reserve(&Cost{Unit: "tokens", Amount: 40 * rnd.Float64()}, []string{"", "a", "b"}[rnd.IntN(3)], policy.Priority(rnd.IntN(3)-1))
	rings := make(chime, 1)
	last := now().Add(time.Duration(rnd.IntN(500)) * time.Millisecond)
	for {
		at, a := r.Ask(now(), last, rings)
		if a == Refused || a == TooLarge {
			return
		}
		if a == Taken {
			break
		}
		if rnd.IntN(20) == 0 {
			r.Drop(now())
			return
		}
		for now() < at { // until its time comes, or it is woken
			select {
			case <-rings:
				at = 0
			default:
			}
		}
	}
	var late sync.WaitGroup
	used := 60 * rnd.Float64()
	late.Go(func() { r.Spent(now(), "tokens", used) }) // as by the reader of a stream
	if r.Waits() || r.Blamed() {
		r.Short(now())
	}
	r.Told(now(), []policy.Remaining{{Unit: "tokens", Left: 1000, Limit: 1000}, {Unit: policy.Requests, Left: 50}})
	r.End(now(), false, false)
	late.Wait()
}
