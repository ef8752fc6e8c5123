package telemetry

import (
	"context"
	"log/slog"

	"go.opentelemetry.io/otel/trace"
)

// Lines returns a log whose lines about a request name its trace.
func Lines(log *slog.Logger) *slog.Logger { return slog.New(lines{log.Handler()}) }

// lines adds the trace of the context that a line comes with.
type lines struct{ slog.Handler }

// Handle implements [slog.Handler].
func (l lines) Handle(ctx context.Context, r slog.Record) error {
	if at := trace.SpanContextFromContext(ctx); at.IsValid() {
		r = r.Clone()
		r.AddAttrs(slog.String("trace_id", at.TraceID().String()), slog.String("span_id", at.SpanID().String()))
	}
	return l.Handler.Handle(ctx, r)
}

// WithAttrs implements [slog.Handler].
func (l lines) WithAttrs(as []slog.Attr) slog.Handler { return lines{l.Handler.WithAttrs(as)} }

// WithGroup implements [slog.Handler].
func (l lines) WithGroup(name string) slog.Handler { return lines{l.Handler.WithGroup(name)} }
