package consumer_test

import (
	"container/heap"
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/messages/consumer"
	"github.com/gabion-go/gabion/messages/inbox"
	"github.com/gabion-go/gabion/policy"
)

// A fainting store is away now and then.
type fainting struct {
	idempotency.Store
	away func() bool
}

func (s fainting) Begin(ctx context.Context, c idempotency.Claim) (idempotency.Answer, error) {
	if s.away() {
		return idempotency.Answer{}, errors.New("the store is away")
	}
	return s.Store.Begin(ctx, c)
}

// A source is a broker that keeps messages until they are due, and gives one consumer as many as
// it has room for.
type source struct {
	c     *consumer.Consumer
	work  func(context.Context) error
	count bool // it says how often it has delivered a message

	mu      sync.Mutex // guards all below
	wait    waiters
	working int
	refused map[string]int
	dead    int
	done    []time.Time
	changed chan struct{}
}

type waiter struct {
	due time.Time
	consumer.Message
}

type waiters []waiter

func (w waiters) Len() int           { return len(w) }
func (w waiters) Less(i, j int) bool { return w[i].due.Before(w[j].due) }
func (w waiters) Swap(i, j int)      { w[i], w[j] = w[j], w[i] }
func (w *waiters) Push(x any)        { *w = append(*w, x.(waiter)) }
func (w *waiters) Pop() any {
	last := len(*w) - 1
	x := (*w)[last]
	*w = (*w)[:last]
	return x
}

// run returns when all that were put in are done, or when the time is over.
func (s *source) run(until time.Time) {
	s.changed = make(chan struct{}, 1)
	var all sync.WaitGroup
	defer all.Wait()
	for {
		s.mu.Lock()
		now := time.Now()
		pause := time.Hour
		if s.working == 0 && len(s.wait) == 0 || now.After(until) {
			s.mu.Unlock()
			return
		}
		if len(s.wait) > 0 {
			pause = s.wait[0].due.Sub(now)
		}
		if pause <= 0 {
			n, again := s.c.Room(s.working)
			for ; n > 0 && len(s.wait) > 0 && !s.wait[0].due.After(now); n-- {
				m := heap.Pop(&s.wait).(waiter).Message
				s.working++
				all.Go(func() { s.deliver(m) })
				again = time.Microsecond
			}
			pause = again
		}
		s.mu.Unlock()
		timer := time.NewTimer(min(pause, time.Second))
		select {
		case <-timer.C:
		case <-s.changed:
		}
		timer.Stop()
	}
}

func (s *source) deliver(m consumer.Message) {
	d := s.c.Handle(context.Background(), m, s.work)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.working--
	switch d.Verb {
	case inbox.Ack:
		s.done = append(s.done, time.Now())
	case inbox.DeadLetter:
		s.dead++
	default:
		if d.Cause == inbox.CauseRefused {
			s.refused[m.ID]++
		}
		if s.count {
			m.Delivery++
		}
		m.Again = true
		heap.Push(&s.wait, waiter{time.Now().Add(d.After), m})
	}
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// within is how many were done in a span.
func (s *source) within(from, to time.Time) (n int) {
	for _, at := range s.done {
		if !at.Before(from) && at.Before(to) {
			n++
		}
	}
	return n
}

// After an outage of the store, or of what the work needs, the messages that were delivered during it
// are repeats. They are worked off as fast as there are slots.
func TestAfterAnOutageRedeliveriesAreWorkedOffAtOnce(t *testing.T) {
	const slots, takes = 16, 40 * time.Millisecond
	const capacity = float64(slots) / float64(takes) * float64(time.Second)
	backlog := 100_000
	if testing.Short() {
		backlog = 8_000
	}
	blips := func(since time.Duration) bool { return since < 12*time.Second && since%(2*time.Second) < time.Second }
	long := func(since time.Duration) bool { return since < 2*time.Minute }
	for _, c := range []struct {
		fact     string
		messages int
		base     time.Duration
		breaker  bool
		store    bool // it is the store that is away, and not what the work needs
		counts   bool
		away     func(time.Duration) bool
		back     time.Duration
	}{
		{"the store is away six times", 3_000, 50 * time.Millisecond, true, true, false, blips, 11 * time.Second},
		{"the store is away six times, and no breaker is there", 6_000, 50 * time.Millisecond, false, true, false, blips, 11 * time.Second},
		{"the store is away for long", backlog, 10 * time.Millisecond, true, true, true, long, 2 * time.Minute},
		{"what the work needs is away six times", 6_000, 10 * time.Millisecond, true, false, true, blips, 11 * time.Second},
		{"what the work needs is away for long", backlog, 10 * time.Millisecond, true, false, false, long, 2 * time.Minute},
	} {
		t.Run(c.fact, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begun := time.Now()
				away := func() bool { return c.away(time.Since(begun)) }
				p := policy.Policy{
					Timeout:  policy.Timeout{Call: 10 * time.Second, Attempt: 2 * time.Second},
					Retry:    policy.Retry{Attempts: 10, Backoff: backoff.Exp(c.base, 30*time.Second)},
					Breaker:  policy.Breaker{Off: !c.breaker},
					Bulkhead: policy.Bulkhead{Limit: slots},
				}
				store := fainting{idempotency.NewMemoryStore(0, 0), func() bool { return c.store && away() }}
				k, err := consumer.New(gabion.New("billing", p, gabion.WithSeed(1)), store, consumer.Options{GiveUpAfter: -1, Letters: newShelf(), Inbox: inbox.Options{RunnerConfig: reexecute}})
				if err != nil {
					t.Fatal(err)
				}
				s := &source{c: k, refused: map[string]int{}, count: c.counts, work: func(context.Context) error {
					time.Sleep(takes)
					if !c.store && away() {
						return errors.New("the bank is away")
					}
					return nil
				}}
				for n := range c.messages {
					m := order(n)
					m.Again = true
					if m.Delivery = 0; c.counts {
						m.Delivery = 2
					}
					s.wait = append(s.wait, waiter{begun, m})
				}
				back := begun.Add(c.back)
				s.run(back.Add(time.Duration(float64(c.messages)/capacity*float64(time.Second)) + 40*time.Second))
				time.Sleep(time.Minute) // until claims that the store may have granted unheard are given back
				total, worst := 0, 0
				for _, n := range s.refused {
					total, worst = total+n, max(worst, n)
				}
				from := back.Add(10 * time.Second)
				left := c.messages - len(s.done) + s.within(from, back.Add(time.Hour)) - s.dead
				span := min(time.Duration(float64(left)/capacity*0.9*float64(time.Second)), 10*time.Second)
				got, want := s.within(from, from.Add(span)), int(0.9*capacity*span.Seconds())
				t.Logf("%d done, %d dead, %d refusals, at most %d of one; in the %v after 10 s %d, want %d", len(s.done), s.dead, total, worst, span, got, want)
				if got < want {
					t.Errorf("10 s after the outage %d were done in %v, want %d", got, span, want)
				}
				if worst > 2 {
					t.Errorf("%d refusals for %d messages, %d of one", total, c.messages, worst)
				}
				if len(s.done)+s.dead != c.messages {
					t.Errorf("%d of %d are done, %d letters", len(s.done), c.messages, s.dead)
				}
			})
		})
	}
}
