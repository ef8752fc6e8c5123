package behaviour

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/classify"
	"github.com/gabion-go/gabion/internal/adapter"
	"github.com/gabion-go/gabion/policy"
)

// bothWays writes down what it hears, and leaves sometimes.
type bothWays struct {
	r     *rand.Rand
	log   *[]string
	stays bool
}

// elsewhere marks the context of a call that only holds a slot.
type elsewhere struct{}

func (b *bothWays) Wants(k policy.Kind) bool { return k != policy.KindAttemptSent }

func (b *bothWays) Observe(ctx context.Context, e gabion.Event) {
	if ctx.Value(elsewhere{}) != nil {
		return
	}
	e.Call = 0
	*b.log = append(*b.log, fmt.Sprintf("event %+v %+v", e, e.Numbers))
	b.leave()
}

func (b *bothWays) Tally(ctx context.Context, p adapter.PlainSuccess) {
	if ctx.Value(elsewhere{}) != nil {
		return
	}
	p.Shard = 0
	*b.log = append(*b.log, fmt.Sprintf("tally %+v", p))
	b.leave()
}

func (b *bothWays) leave() {
	switch n := b.r.IntN(60); {
	case b.stays:
	case n == 0:
		runtime.Goexit()
	case n == 1:
		panic("observer")
	}
}

// The plain driver and the serial one come to the same for calls that go wrong in every way, also where observers
// tally, come and go, and leave. A tenant, which means nothing to this policy, makes a call begin in the serial driver.
func TestPlainAndSerialDriverComeToTheSame(t *testing.T) {
	for seed := range uint64(150) {
		plain, serial := goneWrong(t, seed, false), goneWrong(t, seed, true)
		for i := range max(len(plain), len(serial)) {
			if i >= len(plain) || i >= len(serial) || plain[i] != serial[i] {
				at := max(i-6, 0)
				t.Fatalf("seed %d, line %d:\n%q\nand serially\n%q", seed, i, plain[at:min(i+2, len(plain))], serial[at:min(i+2, len(serial))])
			}
		}
	}
}

func goneWrong(t *testing.T, seed uint64, serial bool) (log []string) {
	synctest.Test(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(seed, 7))
		one := func(n int) bool { return r.IntN(n) == 0 }
		p := policy.Policy{
			Safe:     one(2),
			Timeout:  policy.Timeout{Call: 2 * time.Second, Attempt: 300 * time.Millisecond},
			Retry:    policy.Retry{Attempts: 3, Backoff: backoff.Full(20*time.Millisecond, 200*time.Millisecond)},
			Breaker:  policy.Breaker{Window: 3 * time.Second, MinCalls: 10, FailureRate: 0.4, Open: 500 * time.Millisecond},
			Bulkhead: policy.Bulkhead{Limit: 3, Queue: 1, QueueTimeout: 30 * time.Millisecond},
		}
		switch r.IntN(4) {
		case 0:
			p.Retry.Budget = policy.Budget{Floor: 3}
		case 1:
			p.Timeout.Last = time.Second
		}
		opts := []gabion.Option{
			gabion.WithSeed(seed), gabion.WithLogger(slog.New(slog.NewTextHandler(io.Discard, nil))),
			gabion.WithDiscard(func(v any) {
				log = append(log, fmt.Sprint("discard ", v))
				if one(5) {
					panic("discard")
				}
			}),
		}
		if one(4) {
			opts = append(opts, gabion.WithClassify(func(v int, err error) policy.Outcome {
				return policy.Outcome{HasAfter: v%11 == 1, After: 30 * time.Millisecond}
			}))
		}
		d := gabion.New("game", p, opts...)
		see := &bothWays{r: r, log: &log}
		stop := func() {}
		if one(2) {
			stop = d.Observe(see)
		}
		done := make(chan struct{})
		for range 120 {
			time.Sleep(1 + upTo(r, 30*time.Millisecond))
			switch r.IntN(40) {
			case 0:
				stop()
				stop = d.Observe(see)
			case 1:
				stop()
			case 2:
				p.Timeout.Attempt = time.Duration(200+r.IntN(200)) * time.Millisecond
				see.stays = true
				if err := d.Reload(p); err != nil {
					t.Fatal(err)
				}
				see.stays = false
			case 3: // slots that others hold
				for range 1 + r.IntN(3) {
					took := 1 + upTo(r, 200*time.Millisecond)
					go d.Run(context.WithValue(context.Background(), elsewhere{}, true), func(context.Context) error { time.Sleep(took); return nil })
					synctest.Wait()
				}
			}
			go func() {
				defer func() { done <- struct{}{} }()
				oneGoneWrong(d, r, serial, func() {
					stop()
					stop = d.Observe(see)
				}, &log)
			}()
			<-done
		}
		time.Sleep(5 * time.Second)
		nothingHeld(t, d)
		log = append(log, fmt.Sprintf("%+v", d.Stats()))
	})
	return log
}

func oneGoneWrong(d *gabion.Dependency, r *rand.Rand, serial bool, observe func(), log *[]string) {
	say := func(format string, args ...any) { *log = append(*log, fmt.Sprintf(format, args...)) }
	var opts []gabion.CallOption
	add := func(n int, o gabion.CallOption) {
		if r.IntN(n) == 0 {
			opts = append(opts, o)
		}
	}
	add(4, gabion.WithIdempotent())
	add(4, gabion.WithOperation("read"))
	add(9, gabion.WithoutRetry())
	add(9, gabion.WithTimeout(time.Millisecond+upTo(r, 500*time.Millisecond)))
	add(9, gabion.WithPriority(policy.PriorityHigh))
	add(30, gabion.WithTimeout(5))
	add(6, gabion.WithClassify(func(v int, err error) policy.Outcome {
		if r.IntN(15) == 0 {
			panic("classifier")
		}
		return policy.Outcome{NeverSent: v == 5}
	}))
	if serial {
		opts = append(opts, gabion.WithTenant("one"))
	}
	ctx, cancel := context.WithCancel(context.Background())
	if r.IntN(4) == 0 {
		ctx, cancel = context.WithTimeoutCause(ctx, 1+upTo(r, 400*time.Millisecond), errOdd)
	}
	defer cancel()
	var seen []context.Context
	work := func(ctx context.Context) (int, error) {
		seen = append(seen, ctx)
		end, _ := ctx.Deadline()
		say("attempt %d until %v", gabion.AttemptNumber(ctx), time.Until(end))
		took := 1 + upTo(r, 60*time.Millisecond)
		if r.IntN(12) == 0 {
			took *= 10
		}
		if r.IntN(3) == 0 {
			select {
			case <-ctx.Done():
				return 0, context.Cause(ctx)
			case <-time.After(took):
			}
		} else {
			time.Sleep(took)
		}
		v := r.IntN(100)
		switch r.IntN(24) {
		case 0:
			panic("work")
		case 1:
			runtime.Goexit()
		case 2:
			cancel()
			return v, ctx.Err()
		case 3:
			cancel()
		case 4:
			return gabion.Do(ctx, d, func(context.Context) (int, error) { return v, classify.Transient(errOdd) })
		case 5:
			return gabion.Do(ctx, d, func(context.Context) (int, error) { return v, nil })
		case 6:
			observe()
		case 7, 8, 9, 10:
			return v, [...]error{errOdd, classify.Transient(errOdd), classify.Throttled(errOdd, 20*time.Millisecond), classify.NotSent(errOdd), classify.Permanent(errOdd)}[r.IntN(5)]
		}
		return v, nil
	}
	ended := false
	defer func() {
		crash := recover()
		for i, ctx := range seen {
			if ctx.Err() == nil {
				say("attempt %d has a context that goes on", i+1)
			}
		}
		say("left %v, ended %v", crash, ended)
	}()
	var v int
	var err error
	if n := r.IntN(8); n == 1 {
		err = d.Run(ctx, func(ctx context.Context) error { _, err := work(ctx); return err }, opts...)
	} else if n == 0 {
		v, err = gabion.DoOr(ctx, d, work, gabion.Fallback[int]{On: gabion.Unavailable(), Answer: func(context.Context, error) (int, error) { return -1, nil }}, opts...)
	} else {
		v, err = gabion.Do(ctx, d, work, opts...)
	}
	ended = true
	say("did %d %+v, effect %v", v, err, gabion.EffectOf(err))
}
