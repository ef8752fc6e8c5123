package overload

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// mostCalls bounds the calls under way. At three times the capacity of the large world
// 3,600 can be, for callers wait three seconds; more means that the machine is far too slow.
const mostCalls = 20_000

// A Run is what came of a case.
type Run struct {
	World    World
	Case     Case
	Ping     Ping
	Late     Lateness
	calls    []call
	attempts *attempts
	requests int64
	served   int64
	wasted   int64
}

type call struct {
	due, took time.Duration // from when it was due
	end       ending
}

// Run opens the server of a case, makes the calls, and closes the server when all work has
// ended. It returns an error if the machine can't keep up, or the server fails.
func (w *World) Run(c Case, on network) (*Run, error) {
	s, err := w.open(c, on)
	if err != nil {
		return nil, err
	}
	base := transport(on, s.listener.Addr())
	r := &Run{World: *w, Case: c, attempts: new(attempts)}
	err = r.live(s, base)
	base.CloseIdleConnections()
	if ended := s.close(); err == nil {
		err = ended
	}
	r.requests, r.served, r.wasted = s.requests.Load(), s.served.Load(), s.wasted.Load()
	return r, err
}

// live makes the calls of a run.
func (r *Run) live(s *site, base *http.Transport) (err error) {
	if r.Ping, err = r.World.ping(base); err != nil {
		return err
	}
	all, err := r.World.clients(r.Case, base, r.attempts)
	if err != nil {
		return err
	}
	due := r.World.arrivals() // before the start: of ten minutes it takes a while
	s.forget()
	r.attempts.start = time.Now()
	stop := watch()
	r.calls, err = drive(due, all, r.attempts.start)
	r.Late = stop()
	return err
}

// Ping is how long a request takes when hardly any other is there.
type Ping struct{ Median, P99 time.Duration }

// Way is how long a message takes one way: half of what is not work, timers that fire late
// included.
func (p Ping) Way(work time.Duration) time.Duration { return max(p.Median-work, 0) / 2 }

// ping asks at a fifth of the capacity.
func (w *World) ping(base *http.Transport) (p Ping, err error) {
	took := make([]time.Duration, w.Pings)
	once := &loop{base, 1, new(attempts)}
	var all sync.WaitGroup
	var bad atomic.Int64
	start := time.Now()
	for i := range took {
		due := start.Add(time.Duration(float64(i) * 5 / w.Capacity() * float64(time.Second)))
		time.Sleep(time.Until(due))
		all.Go(func() {
			if once.call(context.Background(), target) != good {
				bad.Add(1)
			}
			took[i] = time.Since(due)
		})
	}
	all.Wait()
	if n := bad.Load(); n > 0 {
		return p, fmt.Errorf("%d of %d requests to an idle server failed", n, w.Pings)
	}
	slices.Sort(took)
	return Ping{took[w.Pings/2], took[w.Pings-1-w.Pings/100]}, nil
}

const target = "http://server/"

// drive makes each call when it is due.
func drive(due []arrival, by []client, start time.Time) ([]call, error) {
	calls := make([]call, len(due))
	var all sync.WaitGroup
	var under atomic.Int64
	defer all.Wait()
	for i, a := range due {
		when := start.Add(a.at)
		time.Sleep(time.Until(when))
		if n := under.Add(1); n > mostCalls {
			return nil, fmt.Errorf("%d calls are under way %s after the start: this machine is too slow", n, a.at)
		}
		all.Go(func() {
			defer under.Add(-1)
			ctx, cancel := context.WithDeadline(context.Background(), when.Add(CallTime))
			defer cancel()
			end := by[a.client].call(ctx, target)
			calls[i] = call{a.at, time.Since(when), end}
		})
	}
	all.Wait()
	return calls, nil
}

// Lateness is by how much a goroutine that only sleeps woke too late.
type Lateness struct {
	Most, Usual time.Duration // usual: one time in ten it was more
}

// TooMuch reports whether times that were measured in between are the machine's, of work that takes 100
// ms.
func (l Lateness) TooMuch() bool {
	return l.Most > 250*time.Millisecond || l.Usual > 5*time.Millisecond
}

// String implements fmt.Stringer.
func (l Lateness) String() string {
	return fmt.Sprintf("up to %s late, and one time in ten more than %s", l.Most.Round(time.Microsecond), l.Usual.Round(time.Microsecond))
}

// watch measures until stop is called.
func watch() (stop func() Lateness) {
	const every = 10 * time.Millisecond
	quit, told := make(chan struct{}), make(chan Lateness)
	go func() {
		var late []time.Duration
		for {
			due := time.Now().Add(every)
			time.Sleep(every)
			late = append(late, time.Since(due))
			select {
			case <-quit:
				slices.Sort(late)
				told <- Lateness{late[len(late)-1], late[len(late)*9/10]}
				return
			default:
			}
		}
	}()
	return func() Lateness { close(quit); return <-told }
}
