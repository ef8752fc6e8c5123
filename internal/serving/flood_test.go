package serving_test

import (
	"context"
	"fmt"
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
	honest := crowd{rate: 200, patience: 2 * time.Second, tenant: "honest"}
	for _, says := range []bool{false, true} {
		for _, ignores := range []bool{false, true} {
			for _, rate := range []float64{700, 2000} {
				line := fmt.Sprintf("says %-5v ignores %-5v %4.0f/s:", says, ignores, rate)
				for _, limit := range []int{0, 20} {
					s := shop{workers: 20, work: exactly(30 * ms), limit: limit, ignores: ignores}
					began := time.Now()
					tales, stats := s.serve(t, 0, 20*time.Second, honest, crowd{rate: rate, patience: 25 * ms, says: says, tenant: "flood"})
					line += fmt.Sprintf("  %4d: honest %5.1f%% flood begun %5.1f%% limit %d (%.1fs)", limit, 100*tales[0].share(), 100*float64(tales[1].vain.Load())/float64(tales[1].came.Load()), stats.Limit, time.Since(began).Seconds())
				}
				t.Log(line)
			}
		}
	}
}
