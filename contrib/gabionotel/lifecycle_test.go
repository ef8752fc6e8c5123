package gabionotel_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/classify"
	"github.com/gabion-go/gabion/contrib/gabionotel"
	"github.com/gabion-go/gabion/gabiontest"
	"github.com/gabion-go/gabion/policy"
)

// An inner call's events must not end the spans of the call around it.
func TestACallInsideAnAttemptHangsBelowIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newExporter()
		o := gabion.WithObserver(x.observer())
		outer, inner := gabion.New("orders", once, o), gabion.New("db", once, o)
		_, err := gabion.Do(t.Context(), outer, func(ctx context.Context) (int, error) {
			for range 2 {
				if _, err := gabion.Do(ctx, inner, takes(time.Second)); err != nil {
					return 0, err
				}
			}
			return 1, nil
		})
		if err != nil {
			t.Error(err)
		}
		x.want(t, "a call inside an attempt")
	})
}

// The events of an unobserved call, or of one that began before, end nothing of a call
// around it.
func TestAnObserverThatComesDuringAnInnerCallEndsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newExporter()
		o := x.observer()
		outer, inner := gabion.New("orders", once, gabion.WithObserver(o)), gabion.New("db", once)
		inner.Observe(new(gabiontest.Recorder)) // so that the inner call has events
		_, err := gabion.Do(t.Context(), outer, func(ctx context.Context) (int, error) {
			return gabion.Do(ctx, inner, func(context.Context) (int, error) {
				inner.Observe(o)
				return 1, nil
			})
		})
		if err != nil {
			t.Error(err)
		}
		x.want(t, "one attempt of orders")
	})
}

// A call that began before, or is not observed to its end, has no span.
func TestObserversComeAndGoDuringACall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newExporter()
		p := once
		p.Retry = retried.Retry
		d := gabion.New("db", p)
		d.Observe(new(gabiontest.Recorder))
		var stop func()
		twice := func(change func()) func(context.Context) (int, error) {
			return scripted(func(context.Context) (int, error) { change(); return 0, errDown }, takes(time.Second))
		}
		gabion.Do(t.Context(), d, twice(func() { stop = d.Observe(x.observer()) }))
		if tree := x.tree(); tree != "" {
			t.Errorf("spans of a call that began before:\n%s", tree)
		}
		gabion.Do(t.Context(), d, twice(func() { stop() }))
		if n := len(x.GetSpans()); n != 0 {
			t.Errorf("%d spans ended after the observer went", n)
		}
		gabiontest.NothingHeld(t, d)
	})
}

// A call whose end is never told must not stay in memory.
func TestACallThatIsNeverToldItsEndIsGarbage(t *testing.T) {
	x := newExporter()
	o, d := x.observer(), gabion.New("db", once)
	const calls = 50
	var mu sync.Mutex
	freed := 0
	for range calls {
		stop := d.Observe(o)
		held := new([1 << 10]byte) // by the caller's context, which that of the call is made of
		runtime.AddCleanup(held, func(struct{}) { mu.Lock(); freed++; mu.Unlock() }, struct{}{})
		gabion.Do(context.WithValue(t.Context(), key{}, held), d, func(ctx context.Context) (int, error) {
			if !trace.SpanFromContext(ctx).IsRecording() {
				t.Error("there is no span")
			}
			stop()
			return 1, nil
		})
	}
	for range 100 {
		runtime.GC()
		mu.Lock()
		done := freed >= calls-1
		mu.Unlock()
		if done {
			return
		}
		runtime.Gosched()
	}
	t.Errorf("%d of %d calls are still in memory", calls-freed, calls)
}

type key struct{}

func TestAnObserverThatIsAttachedTwiceMakesEachSpanOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newExporter()
		o := x.observer()
		d := gabion.New("orders", once, gabion.WithObserver(o), gabion.WithObserver(o))
		gabion.Do(t.Context(), d, func(context.Context) (int, error) { return 1, nil })
		x.want(t, "one attempt of orders")
	})
}

// Two programs' parts may each attach an observer with a provider of its own.
func TestTwoObserversMakeTheirOwnSpans(t *testing.T) {
	never := sdktrace.WithSampler(sdktrace.NeverSample())
	for name, c := range map[string]struct{ first, second *exporter }{
		"both record":            {newExporter(), newExporter()},
		"only the first records": {newExporter(), newExporter(never)},
	} {
		t.Run(name, func(t *testing.T) {
			d := gabion.New("orders", retried, gabion.WithObserver(c.first.observer()), gabion.WithObserver(c.second.observer()))
			if _, err := gabion.Do(t.Context(), d, scripted(fails(errDown), takes(0)), gabion.WithIdempotent()); err != nil {
				t.Fatal(err)
			}
			for i, x := range []*exporter{c.first, c.second} {
				want := 1
				if name == "only the first records" && i == 1 {
					want = 0
				}
				if calls, attempts := len(x.named("orders")), len(x.named("orders attempt")); calls != want || attempts != 2*want {
					t.Errorf("observer %d has %d calls and %d attempts:\n%s", i+1, calls, attempts, x.tree())
				}
			}
		})
	}
}

// Losers end after the call's span has: also those of an observer whose context another one
// covers, and those that are recorded without being sampled.
func TestLosersEndAfterTheirCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second, unsampled := newExporter(), newExporter(), new(ends)
		only := sdktrace.NewTracerProvider(sdktrace.WithSampler(recordOnly{}), sdktrace.WithSpanProcessor(unsampled))
		p := once
		p.Hedge = policy.Hedge{Max: 1, Delay: 50 * time.Millisecond, Percentile: policy.Off}
		for _, observers := range [][]gabion.Option{
			{gabion.WithObserver(first.observer()), gabion.WithObserver(second.observer()), gabion.WithObserver(another{})},
			{gabion.WithObserver(gabionotel.New(gabionotel.Config{TracerProvider: only, NoMetrics: true}))},
		} {
			d := gabion.New("db", p, observers...)
			gabion.Do(t.Context(), d, scripted(takes(time.Second), takes(time.Millisecond)))
			synctest.Wait()
		}
		for who, n := range map[string]int{"first": len(first.GetSpans()), "second": len(second.GetSpans()), "recorded only": unsampled.n} {
			if n != 3 {
				t.Errorf("%s: %d spans have ended, of 3", who, n)
			}
		}
	})
}

// another is a Tracer of another package.
type another struct{}

func (another) Observe(context.Context, gabion.Event) {}
func (another) TraceCall(ctx context.Context, _ gabion.Event) (context.Context, bool) {
	return context.WithValue(ctx, key{}, 1), true
}
func (another) TraceAttempt(ctx context.Context, _ gabion.Event) context.Context {
	return context.WithValue(ctx, key{}, 2)
}

// A hedge whose span begins when its call is over has a span that ends all the same.
func TestAnAttemptMayBeginAfterItsCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newExporter()
		p := once
		p.Hedge = policy.Hedge{Max: 1, Delay: 50 * time.Millisecond, Percentile: policy.Off}
		d := gabion.New("db", p, gabion.WithObserver(slow{}), gabion.WithObserver(x.observer()))
		gabion.Do(t.Context(), d, takes(60*time.Millisecond))
		if n := len(x.named("db")); n != 1 {
			t.Errorf("%d calls have ended when the call has", n)
		}
		time.Sleep(2 * time.Second)
		x.want(t, "an attempt that begins after its call")
		gabiontest.NothingHeld(t, d)
	})
}

// slow takes a second to trace a hedge.
type slow struct{ another }

func (slow) TraceAttempt(ctx context.Context, e gabion.Event) context.Context {
	if e.Hedge {
		time.Sleep(time.Second)
	}
	return ctx
}

type recordOnly struct{ sdktrace.Sampler }

func (recordOnly) ShouldSample(sdktrace.SamplingParameters) sdktrace.SamplingResult {
	return sdktrace.SamplingResult{Decision: sdktrace.RecordOnly}
}

// ends counts the spans that have ended.
type ends struct {
	drop
	n int
}

func (e *ends) OnEnd(sdktrace.ReadOnlySpan) { e.n++ }

// The fallback comes after the call, so the span around it gets the event.
func TestAFallbackIsToldToTheSpanAround(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, x := traced(once)
		ctx, span := x.provider.Tracer("test").Start(t.Context(), "request")
		f := gabion.Fallback[int]{On: gabion.Unavailable(), Answer: func(context.Context, error) (int, error) { return 7, nil }}
		refused := fails(classify.NotSent(classify.Transient(errors.New("refused"))))
		if v, err := gabion.DoOr(ctx, d, refused, f); v != 7 || err != nil {
			t.Error(v, err)
		}
		span.End()
		x.want(t, "a fallback")
	})
}

// What a server decides is an event of the request's span, and counted.
func TestKeysAndMessagesAreToldToTheSpanAround(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newExporter()
		ctx, span := x.provider.Tracer("test").Start(t.Context(), "request")
		r := sdkmetric.NewManualReader()
		o := gabionotel.New(gabionotel.Config{TracerProvider: x.provider, MeterProvider: sdkmetric.NewMeterProvider(sdkmetric.WithReader(r))})
		o.Observe(ctx, gabion.Event{Kind: policy.KindKeyDecided, Code: "replay", Dependency: "orders"})
		o.Observe(ctx, gabion.Event{Kind: policy.KindMessageDisposed, Code: "dead_letter/mismatch"})
		span.End()
		x.want(t, "keys and messages")
		got := strings.Join(read(t, r), "\n")
		if want := "gabion.idempotency dependency=orders result=replay 1\ngabion.messages reason=mismatch result=dead_letter 1"; got != want {
			t.Errorf("the metrics are\n%s\nwant\n%s", got, want)
		}
	})
}

// Calls and observers come and go at once; each span that a complete call began has ended.
func TestAStormWithObserversThatComeAndGo(t *testing.T) {
	x := newExporter()
	p := policy.Policy{
		Safe: true, Breaker: policy.Breaker{Off: true}, Retry: policy.Retry{Backoff: every(10 * time.Microsecond), Budget: policy.Budget{Off: true}, Hold: policy.Off},
		Hedge: policy.Hedge{Max: 2, Delay: 100 * time.Microsecond, Percentile: policy.Off},
	}
	d := gabion.New("db", p)
	var callers, others sync.WaitGroup
	done := make(chan struct{})
	others.Go(func() {
		o := x.observer()
		for {
			select {
			case <-done:
				return
			default:
				stop := d.Observe(o)
				runtime.Gosched()
				stop()
			}
		}
	})
	for range 4 {
		callers.Go(func() {
			for i := range 200 {
				_, a, _ := gabion.Open(t.Context(), d, func(ctx context.Context) (int, error) {
					if gabion.AttemptNumber(ctx) < 3 {
						return 0, errDown
					}
					return 1, nil
				})
				if a != nil && i%2 == 0 {
					a.Close(errDown)
				} else if a != nil {
					a.Close(nil)
				}
			}
		})
	}
	callers.Wait()
	close(done)
	others.Wait()
	synctestless(t, d)
	for _, s := range x.GetSpans() {
		if s.EndTime.IsZero() {
			t.Errorf("a span without its end: %s", s.Name)
		}
	}
}

// synctestless waits for losers that are still out, without a bubble.
func synctestless(t *testing.T, d *gabion.Dependency) {
	for range 10_000 {
		if s := d.Stats(); s.Bulkhead.InUse == 0 {
			break
		}
		runtime.Gosched()
	}
	gabiontest.NothingHeld(t, d)
}

func TestWithoutTracesThereAreNone(t *testing.T) {
	x := newExporter()
	o := gabionotel.New(gabionotel.Config{TracerProvider: x.provider, NoTraces: true, NoMetrics: true})
	d := gabion.New("db", once, gabion.WithObserver(o))
	gabion.Do(t.Context(), d, func(ctx context.Context) (int, error) {
		if trace.SpanFromContext(ctx).SpanContext().IsValid() {
			t.Error("there is a span")
		}
		return 1, nil
	})
	if err := o.Close(); err != nil || x.tree() != "" {
		t.Error(err, x.tree())
	}
}
