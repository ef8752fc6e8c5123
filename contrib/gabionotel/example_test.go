package gabionotel_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"go.opentelemetry.io/otel/baggage"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/classify"
	"github.com/gabion-go/gabion/contrib/gabionotel"
	"github.com/gabion-go/gabion/gabionhttp"
	"github.com/gabion-go/gabion/policy"
)

// A call that fails once and then works, and its spans in the order in which they ended.
func ExampleNew() {
	spans := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans)) // a program sets its own with otel.SetTracerProvider

	payments := gabion.New("payments", policy.Policy{Retry: policy.Retry{Backoff: backoff.Const(0)}},
		gabion.WithObserver(gabionotel.New(gabionotel.Config{TracerProvider: provider})))
	gabion.Do(context.Background(), payments, func(ctx context.Context) (string, error) {
		key := gabion.Key(ctx) // what the bank gets, the same on both attempts
		if gabion.AttemptNumber(ctx) == 1 {
			return "", classify.Transient(errors.New("connection reset"))
		}
		return "charged " + key, nil
	}, gabion.WithOperation("charge"), gabion.WithKey("order-7"))

	for _, s := range spans.GetSpans() {
		fmt.Println(s.Name, s.SpanKind, s.Status.Code)
	}
	// Output:
	// payments charge attempt client Error
	// payments charge attempt client Unset
	// payments charge internal Unset
}

// A client whose requests carry the traceparent of their attempt.
func ExampleTransport() {
	payments := gabion.New("payments", policy.Policy{}, gabion.WithObserver(gabionotel.New(gabionotel.Config{})))
	client := &http.Client{Transport: &gabionhttp.Transport{
		Dependency: payments,
		Base:       &gabionotel.Transport{Propagator: propagation.TraceContext{}},
	}}
	_ = client // use it as any other
	// Output:
}

// A server gives its work no more time than its caller has.
func ExampleWithDeadline() {
	member, _ := baggage.NewMemberRaw(gabionotel.DeadlineMember, "0") // a caller that has none left
	bag, _ := baggage.New(member)

	ctx, cancel := gabionotel.WithDeadline(baggage.ContextWithBaggage(context.Background(), bag), 0)
	defer cancel()
	fmt.Println(context.Cause(ctx))
	// Output: gabionotel: the caller's time is over: context deadline exceeded
}
