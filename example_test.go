package gabion_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/classify"
	"github.com/gabion-go/gabion/config"
	"github.com/gabion-go/gabion/policy"
)

// Charge is what a bank answers.
type Charge struct{ ID string }

type Order struct{ ID string }

// flakyBank loses its first answer and keeps keys.
type flakyBank struct {
	calls int
	done  map[string]Charge
}

func (b *flakyBank) Charge(_ context.Context, o Order, key string) (Charge, error) {
	b.calls++
	if _, again := b.done[key]; !again {
		b.done[key] = Charge{ID: "ch_" + o.ID}
		return Charge{}, io.ErrUnexpectedEOF // charged, but the answer is lost
	}
	return b.done[key], nil
}

func Example_readme() {
	ctx, order := context.Background(), Order{ID: "order-7"}
	bank := &flakyBank{done: map[string]Charge{}}

	payments := gabion.New("payments", policy.Policy{
		Timeout: policy.Timeout{Call: 2 * time.Second, Attempt: 500 * time.Millisecond},
		Retry:   policy.Retry{Attempts: 3, Backoff: backoff.Full(50*time.Millisecond, time.Second)},
		Breaker: policy.Breaker{FailureRate: 0.5, SlowCall: 400 * time.Millisecond},
	})

	charge, err := gabion.Do(ctx, payments, func(ctx context.Context) (Charge, error) {
		return bank.Charge(ctx, order, gabion.Key(ctx)) // the same key on every attempt
	}, gabion.WithKey(order.ID)) // a key declares the work safe to repeat

	fmt.Println(charge.ID, err)
	fmt.Println(bank.calls, "calls,", len(bank.done), "charge")
	// Output:
	// ch_order-7 <nil>
	// 2 calls, 1 charge
}

// Every call that fails ends with a *gabion.Error. It says which dependency failed, why,
// and whether the work may have happened.
func ExampleDo() {
	stock := gabion.New("stock", policy.Policy{})
	_, err := gabion.Do(context.Background(), stock, func(context.Context) (int, error) {
		return 0, classify.Transient(errors.New("connection reset"))
	})
	fmt.Println(err)
	fmt.Println(errors.Is(err, policy.NotSafe), gabion.EffectOf(err))
	// Output:
	// stock: not_safe after 1 attempt, may have happened: connection reset
	// true unknown
}

func ExampleDependency_Run() {
	queue := gabion.New("queue", policy.Policy{Safe: true})
	err := queue.Run(context.Background(), func(ctx context.Context) error {
		deadline, _ := ctx.Deadline()
		fmt.Println("attempt", gabion.AttemptNumber(ctx), "has", time.Until(deadline).Round(time.Second))
		return nil
	})
	fmt.Println(err)
	// Output:
	// attempt 1 has 4s
	// <nil>
}

// The body is read after the call. Its slot, timeout and context last until Close.
func ExampleOpen() {
	files := gabion.New("files", policy.Policy{Safe: true})
	body, attempt, err := gabion.Open(context.Background(), files, func(context.Context) (io.Reader, error) {
		return strings.NewReader("a long answer"), nil
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	text, err := io.ReadAll(body)
	attempt.Close(err) // an error here is one more failure of the dependency
	fmt.Println(string(text), err)
	// Output: a long answer <nil>
}

// Work that does not fit into a function begins and settles its attempt itself.
func ExampleBegin() {
	ledger := gabion.New("ledger", policy.Policy{})
	a, err := gabion.Begin(context.Background(), ledger)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer a.Close(nil)
	err = a.Settle(classify.Business(errors.New("account is closed")))
	fmt.Println(err)
	fmt.Println(gabion.EffectOf(err))
	// Output:
	// ledger: not_retryable after 1 attempt: account is closed
	// none
}

func ExampleNew() {
	d := gabion.New("rates", policy.Policy{Retry: policy.Retry{Attempts: 5}})
	fmt.Println(d.Name(), d.Policy().Retry.Attempts, d.Policy().Timeout.Call)
	// Output: rates 5 15s
}

// Make returns the mistakes of a policy as an error. New panics with it.
func ExampleMake() {
	_, err := gabion.Make("rates", policy.Policy{
		Retry:    policy.Retry{Attempts: -3},
		Bulkhead: policy.Bulkhead{Limit: -1},
	})
	fmt.Println(err)
	// Output:
	// retry.attempts: -3 is negative: leave it out for the default
	// bulkhead.limit: off is not possible here: write bulkhead: off
}

func ExampleNewRegistry() {
	payment, _ := policy.Preset("payment")
	deps, err := gabion.NewRegistry(map[string]policy.Policy{"bank": payment, "stock": {}})
	if err != nil {
		fmt.Println(err)
		return
	}
	bank, _ := deps.Get("bank")
	fmt.Println(deps.Names(), bank.Policy().Bulkhead.Limit)
	_, err = deps.Get("bnak")
	fmt.Println(err)
	// Output:
	// [bank stock] 10
	// bnak: unknown_dependency: known are bank, stock
}

// A service reads its file at the start, and again for a reload. A file with mistakes
// changes nothing.
func ExampleRegistry_Reload() {
	read := func(text string) (*config.File, error) { // config.Load, where there is a file
		return config.Parse("gabion.yaml", []byte("version: 1\ndependencies:\n"+text))
	}
	file, err := read("  stock: {timeout: {call: 2s}}")
	if err != nil {
		fmt.Println(err)
		return
	}
	deps, err := gabion.NewRegistry(file.Policies)
	if err != nil {
		fmt.Println(err)
		return
	}
	stock, _ := deps.Get("stock") // ask once, and keep it

	for _, text := range []string{"  stock: {timeout: {call: 5s}}", "  stock: {timeout: {call: 5}}"} {
		file, err := read(text)
		if err == nil {
			err = deps.Reload(file.Policies)
		}
		fmt.Println(stock.Policy().Timeout.Call, err)
	}
	// Output:
	// 5s <nil>
	// 5s gabion.yaml:3:27: stock: timeout.call: "5" has no unit
	//   |   stock: {timeout: {call: 5}}
	//   |                           ^ write 5ms or 5s
}

// A fallback names the reasons that it answers. Here these are all for which a dependency
// can't be used. It never answers while the effect is unknown.
func ExampleDoOr() {
	prices := gabion.New("prices", policy.Policy{})
	breaker, _ := prices.Breaker("")
	breaker.ForceOpen(time.Minute)
	price, err := gabion.DoOr(context.Background(), prices, func(context.Context) (int, error) {
		return 120, nil
	}, gabion.Fallback[int]{
		On:     gabion.Unavailable(),
		Answer: func(context.Context, error) (int, error) { return 100, nil }, // yesterday's
	})
	fmt.Println(price, err, prices.Stats().Fallbacks)
	// Output: 100 <nil> 1
}

func ExampleWithObserver() {
	d := gabion.New("stock", policy.Policy{Safe: true, Retry: policy.Retry{Attempts: 2, Backoff: backoff.Const(time.Millisecond)}},
		gabion.WithObserver(gabion.ObserverFunc(func(_ context.Context, e gabion.Event) { fmt.Println(e) })))
	first := true
	d.Run(context.Background(), func(context.Context) error {
		if first {
			first = false
			return classify.Transient(errors.New("connection reset"))
		}
		return nil
	})
	// Output:
	// attempt_sent #1
	// attempt_settled #1 server
	// waiting for backoff 1ms
	// attempt_sent #2
	// attempt_settled #2 success
	// returned after 2
}

// The kill switch: one attempt per call from now on, everywhere.
func ExampleSetRetries() {
	gabion.SetRetries(false)
	defer gabion.SetRetries(true)
	d := gabion.New("stock", policy.Policy{Safe: true})
	err := d.Run(context.Background(), func(context.Context) error {
		return classify.Transient(errors.New("connection reset"))
	})
	fmt.Println(gabion.ReasonOf(err))
	// Output: retries_off
}

// An operator stops retries for an hour. The event says who did it.
func ExampleDependency_Retries() {
	d := gabion.New("stock", policy.Policy{Safe: true},
		gabion.WithObserver(gabion.ObserverFunc(func(_ context.Context, e gabion.Event) { fmt.Println(e, "by", e.Code) })))
	d.Retries().By("ann").Stop(time.Hour)
	d.Retries().By("bob").Resume()
	// Output:
	// retries_switched retries_off by ann
	// retries_switched by bob
}

// A breaker that is wrong is disabled for an hour; the end needs no reminder.
func ExampleBreaker_By() {
	d := gabion.New("stock", policy.Policy{},
		gabion.WithObserver(gabion.ObserverFunc(func(_ context.Context, e gabion.Event) {
			fmt.Println(e, "by", e.Code, "for", e.Until.Sub(e.At))
		})))
	if b, ok := d.Breaker(""); ok {
		b.By("ann").Disable(time.Hour)
	}
	// Output: breaker_moved closed→disabled by forced by ann for 1h0m0s
}

func ExampleDependency_Stats() {
	d := gabion.New("stock", policy.Policy{})
	d.Run(context.Background(), func(context.Context) error { return nil })
	s := d.Stats()
	fmt.Println(s.Name, s.Main.Breaker.State, s.Bulkhead.InUse, "of", s.Bulkhead.Limit)
	fmt.Println(s.Totals.Attempts, "attempts for", s.Totals.Calls, "calls,", s.Totals.Failures.Of(policy.BreakerOpen), "refused by the breaker")
	// Output:
	// stock closed 0 of 100
	// 1 attempts for 1 calls, 0 refused by the breaker
}

func ExampleDependency_Reload() {
	d := gabion.New("stock", policy.Policy{})
	err := d.Reload(policy.Policy{Retry: policy.Retry{Attempts: -3}})
	fmt.Println(err, "- still", d.Policy().Retry.Attempts)
	// Output: retry.attempts: -3 is negative: leave it out for the default - still 3
}

func ExampleDependency_Breaker() {
	d := gabion.New("stock", policy.Policy{})
	b, _ := d.Breaker("")
	b.ForceOpen(time.Minute)
	err := d.Run(context.Background(), func(context.Context) error { return nil })
	fmt.Println(gabion.ReasonOf(err), gabion.EffectOf(err))
	b.Reset()
	fmt.Println(d.Run(context.Background(), func(context.Context) error { return nil }))
	// Output:
	// breaker_open none
	// <nil>
}

func ExampleWithClassify() {
	d := gabion.New("search", policy.Policy{})
	_, err := gabion.Do(context.Background(), d, func(context.Context) (string, error) {
		return `{"status":"error"}`, nil // a 200 that is a failure
	}, gabion.WithClassify(func(body string, err error) policy.Outcome {
		if strings.Contains(body, "error") {
			return policy.Failed(policy.ClassServer)
		}
		return policy.Outcome{}
	}))
	fmt.Println(err)
	// Output: search: not_safe after 1 attempt, may have happened
}

func ExampleWithLogger() {
	plain := slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
	d := gabion.New("stock", policy.Policy{}, gabion.WithLogger(plain),
		gabion.WithObserver(gabion.ObserverFunc(func(context.Context, gabion.Event) { panic("oops") })))
	fmt.Println(d.Run(context.Background(), func(context.Context) error { return nil }))
	// Output:
	// level=ERROR msg="gabion: observer panicked" dependency=stock panic=oops
	// <nil>
}

func ExampleNewKey() {
	key := gabion.NewKey() // store it with the intent
	fmt.Println(len(key), key[14:15])
	// Output: 36 7
}

// What a batch job asks for can wait.
func ExampleContextWithPriority() {
	ctx := gabion.ContextWithPriority(context.Background(), policy.PriorityLow)
	fmt.Println(gabion.PriorityOf(ctx) == policy.PriorityLow)
	// Output: true
}
