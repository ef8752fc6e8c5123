package gabionpgx

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gabion-go/gabion/policy"
)

// A slowServer reads rows as pgx does, and takes some time for each.
type slowServer struct {
	target
	each time.Duration
}

func (s slowServer) CopyFrom(ctx context.Context, _ pgx.Identifier, _ []string, rows pgx.CopyFromSource) (n int64, err error) {
	for ; rows.Next(); n++ {
		if _, err := rows.Values(); err != nil {
			return n, err
		}
		time.Sleep(s.each)
	}
	return n, rows.Err()
}

// A copy whose time is over is the program's mistake where the rows took most of that time.
func TestWhoTookTheTimeOfACopy(t *testing.T) {
	for _, c := range []struct {
		fact        string
		row, server time.Duration
		mistake     bool
	}{
		{"the source, with each row", 20 * time.Millisecond, time.Millisecond, true},
		{"the source, with one row", time.Second, 0, true},
		{"the source, with a row that comes at the end of that time", 500 * time.Millisecond, 0, true},
		{"the server, with each row", time.Millisecond, 20 * time.Millisecond, false},
		{"the server, with one row", time.Millisecond, time.Second, false},
	} {
		t.Run(c.fact, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
				defer cancel()
				rows := pgx.CopyFromFunc(func() ([]any, error) { time.Sleep(c.row); return []any{1}, nil })
				_, err := copyFrom(ctx, slowServer{each: c.server}, nil, nil, rows)
				e, mistake := errors.AsType[mistaken](err)
				if !errors.Is(err, context.DeadlineExceeded) || mistake != c.mistake || mistake && e.effect != policy.NoEffect {
					t.Errorf("%v, a mistake: %v, want %v", err, mistake, c.mistake)
				}
			})
		})
	}
}
