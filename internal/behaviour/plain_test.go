package behaviour

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/classify"
	"github.com/gabion-go/gabion/policy"
)

// A call that nothing observes goes in a straight line, and one that is observed through the loop of its
// driver. The same calls of both come to the same.
func TestTheStraightLineComesToTheSame(t *testing.T) {
	for seed := range uint64(60) {
		straight := played(t, seed)
		looped := played(t, seed, gabion.WithObserver(gabion.ObserverFunc(func(context.Context, gabion.Event) {})))
		for i := range straight {
			if i >= len(looped) || straight[i] != looped[i] {
				t.Fatalf("seed %d, call %d came to\n%s\nand through the loop to\n%s", seed, i, straight[i], slices.Concat(looped, []string{"nothing"})[i])
			}
		}
	}
}

// played makes calls of all kinds, and returns what each came to and what is known at the end.
func played(t *testing.T, seed uint64, opts ...gabion.Option) (log []string) {
	synctest.Test(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(seed, 2))
		p := policy.Policy{
			Safe:     seed%2 == 0,
			Timeout:  policy.Timeout{Call: 2 * time.Second, Attempt: 300 * time.Millisecond},
			Retry:    policy.Retry{Attempts: 3, Backoff: backoff.Full(20*time.Millisecond, 200*time.Millisecond)},
			Breaker:  policy.Breaker{Window: 3 * time.Second, MinCalls: 10, FailureRate: 0.4, Open: 500 * time.Millisecond},
			Bulkhead: policy.Bulkhead{Limit: 2},
		}
		switch seed % 5 {
		case 0:
			p.Bulkhead = policy.Bulkhead{Off: true}
		case 1:
			p.Retry.Budget = policy.Budget{Floor: 3}
		case 2:
			p.Breaker = policy.Breaker{Off: true}
		}
		d := gabion.New("game", p, append(opts, gabion.WithSeed(seed), gabion.WithDiscard(func(any) { r.IntN(2) }))...)
		for range 150 {
			time.Sleep(upTo(r, 40*time.Millisecond))
			log = append(log, playedCall(d, r))
		}
		log = append(log, fmt.Sprintf("%+v", d.Stats()))
	})
	return log
}

// upTo is a time that hardly ever ends in the same instant as another.
func upTo(r *rand.Rand, most time.Duration) time.Duration {
	return time.Duration(r.Int64N(int64(most)))
}

var errOdd = errors.New("odd")

func playedCall(d *gabion.Dependency, r *rand.Rand) (log string) {
	var opts []gabion.CallOption
	add := func(n int, o gabion.CallOption) {
		if r.IntN(n) == 0 {
			opts = append(opts, o)
		}
	}
	add(4, gabion.WithKey("key"))
	add(4, gabion.WithIdempotent())
	add(4, gabion.WithOperation("read"))
	add(9, gabion.WithoutRetry())
	add(9, gabion.WithTimeout(time.Millisecond+upTo(r, 500*time.Millisecond)))
	add(9, gabion.WithPriority(policy.PriorityHigh))
	add(4, gabion.WithClassify(func(v int, err error) policy.Outcome {
		if v%7 == 3 && err == nil {
			return policy.Outcome{Class: policy.ClassServer, HasAfter: v%2 == 0, After: 50 * time.Millisecond}
		}
		return policy.Outcome{HasAfter: v%11 == 1, After: 30 * time.Millisecond}
	}))
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	good := 1 + r.IntN(12)
	work := func(ctx context.Context) (int, error) {
		end, _ := ctx.Deadline()
		log += fmt.Sprint("attempt ", gabion.AttemptNumber(ctx), " until ", time.Until(end))
		if r.IntN(2) == 0 {
			log += gabion.Key(ctx)
		}
		took := upTo(r, 60*time.Millisecond)
		if r.IntN(20) == 0 {
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
		switch r.IntN(good) {
		case 0:
			return v, [...]error{errOdd, classify.Transient(errOdd), classify.Throttled(errOdd, 20*time.Millisecond), classify.NotSent(errOdd), classify.Permanent(errOdd)}[r.IntN(5)]
		case 1:
			switch r.IntN(8) {
			case 0:
				panic("work")
			case 1:
				cancel()
				return v, ctx.Err()
			case 2:
				return gabion.Do(ctx, d, func(context.Context) (int, error) { return v, classify.Transient(errOdd) })
			case 3:
				return gabion.Do(ctx, d, func(context.Context) (int, error) { return v, nil })
			}
		}
		return v, nil
	}
	defer func() {
		if crash := recover(); crash != nil {
			log += fmt.Sprint(" panic ", crash)
		}
	}()
	switch r.IntN(6) {
	case 0:
		err := d.Run(ctx, func(ctx context.Context) error { _, err := work(ctx); return err }, opts...)
		return log + fmt.Sprint(" ran ", err)
	case 1:
		v, a, err := gabion.Open(ctx, d, work, opts...)
		if a != nil {
			time.Sleep(upTo(r, 30*time.Millisecond))
			a.Close(nil)
		}
		return log + fmt.Sprint(" opened ", v, err)
	}
	v, err := gabion.Do(ctx, d, work, opts...)
	return log + fmt.Sprintf(" did %d %+v", v, err)
}
