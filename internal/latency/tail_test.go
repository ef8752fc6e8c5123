package latency

import (
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/internal/testrace"
)

// service plays attempts against a tail, in order and in virtual time.
type service struct {
	tail  *Tail
	now   clock.Instant
	every time.Duration // between two attempts
	most  time.Duration // the upper bound
	q     float64
	limit time.Duration // of the last attempt
}

func newService(q float64, rate int) *service {
	return &service{tail: NewTail(0, 1), every: time.Second / time.Duration(rate), most: 4 * time.Second, q: q}
}

// run plays n attempts and returns which share of them was cut off, and which was sent with
// the upper bound.
func (p *service) run(n int, takes func() time.Duration) (cutOff, open float64) {
	for range n {
		p.now = p.now.Add(p.every)
		if p.limit = p.tail.Limit(p.now, p.q, p.most); p.limit == 0 || p.limit >= p.most {
			p.limit = p.most
			open++
		}
		if d := takes(); d <= p.limit {
			p.tail.Finish(0, d)
		} else {
			p.tail.Cut(0, p.limit, p.limit < p.most)
			cutOff++
		}
	}
	return cutOff / float64(n), open / float64(n)
}

// The services of these tests.
type draw func(*rand.Rand) time.Duration

func lognormal(median time.Duration, sigma float64) draw {
	return func(r *rand.Rand) time.Duration {
		return time.Duration(float64(median) * math.Exp(sigma*r.NormFloat64()))
	}
}

func slowOnes(share float64, slow, others draw) draw {
	return func(r *rand.Rand) time.Duration {
		if r.Float64() < share {
			return slow(r)
		}
		return others(r)
	}
}

func constant(d time.Duration) draw { return func(*rand.Rand) time.Duration { return d } }

func (d draw) with(seed uint64) func() time.Duration {
	r := rand.New(rand.NewPCG(seed, 58))
	return func() time.Duration { return d(r) }
}

// SPEC E4: an acceptable rate of false timeouts is kept, although the limit hides the very
// times that it is made of. Below a fifth of it the limit would be needlessly long.
func TestALimitCutsOffTheShareThatItIsFor(t *testing.T) {
	testrace.Serial(t)
	pareto := func(r *rand.Rand) time.Duration {
		return time.Duration(10e6 / math.Pow(1-r.Float64(), 1/1.5))
	}
	for fact, c := range map[string]struct {
		takes draw
		least float64 // times the share asked for
	}{
		"constant: nothing":                      {constant(100 * ms), 0},
		"narrow: less, a limit is three medians": {lognormal(50*ms, 0.3), 0},
		"lognormal":                              {lognormal(50*ms, 0.7), 0.2},
		"lognormal, heavy":                       {lognormal(50*ms, 1), 0.2},
		"a tail without a mean square":           {pareto, 0.2},
		"one in a hundred slow":                  {slowOnes(0.01, lognormal(800*ms, 0.2), lognormal(20*ms, 0.3)), 0.2},
		"one in three hundred slow":              {slowOnes(0.003, lognormal(800*ms, 0.2), lognormal(20*ms, 0.3)), 0},
	} {
		for _, at := range []struct {
			q    float64
			rate int
		}{{0.999, 1000}, {0.999, 100}, {0.99, 200}, {0.99, 5}} {
			p := newService(at.q, at.rate)
			p.run(3*int(Needed(at.q))+60*at.rate, c.takes.with(1))
			n := 50 * int(Needed(at.q))
			cutOff, open := p.run(n, c.takes.with(2))
			asked := 1 - at.q
			if noise := 3 * math.Sqrt(asked/float64(n)); cutOff > asked+noise || cutOff < c.least*asked-noise {
				t.Errorf("%s, p%g at %d a second: %.4f %% were cut off, %.4f %% were asked for", fact, 100*at.q, at.rate, 100*cutOff, 100*asked)
			}
			if open > 0.25 {
				t.Errorf("%s, p%g at %d a second: %.0f %% had the upper bound", fact, 100*at.q, at.rate, 100*open)
			}
		}
	}
}

// The upper bound counts until as many are known as the percentile needs.
func TestALimitNeedsSamples(t *testing.T) {
	for q, want := range map[float64]int64{0.9: 10, 0.99: 100, 0.995: 200, 0.999: 1000, 0.9999: 10_000, 0.99999: 100_000, 0: 1, 1: 1_000_000} {
		if got := Needed(q); got != want {
			t.Errorf("%v needs %d, want %d", q, got, want)
		}
	}
	tail := NewTail(0, 1)
	for range 999 {
		tail.Finish(0, 10*ms)
	}
	tail.Cut(0, 5*ms, false)
	if d := tail.Limit(0, 0.999, 4*time.Second); d != 0 {
		t.Errorf("after 999 the limit is %v", d)
	}
	tail.Finish(0, 10*ms)
	if d := tail.Limit(clock.Instant(tailEvery), 0.999, 4*time.Second); d < 30*ms || d > 32*ms {
		t.Errorf("after 1000 the limit is %v, want three medians", d)
	}
}

// A service becomes slower by a step, and later as fast as before. The limit follows within
// seconds upward, and within two halves downward.
func TestALimitFollowsASteps(t *testing.T) {
	base := lognormal(50*ms, 0.5)
	for fact, factor := range map[string]time.Duration{"three times": 3, "ten times": 10, "thirty times": 30} {
		takes := base.with(3)
		slow := func() time.Duration { return takes() * factor }
		p := newService(0.999, 200)
		p.most = 20 * time.Second
		p.run(200*120, takes)
		before := p.limit
		first, _ := p.run(200*3, slow)
		then, _ := p.run(200*117, slow)
		grown := p.limit
		p.run(200*70, takes)
		t.Logf("%s slower: %.1f %% of the first three seconds were cut off, and then %.2f %%; the limit went from %v to %v and back to %v", fact, 100*first, 100*then, before, grown, p.limit)
		if first > 0.6 || then > 0.0035 {
			t.Errorf("%s slower: %.1f %% of the first three seconds were cut off, and then %.2f %%", fact, 100*first, 100*then)
		}
		if grown < min(before*factor/2, p.most) || p.limit > before*3/2 {
			t.Errorf("%s slower: the limit went from %v to %v and back to %v", fact, before, grown, p.limit)
		}
	}
}

// In a black hole attempts get all the time there is, until it shows that this is in vain.
// From then on only one in sixteen does; and these notice when answers come late again.
func TestABlackHoleIsNotWaitedFor(t *testing.T) {
	takes := lognormal(20*ms, 0.5).with(4)
	hole := func() time.Duration { return time.Hour }
	p := newService(0.999, 300)
	p.run(300*120, takes)
	before := p.tail.InForce(p.now, p.q, p.most)
	_, open := p.run(300*2, hole)
	if open < 0.1 {
		t.Errorf("at first %.1f %% had the upper bound", 100*open)
	}
	_, open = p.run(300*58, hole)
	if limit := p.tail.InForce(p.now, p.q, p.most); limit > 3*before || math.Abs(open-1.0/16) > 0.01 {
		t.Errorf("later %.1f %% had the upper bound, and the others %v, which was %v before", 100*open, limit, before)
	}
	slow := func() time.Duration { return 30 * takes() }
	first, _ := p.run(300*5, slow)
	then, _ := p.run(300*115, slow)
	if limit := p.tail.InForce(p.now, p.q, p.most); first > 0.4 || then > 0.005 || limit < 20*before {
		t.Errorf("slow after the hole, %.1f %% of the first five seconds were cut off, then %.2f %%; the limit is %v", 100*first, 100*then, limit)
	}
	p.run(300*90, takes)
	if limit := p.tail.InForce(p.now, p.q, p.most); limit > 3*before/2 {
		t.Errorf("90 s after all that the limit is %v, it was %v", limit, before)
	}
}

// Where some attempts never end, waiting for them does not lengthen the limit of the others
// beyond what these need.
func TestAttemptsThatHangAreNotWaitedFor(t *testing.T) {
	for fact, share := range map[string]float64{"one in two hundred": 0.005, "one in ten": 0.1, "half": 0.5} {
		takes := slowOnes(share, constant(time.Hour), lognormal(20*ms, 0.7)).with(6)
		p := newService(0.999, 300)
		p.run(300*120, takes)
		var late, all float64
		for range 300 * 100 {
			p.run(1, func() time.Duration {
				d := takes()
				if d < time.Hour {
					all++
					if d > p.limit {
						late++
					}
				}
				return d
			})
		}
		if limit := p.tail.InForce(p.now, p.q, p.most); late/all > map[bool]float64{true: 0.005, false: 0.001}[share > 0.4] || limit > 2*time.Second {
			t.Errorf("%s hang: %.2f %% of the others were cut off, after %v", fact, 100*late/all, limit)
		} else {
			t.Logf("%s hang: %.3f %% of the others were cut off, after %v", fact, 100*late/all, limit)
		}
	}
}

// What ended early tells little: most attempts were given up by their callers, or failed
// at once, or lost to a hedge.
func TestWhatEndedEarlyDoesNotMoveTheLimit(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 58))
	takes := lognormal(50*ms, 0.7)
	whole, part := NewTail(0, 1), NewTail(0, 1)
	for range 40_000 {
		d := takes(r)
		whole.Finish(0, d)
		switch end := time.Duration(r.Float64() * float64(400*ms)); {
		case r.IntN(4) > 0 && end < d:
			part.Cut(0, end, false)
		default:
			part.Finish(0, d)
		}
		part.Cut(0, 2*ms, false)
	}
	a, b := whole.Limit(0, 0.99, time.Second), part.Limit(0, 0.99, time.Second)
	if ratio := float64(b) / float64(a); ratio < 0.9 || ratio > 1.15 {
		t.Errorf("the limit is %v, and %v where most ended early", a, b)
	}
}

func TestAHalfIsFilledForAsLongAsItNeeds(t *testing.T) {
	for fact, c := range map[string]struct {
		rate   int
		q      float64
		memory time.Duration // within which all is forgotten
		keeps  time.Duration // for which nothing is
	}{
		"many attempts: a minute":                {1000, 0.999, 62 * time.Second, 29 * time.Second},
		"few: as long as the percentile needs":   {5, 0.999, 402 * time.Second, 199 * time.Second},
		"few, and a percentile that needs few":   {5, 0.99, 62 * time.Second, 29 * time.Second},
		"hardly any: twenty minutes at the most": {1, 0.99999, 1202 * time.Second, 599 * time.Second},
	} {
		p := newService(c.q, c.rate)
		p.run(c.rate*int(c.memory/time.Second), constant(200*ms).with(0))
		count := func() int64 { // of those that took 200 ms
			var e [tailCells]int64
			for half := range uint32(2) {
				p.tail.sum(half, finished, &e)
			}
			return e[tailBucket(200*ms)]
		}
		before := count()
		p.run(c.rate*int(c.keeps/time.Second), constant(10*ms).with(0))
		kept := count()
		p.run(c.rate*int((c.memory-c.keeps)/time.Second)+c.rate, constant(10*ms).with(0))
		if before == 0 || kept == 0 || count() != 0 {
			t.Errorf("%s: of %d there were %d after %v, and %d after %v", fact, before, kept, c.keeps, count(), c.memory)
		}
	}
}

func TestAnIdleTailForgets(t *testing.T) {
	p := newService(0.99, 100)
	p.run(5000, constant(50*ms).with(0))
	p.now = p.now.Add(2 * tailLongest)
	if d := p.tail.Limit(p.now, p.q, p.most); d != 0 {
		t.Errorf("after twenty idle minutes the limit is %v", d)
	}
}

// Two policies may ask in turn, while calls of the old one end.
func TestALimitIsOfTheShareThatIsAsked(t *testing.T) {
	tail := NewTail(0, 1)
	for i := range 1000 {
		tail.Finish(0, time.Duration(i*i)*time.Microsecond)
	}
	if a, b := tail.Limit(1, 0.9, time.Second), tail.Limit(1, 0.999, time.Second); a >= b {
		t.Fatalf("%v and %v", a, b)
	}
	for range 3 {
		for _, q := range []float64{0.9, 0.999} {
			a, b := tail.Limit(1, q, time.Second), tail.Estimate(q, time.Second).Limit
			if a != b {
				t.Errorf("p%g is %v in force, and %v", 100*q, a, b)
			}
		}
	}
}

func TestTailBucketsMeetWithoutGapsAndOverlaps(t *testing.T) {
	for i := range tailCells {
		end := tailEnd(i)
		if tailBucket(end-1) != i || i+1 < tailCells && tailBucket(end) != i+1 {
			t.Errorf("bucket %d ends at %v, which is in %d", i, end, tailBucket(end))
		}
	}
	for d, want := range map[time.Duration]int{math.MinInt64: 0, 0: 0, 65_536: 0, 1<<40 - 1: tailCells - 1, math.MaxInt64: tailCells - 1} {
		if got := tailBucket(d); got != want {
			t.Errorf("%v is in %d, want %d", d, got, want)
		}
	}
}

func TestATailAllocatesNothing(t *testing.T) {
	tail := NewTail(0, 4)
	now := clock.Instant(0)
	if n := testing.AllocsPerRun(100, func() {
		now += clock.Instant(300 * ms)
		tail.Finish(1, ms)
		tail.Cut(2, ms, true)
		tail.Limit(now, 0.999, time.Second)
		tail.Estimate(0.999, time.Second)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestGoroutinesCountAll(t *testing.T) {
	tail := NewTail(0, 4)
	var all sync.WaitGroup
	for g := range uint32(4) {
		all.Go(func() {
			for i := range 5000 {
				tail.Finish(g, time.Duration(i)*ms)
				tail.Cut(g, time.Duration(i)*ms, i%100 == 0)
				tail.Limit(clock.Instant(i)*clock.Instant(ms), 0.99, time.Second)
			}
		})
	}
	all.Wait()
	if e := tail.Estimate(0.99, time.Second); e.Finished != 20_000 || e.Cut != 20_000 {
		t.Errorf("%+v", e)
	}
}

// FuzzTail compares the estimate with that of a sorted list.
func FuzzTail(f *testing.F) {
	f.Add(uint64(1), uint16(1000), byte(10), byte(3))
	f.Add(uint64(2), uint16(5000), byte(200), byte(0))
	f.Add(uint64(3), uint16(120), byte(1), byte(255))
	f.Fuzz(func(t *testing.T, seed uint64, n uint16, cutShare, spread byte) {
		r := rand.New(rand.NewPCG(seed, 1))
		tail := NewTail(0, 2)
		var list []sample
		for i := range int(n) {
			d := lognormal(time.Duration(1+i%7)*10*ms, float64(spread)/100)(r)
			s := sample{d: tailEnd(tailBucket(d)), cut: r.IntN(256) < int(cutShare)}
			if list = append(list, s); s.cut {
				tail.Cut(uint32(i), d, false)
			} else {
				tail.Finish(uint32(i), d)
			}
		}
		for _, q := range []float64{0.9, 0.99, 0.999} {
			bound := time.Duration(1+n%5) * 100 * ms
			want := naive(list, q, bound)
			if got := tail.Estimate(q, bound); got != want {
				t.Fatalf("p%g of %d is %+v, want %+v", 100*q, n, got, want)
			}
		}
	})
}

type sample struct {
	d   time.Duration
	cut bool
}

// naive is the estimate in its textbook form: one at a time, the shortest first, of equal
// ones those that finished first, and one more that outlasts all.
func naive(list []sample, q float64, bound time.Duration) (e Estimate) {
	list = slices.Clone(list)
	slices.SortFunc(list, func(a, b sample) int {
		if a.d != b.d {
			return int(min(max(a.d-b.d, -1), 1))
		}
		return map[bool]int{false: 0, true: 1}[a.cut] - map[bool]int{false: 0, true: 1}[b.cut]
	})
	surviving := 1.0
	var all []time.Duration // that finished
	for i, s := range list {
		if s.cut {
			e.Cut++
			continue
		}
		all = append(all, s.d)
		surviving *= 1 - 1/float64(len(list)+1-i)
		if surviving <= (1-q)*(1+1e-9) && e.Limit == 0 {
			e.Limit = s.d
		}
	}
	e.Finished, e.Needed = int64(len(all)), int64(math.Ceil(1/(1-q)-1e-6))
	if e.Finished < e.Needed {
		return Estimate{Finished: e.Finished, Cut: e.Cut, Needed: e.Needed}
	}
	if e.Known = Known; e.Limit == 0 {
		e.Known = TooShort
		if e.Limit = naiveVain(list, tailEnd(tailBucket(bound))); e.Limit > 0 {
			e.Known = Hopeless
		} else if surviving <= min(10*(1-q)*(1+1e-9), 0.5) {
			e.Limit = 2 * list[len(list)-1].d
		}
	}
	if e.Limit > 0 {
		e.Limit = max(e.Limit, 3*all[(len(all)-1)/2])
	}
	return e
}

// naiveVain tries every limit below the bound, from the shortest on.
func naiveVain(list []sample, bound time.Duration) time.Duration {
	for i := 0; tailEnd(i) < bound; i++ {
		hung, late := 0, 0
		for _, s := range list {
			switch {
			case s.cut && s.d >= bound:
				hung++
			case !s.cut && s.d > tailEnd(i):
				late++
			}
		}
		hung = min(hung, 200)
		if float64(late+1)/float64(hung+late+1) <= 1.0/50 {
			return tailEnd(i)
		}
	}
	return 0
}
