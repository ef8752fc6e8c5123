package natsstore

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/gabion-go/gabion/contrib/natsmsg/internal/testnats"
	"github.com/gabion-go/gabion/idempotency"
)

// world has the true time, a server that tells it, and a client's clocks, which
// run a little fast or slow.
type world struct {
	true_  time.Duration
	rate   float64 // of the client's monotonic clock
	asleep time.Duration
	there  time.Duration // how long a question takes
	back   time.Duration // how long the answer takes
	shift  time.Duration // the server's clock was set by so much
	err    error
	asked  int
}

func (w *world) read() reading {
	mono := time.Duration(float64(w.true_-w.asleep) * w.rate)
	return reading{mono: mono, wall: mono + w.asleep}
}

func (w *world) ask(context.Context) (time.Time, error) {
	w.asked++
	w.true_ += w.there
	t := time.Unix(0, int64(w.server()))
	w.true_ += w.back
	return t, w.err
}

func (w *world) server() idempotency.Moment { return idempotency.Moment(w.true_ + w.shift) }

func (w *world) clock() *serverClock { return &serverClock{read: w.read, ask: w.ask} }

func TestTrueTimeIsAlwaysInBetween(t *testing.T) {
	for seed := range uint64(200) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		w := &world{true_: time.Hour, rate: 1 + (rnd.Float64()-0.5)/1000}
		c := w.clock()
		if err := c.start(t.Context()); err != nil {
			t.Fatal(err)
		}
		for range 200 {
			w.true_ += time.Duration(rnd.Int64N(int64(5 * time.Second)))
			w.there, w.back = time.Duration(rnd.Int64N(int64(400*time.Millisecond))), time.Duration(rnd.Int64N(int64(400*time.Millisecond)))
			m, err := c.now(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if now := w.server(); m.early > now || m.late < now {
				t.Fatalf("seed %d: it is %v, between %v and %v", seed, now, m.early, m.late)
			}
			if width := m.late.Sub(m.early); width > slowest {
				t.Fatalf("seed %d: known to within %v", seed, width)
			}
		}
	}
}

func TestOneQuickAnswerIsEnoughToStart(t *testing.T) {
	for _, c := range []struct {
		fact string
		took [firstAsks]time.Duration
		want time.Duration // 0 means that it does not start
	}{
		{"the fastest counts", [firstAsks]time.Duration{5, 3, 2, 4, 9}, 2},
		{"a busy moment is passed over", [firstAsks]time.Duration{2 * slowest, 3 * slowest, 7, 2 * slowest, 9}, 7},
		{"the last may be the one", [firstAsks]time.Duration{2 * slowest, 2 * slowest, 2 * slowest, 2 * slowest, 8}, 8},
		{"all too slow", [firstAsks]time.Duration{2 * slowest, 2 * slowest, 2 * slowest, 2 * slowest, 2 * slowest}, 0},
	} {
		w := &world{true_: time.Hour, rate: 1}
		clocks := w.clock()
		ask := clocks.ask
		clocks.ask = func(ctx context.Context) (time.Time, error) {
			w.back = c.took[w.asked]
			return ask(ctx)
		}
		err := clocks.start(t.Context())
		if (err == nil) != (c.want > 0) || err == nil && clocks.last.took != c.want {
			t.Errorf("%s: %v, the answer that counts took %v", c.fact, err, clocks.last.took)
		}
		if err != nil && !errors.Is(err, errSlow) {
			t.Errorf("%s: %v", c.fact, err)
		}
	}
}

func TestServerClock(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		name   string
		do     func(*world)
		asks   int           // because of now
		within time.Duration // how well the time is known
		fails  bool
	}{
		{"a young sample is trusted", func(w *world) { w.true_ += 9 * time.Second }, 0, 25 * ms, false},
		{"an old one is renewed", func(w *world) { w.true_ += 11 * time.Second }, 1, 3 * ms, false},
		{"a renewal that fails costs nothing yet", func(w *world) { w.true_ += 11 * time.Second; w.err = errors.New("down") }, 1, 30 * ms, false},
		{"a renewal that took long is not better", func(w *world) { w.true_ += 11 * time.Second; w.back = 500 * ms }, 1, 30 * ms, false},
		{"without any for a minute there is no time", func(w *world) { w.true_ += 61 * time.Second; w.err = errors.New("down") }, 1, 0, true},
		{"an answer that took long says too little", func(w *world) { w.true_ += 61 * time.Second; w.back = 2 * time.Second }, 1, 0, true},
		{"a machine that slept asks", func(w *world) { w.true_ += time.Hour; w.asleep += time.Hour }, 1, 3 * ms, false},
		{"a server whose clock was set is believed", func(w *world) { w.true_ += 11 * time.Second; w.shift = -time.Hour; w.back = 300 * ms }, 1, 310 * ms, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := &world{true_: time.Hour, rate: 1, there: ms, back: ms}
			k := w.clock()
			if err := k.start(t.Context()); err != nil {
				t.Fatal(err)
			}
			w.asked = 0
			c.do(w)
			m, err := k.now(t.Context())
			if w.asked != c.asks || c.fails != (err != nil) {
				t.Errorf("asked %d times, want %d: %v", w.asked, c.asks, err)
			}
			if now := w.server(); err == nil && (m.early > now || m.late < now || m.late.Sub(m.early) > c.within) {
				t.Errorf("it is %v, between %v and %v: %v", now, m.early, m.late, m.late.Sub(m.early))
			}
		})
	}
}

// What is not known of the time is the holder's: a lease lives its whole length by
// anybody's judgement, also when the answers about the time are as misleading as
// they can be.
func TestNoLeaseEndsEarly(t *testing.T) {
	t.Parallel()
	url := testnats.Serve(t, testnats.Settings{Lazy: true}).ClientURL()
	const lag, lease = 200 * time.Millisecond, 400 * time.Millisecond
	lagging := func(before, after time.Duration) *Store {
		s := mustOpen(t, testnats.Connect(t, url), Options{})
		ask := s.clock.ask
		s.clock.ask = func(ctx context.Context) (time.Time, error) {
			<-time.After(before)
			at, err := ask(ctx)
			<-time.After(after)
			return at, err
		}
		var err error
		for limit := time.Now().Add(patience); ; { // a busy machine may be too slow at first
			s.clock.last, err = s.clock.sample(t.Context())
			if err == nil {
				return s
			}
			if !errors.Is(err, errSlow) || time.Now().After(limit) {
				t.Fatal(err)
			}
		}
	}
	stores := map[string]*Store{"question": lagging(lag, 0), "answer": lagging(0, lag)}
	for holder, a := range stores {
		for other, b := range stores {
			c := claimOf(holder+other, idempotency.GuaranteeReexecute, lease)
			sent := time.Now()
			want(t, a, c, idempotency.DecisionRun)
			for c.Owner[15]++; ; <-time.After(time.Millisecond) {
				got, err := b.Begin(t.Context(), c)
				if err != nil {
					t.Fatal(err)
				}
				if got.Decision == idempotency.DecisionInProgress {
					if got.Left > lease {
						t.Errorf("%v are left of a lease of %v", got.Left, lease)
					}
					continue
				}
				if lived := time.Since(sent); lived < lease {
					t.Errorf("holder's %s lags, other's %s: the lease lived %v", holder, other, lived)
				}
				break
			}
		}
	}
}

func TestSkewIsGivenToTheHolder(t *testing.T) {
	js := testnats.Connect(t, testnats.Serve(t, testnats.Settings{Lazy: true}).ClientURL())
	exact, careful := mustOpen(t, js, Options{}), mustOpen(t, js, Options{Skew: time.Hour})
	c := claimOf("k", idempotency.GuaranteeReexecute, time.Millisecond)
	want(t, exact, c, idempotency.DecisionRun)
	pass(t, exact, c.Lease)
	c.Owner[15]++
	c.Retention = time.Minute
	want(t, careful, c, idempotency.DecisionInProgress)
	want(t, exact, c, idempotency.DecisionRun)
}
