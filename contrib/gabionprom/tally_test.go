package gabionprom_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/contrib/gabionprom"
	"github.com/gabion-go/gabion/gabiontest"
	"github.com/gabion-go/gabion/internal/adapter"
	"github.com/gabion-go/gabion/policy"
	"github.com/prometheus/client_golang/prometheus"
)

// policies are those that a game changes between: with the short way of plain calls, and without.
func policies() []policy.Policy {
	p := policy.Policy{
		Safe: true, Timeout: policy.Timeout{Call: 2 * time.Second, Attempt: 300 * time.Millisecond},
		Retry:    policy.Retry{Attempts: 3, Backoff: backoff.Const(10 * time.Millisecond)},
		Breaker:  policy.Breaker{MinCalls: 10, FailureRate: 0.5, SlowCall: 100 * time.Millisecond, SlowRate: 0.9, Open: 100 * time.Millisecond},
		Bulkhead: policy.Bulkhead{Limit: 2},
	}
	hedged, learned, endless := p, p, p
	hedged.Hedge = policy.Hedge{Max: 1, Delay: 5 * time.Millisecond}
	learned.Bulkhead.Limit = policy.Learned
	endless.Timeout.Call, endless.Breaker.Off = policy.Off, true
	return []policy.Policy{p, {}, hedged, learned, endless}
}

// A game is random calls of one dependency, the same for the same seed.
type game struct {
	t *testing.T
	r *rand.Rand
	d *gabion.Dependency
}

// upTo is a time that hardly ends when another one does.
func (g *game) upTo(d time.Duration) time.Duration { return time.Duration(g.r.Int64N(int64(d))) }

// work is work that takes some time and comes to something.
func (g *game) work() func(context.Context) (int, error) {
	took, how := g.upTo(30*time.Millisecond), g.r.IntN(100)
	switch {
	case how < 5:
		took += 150 * time.Millisecond // slow
	case how < 8:
		took += time.Second // cut off
	}
	var tried atomic.Bool
	return func(ctx context.Context) (int, error) {
		first := !tried.Swap(true)
		select {
		case <-time.After(took):
		case <-ctx.Done():
			return 0, ctx.Err()
		}
		switch {
		case how < 10 && how >= 8:
			panic("a bug")
		case how < 15 || how < 25 && first:
			return 0, errDown
		case how < 28:
			return 0, fmt.Errorf("permanent %d", how)
		}
		return 1, nil
	}
}

func (g *game) call() {
	defer func() { _ = recover() }()
	var opts []gabion.CallOption
	if n := g.r.IntN(4); n > 0 {
		opts = append(opts, gabion.WithOperation([]string{"", "read", "write", "list"}[n]))
	}
	if g.r.IntN(4) == 0 {
		opts = append(opts, gabion.WithPartition([]string{"a", "b"}[g.r.IntN(2)]))
	}
	ctx := g.t.Context()
	if g.r.IntN(5) == 0 {
		made, cancel := context.WithTimeout(ctx, g.upTo(500*time.Millisecond))
		defer cancel()
		ctx = made
	}
	work := g.work()
	switch g.r.IntN(6) {
	case 0:
		if _, a, err := gabion.Open(ctx, g.d, work, opts...); err == nil {
			if g.r.IntN(4) == 0 {
				a.Outlive()
			}
			time.Sleep(time.Microsecond) // what is due by now comes first
			a.Close([]error{nil, errDown}[g.r.IntN(2)])
		}
	case 1:
		if a, err := gabion.Begin(ctx, g.d, opts...); err == nil {
			defer a.Close(nil)
			_, err := work(a.Context())
			a.Settle(err)
			time.Sleep(time.Microsecond)
		}
	case 2:
		g.d.Run(ctx, func(ctx context.Context) error {
			_, err := work(ctx)
			g.d.Run(ctx, works) // is part of the attempt
			return err
		}, opts...)
	default:
		gabion.Do(ctx, g.d, work, opts...)
	}
}

// play plays a game, and returns what a scrape gets after each part of it.
func play(t *testing.T, seed uint64, m *gabionprom.Metrics, o gabion.Observer) (said []string) {
	all := policies()
	g := &game{t, rand.New(rand.NewPCG(seed, 1)), gabion.New("db", all[0], gabion.WithSeed(seed), gabion.WithObserver(o))}
	for range 20 {
		for range 15 {
			g.call()
			time.Sleep(g.upTo(20 * time.Millisecond))
		}
		var both sync.WaitGroup // the bulkhead is full
		for range 4 {
			both.Go(func() {
				g.d.Run(t.Context(), func(context.Context) error { time.Sleep(700 * time.Millisecond); return nil })
			})
			time.Sleep(1337 * time.Microsecond)
		}
		both.Wait()
		said = append(said, exposition(t, m))
		if err := g.d.Reload(all[g.r.IntN(len(all))]); err != nil {
			t.Fatal(err)
		}
		if b, ok := g.d.Breaker(""); ok && g.r.IntN(5) == 0 {
			b.Trip()
		}
	}
	return said
}

// exposition is all that a scrape gets.
func exposition(t *testing.T, m prometheus.Collector) string {
	reg := prometheus.NewRegistry()
	reg.MustRegister(m)
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var s strings.Builder
	for _, f := range families {
		for _, one := range f.Metric {
			if h := one.Histogram; h != nil { // parts were added up in another order
				h.SampleSum = new(math.Round(h.GetSampleSum() * 1e9))
			}
			fmt.Fprintln(&s, f.GetName(), one)
		}
	}
	return s.String()
}

// counting counts what a Metrics gets.
type counting struct {
	*gabionprom.Metrics
	tallied, ends atomic.Int64
}

func (c *counting) Observe(ctx context.Context, e gabion.Event) {
	if e.Kind == policy.KindReturned {
		c.ends.Add(1)
	}
	c.Metrics.Observe(ctx, e)
}

func (c *counting) Tally(ctx context.Context, s adapter.PlainSuccess) {
	c.tallied.Add(1)
	c.Metrics.Tally(ctx, s)
}

func TestWhatIsTalliedIsExposedAsByEvents(t *testing.T) {
	for seed := range uint64(20) {
		var byEvents, tallied []string
		synctest.Test(t, func(t *testing.T) {
			m := gabionprom.New(gabionprom.Config{})
			byEvents = play(t, seed, m, gabion.ObserverFunc(m.Observe))
		})
		synctest.Test(t, func(t *testing.T) {
			c := &counting{Metrics: gabionprom.New(gabionprom.Config{})}
			tallied = play(t, seed, c.Metrics, c)
			if c.tallied.Load() < 50 || c.ends.Load() < 50 {
				t.Errorf("%d calls were tallied, and %d came as events", c.tallied.Load(), c.ends.Load())
			}
		})
		for i := range byEvents {
			was, is := strings.Split(byEvents[i], "\n"), strings.Split(tallied[i], "\n")
			for n := range max(len(was), len(is)) {
				if n >= len(was) || n >= len(is) || was[n] != is[n] {
					t.Fatalf("seed %d, scrape %d, line %d of %d and %d:\n%s\n%s", seed, i, n, len(was), len(is), was[min(n, len(was)-1)], is[min(n, len(is)-1)])
				}
			}
		}
	}
}

func TestTalliesOfManyGoroutinesAreExact(t *testing.T) {
	const callers, calls = 8, 2000
	reg, m := registry(t, gabionprom.Config{}, map[string]policy.Policy{"early": {}})
	if err := reg.Reload(map[string]policy.Policy{"early": {}, "late": {}}); err != nil { // comes after the Metrics
		t.Fatal(err)
	}
	var all sync.WaitGroup
	var good [2][2]atomic.Int64
	for i := range callers {
		all.Go(func() {
			for j, name := range []string{"early", "late"} {
				d, _ := reg.Get(name)
				for n := range calls {
					if d.Run(t.Context(), works, gabion.WithOperation([]string{"read", "write"}[n%2])) == nil { // else the bulkhead was full
						good[j][n%2].Add(1)
					}
					if i == 0 && n%200 == 0 {
						d.Reload(policies()[n/200%2])
					}
				}
			}
		})
	}
	last := 0.0
	for range 50 {
		got := gather(t, m)
		n := got.sum("gabion_calls_total")
		if n < last {
			t.Errorf("%v calls after %v", n, last)
		}
		last = n
	}
	all.Wait()
	got := gather(t, m)
	for _, name := range []string{"gabion_calls_total", "gabion_attempts_total"} {
		for i, d := range []string{"early", "late"} {
			for j, o := range []string{"read", "write"} {
				outcome := map[string]string{"gabion_calls_total": "outcome=ok", "gabion_attempts_total": "result=success"}[name]
				if n, want := got.sum(name, outcome, "dependency="+d, "operation="+o), good[i][j].Load(); n != float64(want) || want < calls {
					t.Errorf("%s of %s, %s: %v, want %d", name, d, o, n, want)
				}
			}
		}
	}
}

// An observer that wants all events gets them, and the Metrics beside it count by them.
func TestOneThatWantsAllEventsGetsThem(t *testing.T) {
	c := &counting{Metrics: gabionprom.New(gabionprom.Config{})}
	d := gabion.New("db", policy.Policy{}, gabion.WithObserver(c))
	d.Run(t.Context(), works)
	rec := new(gabiontest.Recorder)
	stop := d.Observe(rec)
	d.Run(t.Context(), works)
	stop()
	d.Run(t.Context(), works)
	if got, want := fmt.Sprint(rec.Decisions()), "[attempt_sent #1 attempt_settled #1 success returned after 1]"; got != want {
		t.Errorf("told %s, want %s", got, want)
	}
	if c.tallied.Load() != 2 || c.ends.Load() != 1 {
		t.Errorf("%d tallied, %d by events", c.tallied.Load(), c.ends.Load())
	}
	if n := gather(t, c.Metrics).sum("gabion_calls_total"); n != 3 {
		t.Errorf("%v calls", n)
	}
}
