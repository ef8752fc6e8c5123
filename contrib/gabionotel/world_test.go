package gabionotel_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/classify"
	"github.com/gabion-go/gabion/contrib/gabionotel"
	"github.com/gabion-go/gabion/internal/testgolden"
	"github.com/gabion-go/gabion/policy"
)

var errDown = classify.Transient(errors.New("down"))

// exporter keeps the spans that ended, in memory.
type exporter struct {
	*tracetest.InMemoryExporter
	provider *sdktrace.TracerProvider
}

func newExporter(opts ...sdktrace.TracerProviderOption) *exporter {
	m := tracetest.NewInMemoryExporter()
	return &exporter{m, sdktrace.NewTracerProvider(append(opts, sdktrace.WithSyncer(m))...)}
}

// traced makes a dependency whose spans are kept.
func traced(p policy.Policy, opts ...gabion.Option) (*gabion.Dependency, *exporter) {
	x := newExporter()
	return gabion.New("db", p, append(opts, gabion.WithSeed(1), gabion.WithObserver(x.observer()))...), x
}

func (x *exporter) observer() *gabionotel.Observer {
	return gabionotel.New(gabionotel.Config{TracerProvider: x.provider, NoMetrics: true})
}

// every waits exactly this long before each retry.
func every(d time.Duration) backoff.Backoff {
	return backoff.Backoff{Kind: backoff.Constant, Base: d, Cap: d}
}

// walk visits the spans: children after their parents, in the order in which they began.
// Names says how links name a span.
func (x *exporter) walk(visit func(depth string, s *tracetest.SpanStub, names map[trace.SpanID]string)) {
	spans := x.GetSpans()
	slices.SortStableFunc(spans, func(a, b tracetest.SpanStub) int { return a.StartTime.Compare(b.StartTime) })
	names := map[trace.SpanID]string{}
	for i := range spans {
		names[spans[i].SpanContext.SpanID()] = spans[i].Name + " " + value(&spans[i], "gabion.attempt")
	}
	var below func(parent trace.SpanID, depth string)
	below = func(parent trace.SpanID, depth string) {
		for i := range spans {
			if s := &spans[i]; s.Parent.SpanID() == parent {
				visit(depth, s, names)
				below(s.SpanContext.SpanID(), depth+"    ")
			}
		}
	}
	below(trace.SpanID{}, "")
}

// tree writes the spans as text without times and IDs.
func (x *exporter) tree() string {
	var b strings.Builder
	x.walk(func(depth string, s *tracetest.SpanStub, names map[trace.SpanID]string) {
		fmt.Fprintf(&b, "%s%s [%s] %s%s\n", depth, s.Name, s.SpanKind, status(s), attributes(s.Attributes))
		for _, l := range s.Links {
			fmt.Fprintf(&b, "%s  link to %s\n", depth, names[l.SpanContext.SpanID()])
		}
		for _, e := range s.Events {
			fmt.Fprintf(&b, "%s  event %s%s\n", depth, e.Name, attributes(e.Attributes))
		}
	})
	return b.String()
}

// outline is the tree in short, as docs/tracing.md shows it.
func (x *exporter) outline() string {
	var b strings.Builder
	x.walk(func(depth string, s *tracetest.SpanStub, names map[trace.SpanID]string) {
		if number := value(s, "gabion.attempt"); number != "" {
			fmt.Fprintf(&b, "%s%s %s (%s): %s\n", depth, s.Name, number, value(s, "gabion.attempt.kind"), value(s, "gabion.class"))
		} else {
			fmt.Fprintf(&b, "%s%s: %s after %s attempts\n", depth, s.Name, value(s, "gabion.outcome"), value(s, "gabion.attempts"))
		}
		for _, l := range s.Links {
			fmt.Fprintf(&b, "%s  link to %s\n", depth, names[l.SpanContext.SpanID()])
		}
		for _, e := range s.Events {
			fmt.Fprintf(&b, "%s  event %s%s\n", depth, e.Name, attributes(e.Attributes))
		}
	})
	return b.String()
}

// value is an attribute as text, or "".
func value(s *tracetest.SpanStub, key attribute.Key) string {
	for _, a := range s.Attributes {
		if a.Key == key {
			return a.Value.String()
		}
	}
	return ""
}

func status(s *tracetest.SpanStub) string {
	if s.Status.Description == "" {
		return s.Status.Code.String()
	}
	return s.Status.Code.String() + " " + s.Status.Description
}

func attributes(as []attribute.KeyValue) string {
	var b strings.Builder
	for _, a := range as {
		fmt.Fprintf(&b, " %s=%s", strings.TrimPrefix(string(a.Key), "gabion."), a.Value.String())
	}
	return b.String()
}

// want compares the spans with those in testdata.
func (x *exporter) want(t *testing.T, name string) {
	t.Helper()
	file := filepath.Join("testdata", strings.ReplaceAll(strings.ReplaceAll(name, ",", ""), " ", "-")+".txt")
	testgolden.File(t, file, x.tree())
}

// scripted is work that does these steps in turn, by the attempt's number.
func scripted(steps ...func(context.Context) (int, error)) func(context.Context) (int, error) {
	return func(ctx context.Context) (int, error) { return steps[gabion.AttemptNumber(ctx)-1](ctx) }
}

func fails(err error) func(context.Context) (int, error) {
	return func(context.Context) (int, error) { return 0, err }
}

// takes is work that succeeds after a time, unless its context ends before.
func takes(d time.Duration) func(context.Context) (int, error) {
	return func(ctx context.Context) (int, error) {
		select {
		case <-time.After(d):
			return 1, nil
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

// lasts is work that ends with err after a time, unless its context ends before.
func lasts(d time.Duration, err error) func(context.Context) (int, error) {
	work := takes(d)
	return func(ctx context.Context) (int, error) {
		if _, ended := work(ctx); ended != nil {
			return 0, ended
		}
		return 0, err
	}
}
