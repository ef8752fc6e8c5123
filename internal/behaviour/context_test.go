package behaviour

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/policy"
)

// twins are a context under test and the standard library's that it must be like.
type twins struct {
	how      string
	got, std context.Context
	stop     [2]func()
	fired    *[2]atomic.Int32 // of an AfterFunc
}

// family is an attempt's context with all that was derived from it, beside the
// same made of context.WithDeadlineCause.
type family struct {
	t      *testing.T
	cancel context.CancelCauseFunc // the caller's
	all    []*twins
	trace  []string
}

type colour struct{}

var errTired = errors.New("the caller is tired")

const attemptLimit = 100 * time.Millisecond

// compare asks every pair. Done arms the context under test, so half of the
// sequences never ask for it.
func (f *family) compare(done bool) {
	f.t.Helper()
	synctest.Wait()
	for i, p := range f.all {
		say := func(what string, got, std any) {
			if got != std {
				f.t.Fatalf("after %v: %s of %d (%s) is %v, the standard library's %v", f.trace, what, i, p.how, got, std)
			}
		}
		say("Err", p.got.Err(), p.std.Err())
		say("Cause", context.Cause(p.got), context.Cause(p.std))
		say("Value", p.got.Value(colour{}), p.std.Value(colour{}))
		a, aok := p.got.Deadline()
		b, bok := p.std.Deadline()
		say("Deadline", aok, bok)
		if !a.Equal(b) {
			say("Deadline", a, b)
		}
		if done {
			say("Done", closed(p.got), closed(p.std))
		}
		if p.fired != nil {
			say("AfterFunc", p.fired[0].Load(), p.fired[1].Load())
		}
	}
}

func closed(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return true
	default:
		return false
	}
}

// derive makes a child of both of a pair.
func (f *family) derive(p *twins, how byte) {
	c := &twins{}
	each := func(name string, make func(context.Context) (context.Context, func())) {
		c.how = name + " of " + p.how
		c.got, c.stop[0] = make(p.got)
		c.std, c.stop[1] = make(p.std)
	}
	switch how % 8 {
	case 0:
		each("WithCancel", func(ctx context.Context) (context.Context, func()) {
			ctx, cancel := context.WithCancel(ctx)
			return ctx, cancel
		})
	case 1:
		each("WithCancelCause", func(ctx context.Context) (context.Context, func()) {
			ctx, cancel := context.WithCancelCause(ctx)
			return ctx, func() { cancel(errTired) }
		})
	case 2:
		each("WithTimeout 50ms", func(ctx context.Context) (context.Context, func()) {
			ctx, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
			return ctx, cancel
		})
	case 3:
		each("WithTimeout 1h", func(ctx context.Context) (context.Context, func()) {
			ctx, cancel := context.WithTimeout(ctx, time.Hour)
			return ctx, cancel
		})
	case 4:
		each("WithValue", func(ctx context.Context) (context.Context, func()) {
			return context.WithValue(ctx, colour{}, "red"), func() {}
		})
	case 5:
		each("WithoutCancel", func(ctx context.Context) (context.Context, func()) {
			return context.WithoutCancel(ctx), func() {}
		})
	case 6:
		c.fired = new([2]atomic.Int32)
		i := 0
		each("AfterFunc", func(ctx context.Context) (context.Context, func()) {
			fired := &c.fired[i]
			i++
			stop := context.AfterFunc(ctx, func() { fired.Add(1) })
			return ctx, func() { stop() }
		})
	case 7:
		each("custom", func(ctx context.Context) (context.Context, func()) { return custom{ctx}, func() {} })
	}
	f.all = append(f.all, c)
}

// custom hides what kind of context it wraps.
type custom struct{ context.Context }

// play runs a sequence: per byte, the low three bits say what, the others with
// whom.
func (f *family) play(ops []byte) {
	for _, op := range ops {
		who := f.all[int(op>>3)%len(f.all)]
		switch op & 7 {
		case 0, 1:
			f.derive(who, op>>3)
		case 2:
			who.stop[0]()
			who.stop[1]()
		case 3:
			time.Sleep(10 * time.Millisecond)
		case 4:
			time.Sleep(60 * time.Millisecond)
		case 5:
			if op>>3 == 0 {
				f.cancel(errTired)
			}
		}
		f.trace = append(f.trace, fmt.Sprintf("%d/%d", op&7, op>>3))
		f.compare(op&7 == 6)
	}
}

// lifetime plays one half of a sequence inside the attempt, the other after it.
func lifetime(t *testing.T, ops []byte) {
	synctest.Test(t, func(t *testing.T) {
		if len(ops) > 60 {
			ops = ops[:60]
		}
		inside := ops[:len(ops)/2]
		parent, cancel := context.WithCancelCause(context.WithValue(context.Background(), colour{}, "blue"))
		defer cancel(nil)
		limit := policy.Timeout{Attempt: attemptLimit, Call: time.Hour}
		switch {
		case len(ops)%3 == 1:
			limit.Attempt = policy.Off
			limit.Call = policy.Off
		case len(ops)%3 == 2: // the caller's deadline is nearer than the attempt's
			p, stop := context.WithTimeout(parent, 50*time.Millisecond)
			defer stop()
			parent = p
		}
		d := gabion.New("db", policy.Policy{Timeout: limit, Breaker: policy.Breaker{ProbeTimeout: time.Hour, Window: 2 * time.Hour}})
		f := &family{t: t, cancel: cancel}
		var stop context.CancelFunc
		d.Run(parent, func(ctx context.Context) error {
			var std context.Context
			if limit.Attempt > 0 {
				std, stop = context.WithDeadlineCause(parent, time.Now().Add(attemptLimit), policy.AttemptTimeout)
			} else {
				std, stop = context.WithCancel(parent)
			}
			f.all = []*twins{{how: "attempt", got: ctx, std: std, stop: [2]func(){func() {}, func() {}}}}
			f.play(inside)
			return nil
		}, gabion.WithoutRetry())
		stop()
		f.compare(false)
		f.play(ops[len(ops)/2:])
		f.compare(true)
		for _, p := range f.all {
			p.stop[0]()
			p.stop[1]()
		}
		time.Sleep(2 * time.Hour)
	})
}

// Whatever is done with an attempt's context, it answers as the standard
// library's would, before and after the attempt's end.
func TestAttemptContextIsLikeTheStandardLibrarys(t *testing.T) {
	n := 3000
	if testing.Short() {
		n = 300
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range n {
		ops := make([]byte, 1+r.IntN(40))
		for i := range ops {
			ops[i] = byte(r.Uint32())
		}
		lifetime(t, ops)
	}
}

func FuzzAttemptContext(f *testing.F) {
	f.Add([]byte{0, 8, 16, 3, 4, 6, 2, 6})
	f.Add([]byte{4, 4, 0, 6, 5, 6, 48, 56})
	f.Fuzz(lifetime)
}

// After the attempt everybody sees Canceled, also who first asks when the deadline
// has passed as well.
func TestAfterTheAttemptEverybodySeesCanceled(t *testing.T) {
	for _, touched := range []bool{false, true} {
		for _, late := range []time.Duration{0, time.Hour} {
			t.Run(fmt.Sprintf("done asked before=%v asked %s later", touched, late), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					d := gabion.New("db", policy.Policy{})
					var kept context.Context
					d.Run(t.Context(), func(ctx context.Context) error {
						kept = ctx
						if touched {
							ctx.Done()
						}
						return nil
					})
					time.Sleep(late)
					if err := kept.Err(); err != context.Canceled {
						t.Errorf("Err is %v", err)
					}
					if err := context.Cause(kept); err != context.Canceled {
						t.Errorf("Cause is %v", err)
					}
					<-kept.Done()
				})
			})
		}
	}
}

// Children hang in the tree of the attempt's context: none costs a goroutine.
func TestChildrenOfAnAttemptCostNoGoroutine(t *testing.T) {
	d := gabion.New("db", policy.Policy{})
	d.Run(t.Context(), func(ctx context.Context) error {
		before := runtime.NumGoroutine()
		for range 100 {
			a, stop := context.WithCancel(ctx)
			defer stop()
			b, stop := context.WithTimeout(context.WithValue(a, colour{}, "red"), time.Minute)
			defer stop()
			defer context.AfterFunc(b, func() {})()
		}
		if now := runtime.NumGoroutine(); now > before+50 { // a few may be of something else
			t.Errorf("%d goroutines with 300 children, %d before", now, before)
		}
		return nil
	})
}

// Work that fans out, as with an errgroup: the first failure stops the others, and
// the attempt's deadline stops all.
func TestWorkThatFansOutEndsWithItsAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := gabion.New("db", policy.Policy{Timeout: policy.Timeout{Attempt: time.Second}})
		fan := func(ctx context.Context, failing error) error {
			ctx, cancel := context.WithCancelCause(ctx)
			defer cancel(nil)
			var wg sync.WaitGroup
			for i := range 10 {
				wg.Go(func() {
					if i == 3 && failing != nil {
						cancel(failing)
						return
					}
					<-ctx.Done()
				})
			}
			wg.Wait()
			return context.Cause(ctx)
		}
		start := time.Now()
		err := d.Run(t.Context(), func(ctx context.Context) error { return fan(ctx, errPermanent) })
		wantReason(t, err, policy.NotRetryable)
		wantElapsed(t, start, 0)
		err = d.Run(t.Context(), func(ctx context.Context) error { return fan(ctx, nil) })
		wantElapsed(t, start, time.Second)
		if !errors.Is(err, policy.AttemptTimeout) {
			t.Errorf("%v does not name the attempt's timeout", err)
		}
	})
}

// Many goroutines that ask at once get the same answer.
func TestAnAttemptsContextIsSafeForConcurrentUse(t *testing.T) {
	d := gabion.New("db", policy.Policy{Timeout: policy.Timeout{Attempt: time.Millisecond, Call: time.Minute, Strict: true}})
	for range 50 {
		d.Run(t.Context(), func(ctx context.Context) error {
			var wg sync.WaitGroup
			var first atomic.Pointer[<-chan struct{}]
			for range 8 {
				wg.Go(func() {
					for ctx.Err() == nil {
						gabion.Key(ctx)
					}
					done := ctx.Done()
					if !first.CompareAndSwap(nil, &done) && *first.Load() != done {
						t.Error("two channels of one context")
					}
					if cause := context.Cause(ctx); cause != error(policy.AttemptTimeout) {
						t.Errorf("the cause is %v", cause)
					}
				})
			}
			wg.Wait()
			return ctx.Err()
		})
	}
}
