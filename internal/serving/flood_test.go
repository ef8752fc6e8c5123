package serving_test

import (
	"context"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion/internal/admission"
	"github.com/gabion-go/gabion/internal/serving"
)

// A crowd is callers of one kind. They come at random, whatever becomes of them.
type crowd struct {
	rate     float64       // a second
	patience time.Duration // after which one leaves; 0 means never
	says     bool          // the server knows the patience
	tenant   string
}

// A shop is a server behind a room.
type shop struct {
	workers int
	work    func(u float64) time.Duration
	ignores bool // that a caller has gone
	tenants bool
	limit   int // 0 means learned
	seed    uint64
}

// A tale is what became of a crowd.
type tale struct{ came, answered, begun, vain atomic.Int64 }

func (a *tale) share() float64 { return float64(a.answered.Load()) / float64(max(a.came.Load(), 1)) }

func exactly(d time.Duration) func(float64) time.Duration {
	return func(float64) time.Duration { return d }
}

func exponential(mean time.Duration) func(float64) time.Duration {
	return func(u float64) time.Duration { return time.Duration(-math.Log(1-u) * float64(mean)) }
}

// between is any time from a to b.
func between(a, b time.Duration) func(float64) time.Duration {
	return func(u float64) time.Duration { return a + time.Duration(u*float64(b-a)) }
}

// serve plays the crowds before a shop for so long, and counts after the warm-up.
func (s shop) serve(t testing.TB, warm, span time.Duration, crowds ...crowd) (tales []*tale, stats serving.Stats) {
	synctest.Test(t.(*testing.T), func(t *testing.T) {
		room := serving.Options{Limit: s.limit, Fair: s.tenants}.Open()
		workers := make(chan struct{}, s.workers)
		began := time.Now()
		var all sync.WaitGroup
		for i, c := range crowds {
			a := new(tale)
			tales = append(tales, a)
			all.Go(func() {
				draws := rand.New(rand.NewPCG(s.seed+1, uint64(i)))
				for {
					time.Sleep(time.Duration(draws.ExpFloat64() / c.rate * float64(time.Second)))
					past := time.Since(began)
					if past >= warm+span {
						return
					}
					took, counted := s.work(draws.Float64()), a
					if past < warm {
						counted = new(tale)
					}
					all.Go(func() { s.visit(room, workers, c, took, counted) })
				}
			})
		}
		time.Sleep(warm + span)
		stats = room.Stats()
		all.Wait()
		if x := room.Stats(); x.InUse != 0 || x.Queued != 0 {
			t.Errorf("at the end %d in use, %d queued", x.InUse, x.Queued)
		}
	})
	return tales, stats
}

// visit is one request.
func (s shop) visit(room *serving.Room, workers chan struct{}, c crowd, took time.Duration, a *tale) {
	a.came.Add(1)
	ctx, r := context.Background(), serving.Request{Tenant: c.tenant}
	came := time.Now()
	if c.patience > 0 {
		var cancel func()
		ctx, cancel = context.WithCancel(ctx)
		defer cancel()
		defer time.AfterFunc(c.patience, cancel).Stop()
		if c.says {
			r.Deadline = came.Add(c.patience)
		}
	}
	pass, result := room.Enter(ctx, r)
	if result.Answer != admission.Admitted {
		return
	}
	a.begun.Add(1)
	s.handle(ctx, workers, took)
	if c.patience > 0 && time.Since(came) >= c.patience {
		a.vain.Add(1)
	} else {
		a.answered.Add(1)
	}
	room.Leave(pass, serving.Verdict(ctx, true))
}

func (s shop) handle(ctx context.Context, workers chan struct{}, took time.Duration) {
	gone := ctx.Done()
	if s.ignores {
		gone = nil
	}
	select {
	case workers <- struct{}{}:
	case <-gone:
		return
	}
	defer func() { <-workers }()
	timer := time.NewTimer(took)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-gone:
	}
}

func TestTable(t *testing.T) {
	const ms = time.Millisecond
	works := map[string]func(float64) time.Duration{"exact": exactly(30 * ms), "20-40": between(20*ms, 40*ms), "exp": exponential(30 * ms)}
	for _, name := range []string{"exact", "20-40", "exp"} {
		for _, ignores := range []bool{true, false} {
			for _, tenants := range []bool{false, true} {
				for _, says := range []bool{false, true} {
					for _, patience := range []time.Duration{5 * ms, 25 * ms, 35 * ms, 50 * ms, 200 * ms, 0} {
						if says && patience == 0 {
							continue
						}
						for _, rate := range []float64{800, 2000, 6500} {
							best, at, learned := 0.0, 0, 0.0
							var got serving.Stats
							var vain float64
							for _, limit := range []int{10, 20, 30, 0} {
								s := shop{workers: 20, work: works[name], limit: limit, ignores: ignores, tenants: tenants}
								tales, stats := s.serve(t, 10*time.Second, 10*time.Second,
									crowd{rate: 200, patience: 2 * time.Second, tenant: "honest"}, crowd{rate: rate, patience: patience, says: says, tenant: "flood"})
								share := tales[0].share()
								switch {
								case limit == 0:
									learned, got = share, stats
									vain = float64(tales[1].vain.Load()) / float64(tales[1].came.Load())
								case share > best:
									best, at = share, limit
								}
							}
							bad := ""
							if learned < 0.95*best {
								bad = " BAD"
							}
							t.Logf("%5s ignores %-5v tenants %-5v says %-5v patience %5v %4.0f/s: best %5.1f%% (%d) learned %5.1f%% (%d) vain %4.1f%%%s", name, ignores, tenants, says, patience, rate, 100*best, at, 100*learned, got.Limit, 100*vain, bad)
						}
					}
				}
			}
		}
	}
}
