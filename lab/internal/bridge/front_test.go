package bridge

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/gabiontest"
	"github.com/gabion-go/gabion/internal/machine"
	"github.com/gabion-go/gabion/lab/internal/sim"
	"github.com/gabion-go/gabion/policy"
)

// throughFrontDoor plays a trace with gabion.Do.
func (tr *trace) throughFrontDoor(t testing.TB) []line {
	t.Helper()
	return tr.play(t, tr.draws())
}

// play makes the calls of a trace in a bubble, each on its own goroutine.
func (tr *trace) play(t testing.TB, seed uint64) (log []line) {
	t.Helper()
	synctest.Test(t.(*testing.T), func(t *testing.T) {
		var seen notes
		d := gabion.New("trace", tr.policy, gabion.WithSeed(seed), gabion.WithObserver(&seen))
		start := time.Now()
		var all sync.WaitGroup
		for i := range tr.calls {
			all.Go(func() {
				time.Sleep(tr.calls[i].At)
				call(d, start, i+1, &tr.calls[i])
			})
		}
		if tr.reloaded > 0 {
			all.Go(func() {
				time.Sleep(tr.reloaded)
				if err := d.Reload(tr.next); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		synctest.Wait()
		gabiontest.NothingHeld(t, d)
		log = seen.log
	})
	return log
}

func call(d *gabion.Dependency, start time.Time, n int, c *sim.Recorded) {
	ctx := context.Background()
	if c.Params.Deadline != 0 {
		var end context.CancelFunc
		ctx, end = context.WithDeadline(ctx, start.Add(time.Duration(c.Params.Deadline)))
		defer end()
	}
	_, _ = gabion.Do(ctx, d, func(ctx context.Context) (int, error) { // the observer knows how it ended
		return attempt(ctx, c.Answers)
	}, options(n, &c.Params)...)
}

func options(n int, p *machine.Params) []gabion.CallOption {
	all := []gabion.CallOption{
		gabion.WithOperation(strconv.Itoa(n)), gabion.WithTimeout(p.Timeout), gabion.WithPriority(p.Priority),
		gabion.WithTenant(p.Tenant), gabion.WithPartition(p.Partition),
	}
	if p.Safe {
		all = append(all, gabion.WithIdempotent())
	}
	if p.NoRetry {
		all = append(all, gabion.WithoutRetry())
	}
	if p.NoHedge {
		all = append(all, gabion.WithoutHedge())
	}
	return all
}

// attempt takes and brings what was recorded, and listens to its context.
func attempt(ctx context.Context, recorded []sim.Answer) (int, error) {
	n := gabion.AttemptNumber(ctx)
	if n > len(recorded) || recorded[n-1].Never {
		<-ctx.Done()
		return 0, ctx.Err()
	}
	a := &recorded[n-1]
	home := time.NewTimer(a.Took)
	defer home.Stop()
	select {
	case <-ctx.Done():
		return 0, ctx.Err()
	case <-home.C:
	}
	if a.Outcome.Class == policy.ClassSuccess {
		return 0, nil
	}
	return 0, brought{a.Outcome}
}

// brought is an error that means an outcome.
type brought struct{ o policy.Outcome }

func (b brought) Error() string           { return b.o.Class.String() }
func (b brought) Outcome() policy.Outcome { return b.o }

// notes keeps an observer's events.
type notes struct {
	mu  sync.Mutex // guards log
	log []line
}

// Observe implements gabion.Observer.
func (n *notes) Observe(_ context.Context, e gabion.Event) {
	call, _ := strconv.Atoi(e.Operation) // none is the dependency's
	n.mu.Lock()
	defer n.mu.Unlock()
	n.log = append(n.log, lineOf(call, e))
}
