package telemetry

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"
)

func TestAFlushIsBounded(t *testing.T) {
	for _, c := range []struct {
		fact    string
		left    time.Duration
		failing bool
		want    time.Duration
	}{
		{"much is left", time.Hour, false, flushTime},
		{"little is left", 200 * time.Millisecond, false, 200 * time.Millisecond},
		{"nothing could be sent before", time.Hour, true, flushTry},
	} {
		t.Run(c.fact, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				silent := func(ctx context.Context) error {
					<-ctx.Done()
					return ctx.Err()
				}
				all := &Telemetry{failing: outage{log: slog.New(slog.DiscardHandler)}, shutdown: []func(context.Context) error{silent, silent}}
				if c.failing {
					all.failing.sent(errors.New("refused"))
				}
				begun := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), c.left)
				defer cancel()
				if all.Flush(ctx); time.Since(begun) != c.want || !all.failing.now() {
					t.Errorf("took %v, want %v", time.Since(begun), c.want)
				}
			})
		})
	}
}
