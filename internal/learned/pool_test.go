package learned

import (
	"container/heap"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/gabion-go/gabion/internal/clock"
)

// pool is a dependency of so many workers, first come, first served, under a client that
// sends as many at once as the limit allows, or as come.
type pool struct {
	workers int
	work    func(*rand.Rand) time.Duration
	rate    float64 // calls a second; 0 means that there is always one more
	limit   *Limit
	draws   *rand.Rand

	now     clock.Instant
	ends    finishes
	queue   []clock.Instant // when they were sent
	out     int
	arrives clock.Instant
	waiting int // calls that the client has not sent
	seen    []int
}

type finish struct{ at, sent clock.Instant }

type finishes []finish

func (f finishes) Len() int           { return len(f) }
func (f finishes) Less(i, j int) bool { return f[i].at < f[j].at }
func (f finishes) Swap(i, j int)      { f[i], f[j] = f[j], f[i] }
func (f *finishes) Push(x any)        { *f = append(*f, x.(finish)) }
func (f *finishes) Pop() any {
	last := (*f)[len(*f)-1]
	*f = (*f)[:len(*f)-1]
	return last
}

func (p *pool) send() {
	for p.out < p.limit.Limit() && (p.rate == 0 || p.waiting > 0) {
		p.out++
		p.waiting--
		p.queue = append(p.queue, p.now)
	}
	for len(p.ends) < p.workers && len(p.queue) > 0 {
		heap.Push(&p.ends, finish{p.now.Add(p.work(p.draws)), p.queue[0]})
		p.queue = p.queue[1:]
	}
}

// run goes on until a time, and looks at the limit a hundred times a second.
func (p *pool) run(until clock.Instant) {
	for look := p.now; p.now < until; {
		p.send()
		next := until
		if len(p.ends) > 0 {
			next = min(next, p.ends[0].at)
		}
		if p.rate > 0 {
			next = min(next, p.arrives)
		}
		for ; look < next; look = look.Add(10 * ms) {
			p.seen = append(p.seen, p.limit.Limit())
		}
		p.now = next
		switch {
		case next == until:
		case p.rate > 0 && next == p.arrives:
			p.waiting = min(p.waiting+1, 2*p.limit.Limit())
			p.arrives = p.now.Add(time.Duration(p.draws.ExpFloat64() / p.rate * 1e9))
		default:
			f := heap.Pop(&p.ends).(finish)
			p.out--
			p.limit.Done(p.now, 0, p.now.Sub(f.sent), Worked)
		}
	}
}

func newPool(workers int, rate float64, seed uint64, work func(*rand.Rand) time.Duration) *pool {
	return &pool{workers: workers, work: work, rate: rate, draws: rand.New(rand.NewPCG(seed, 1)), limit: New(0, NewRule(Bounds{1, 1000}, 100), 1)}
}

func exponential(d *rand.Rand) time.Duration {
	return time.Duration(d.ExpFloat64() * float64(50*ms))
}
func uniform(d *rand.Rand) time.Duration { return time.Duration((0.5 + d.Float64()) * float64(50*ms)) }
func constant(*rand.Rand) time.Duration  { return 50 * ms }

func median(seen []int) int {
	sorted := slices.Sorted(slices.Values(seen))
	return sorted[len(sorted)/2]
}

// C113: the dependency has half of its room, or twice as much, and ten seconds later the limit
// is about right.
func TestTheLimitOfAPool(t *testing.T) {
	const second = clock.Instant(time.Second)
	for _, c := range []struct {
		fact    string
		workers int
		rate    float64
		then    int // workers after a minute; 0 means as many
		work    func(*rand.Rand) time.Duration
		low     int // what the limit is within, ten seconds later
		high    int
	}{
		{"it begins far above", 8, 0, 0, exponential, 8, 18},
		{"it begins below", 150, 0, 0, exponential, 148, 210},
		{"it begins right", 90, 0, 0, uniform, 88, 125},
		{"half of the workers go", 60, 0, 30, uniform, 29, 48},
		{"as many again come", 30, 0, 60, uniform, 58, 90},
		{"nobody uses it", 60, 300, 0, uniform, 100, 100},
		{"work without chance", 40, 0, 0, constant, 38, 60},
		{"one worker", 1, 0, 0, exponential, 1, 4},
	} {
		t.Run(c.fact, func(t *testing.T) {
			p := newPool(c.workers, c.rate, 1, c.work)
			p.run(60 * second)
			if c.then > 0 {
				p.workers = c.then
			}
			p.run(70 * second)
			p.seen = nil
			p.run(90 * second)
			if m := median(p.seen); m < c.low || m > c.high {
				t.Errorf("the limit is %d, not within %d and %d", m, c.low, c.high)
			}
		})
	}
}

// FuzzSteady runs pools that don't change. The limit stays within a fifth of its median, or
// two slots, for four fifths of the time. Where pieces of work are as different as an
// exponential distribution has them, it is two fifths, since their mean is never known so well.
// Where it is not used, it never grows.
func FuzzSteady(f *testing.F) {
	for seed := range uint64(4) {
		f.Add(seed, uint8(seed*37+5), uint8(seed))
	}
	f.Fuzz(func(t *testing.T, seed uint64, workers, kind uint8) {
		n := 4 + int(workers)%60
		work := [...]func(*rand.Rand) time.Duration{exponential, uniform, constant}[kind%3]
		rate := 0.0
		if kind/3%2 == 1 {
			rate = float64(n) / 0.05 * 0.4
		}
		p := newPool(n, rate, seed, work)
		const second = clock.Instant(time.Second)
		p.run(40 * second)
		p.seen = nil
		p.run(100 * second)
		usual, off, share := median(p.seen), 0, 0.2
		if kind%3 == 0 {
			share = 0.4
		}
		for _, l := range p.seen {
			if d := float64(max(l-usual, usual-l)); d > max(share*float64(usual), 2) {
				off++
			}
			if rate > 0 && l > 100 {
				t.Fatalf("it grew to %d, and %.0f were out", l, 0.4*float64(n))
			}
		}
		if 5*off > len(p.seen) {
			t.Errorf("%d workers: the limit is away from %d for %.0f %% of the time", n, usual, 100*float64(off)/float64(len(p.seen)))
		}
	})
}
