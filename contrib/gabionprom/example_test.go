package gabionprom_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/contrib/gabionprom"
	"github.com/gabion-go/gabion/gabionslog"
	"github.com/gabion-go/gabion/messages/deadletter"
	"github.com/gabion-go/gabion/policy"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// A program declares its dependencies, and its metrics with them. promhttp.Handler serves
// what is registered.
func ExampleNew() {
	registry, err := gabion.NewRegistry(map[string]policy.Policy{"payments": {}})
	if err != nil {
		fmt.Println(err)
		return
	}
	metrics := gabionprom.New(gabionprom.Config{Registry: registry})
	server := prometheus.NewRegistry()
	server.MustRegister(metrics)

	payments, _ := registry.Get("payments")
	payments.Run(context.Background(), func(context.Context) error { return nil }, gabion.WithOperation("charge"))

	fmt.Println(testutil.GatherAndCompare(server, strings.NewReader(`
# HELP gabion_calls_total Calls that have ended, by outcome.
# TYPE gabion_calls_total counter
gabion_calls_total{dependency="payments",operation="charge",outcome="ok"} 1
`), "gabion_calls_total"))
	// Output: <nil>
}

// Durations get the trace of their call. This is how it looks with OpenTelemetry.
func ExampleConfig_exemplar() {
	type spanContext struct{ TraceID, Sampled string }
	spanOf := func(context.Context) spanContext { return spanContext{"4bf92f3577b34da6", "yes"} } // trace.SpanContextFromContext

	metrics := gabionprom.New(gabionprom.Config{Exemplar: func(ctx context.Context) prometheus.Labels {
		if span := spanOf(ctx); span.Sampled == "yes" {
			return prometheus.Labels{"trace_id": span.TraceID}
		}
		return nil
	}})
	d := gabion.New("payments", policy.Policy{}, gabion.WithObserver(metrics))
	fmt.Println(d.Run(context.Background(), func(context.Context) error { return nil }))
	// Output: <nil>
}

// observers tells several observers, where one is asked for.
type observers []gabion.Observer

func (all observers) Observe(ctx context.Context, e gabion.Event) {
	for _, o := range all {
		o.Observe(ctx, e)
	}
}

// What a full store of dead letters drops is logged and counted before it is gone.
func ExampleMetrics_letters() {
	ctx := context.Background()
	log := slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey || a.Key == "oldest" || a.Key == "why" {
			return slog.Attr{}
		}
		return a
	}}))
	metrics := gabionprom.New(gabionprom.Config{})
	store, err := deadletter.NewMemory(deadletter.Options{
		MaxLetters: 1000, Overflow: deadletter.DropOldest,
		Stream: observers{metrics, &gabionslog.Observer{Logger: log}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for n := range 1003 {
		key := fmt.Sprint(n)
		if err := store.Put(ctx, deadletter.Letter{ID: deadletter.LetterID("billing", key, nil), Group: "billing", Key: key}); err != nil {
			fmt.Println(err)
		}
	}
	fmt.Println(testutil.CollectAndCompare(metrics, strings.NewReader(`
# HELP gabion_dead_letters_lost_total Dead letters that a full store removed although they waited.
# TYPE gabion_dead_letters_lost_total counter
gabion_dead_letters_lost_total{dependency="billing"} 3
`), "gabion_dead_letters_lost_total"))
	// Output:
	// level=WARN msg="gabion: letters_lost" dependency=billing count=1 bytes=40
	// <nil>
}
