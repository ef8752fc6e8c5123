package m02

import (
	"context"
	"database/sql"
	"log/slog"
	"strings"
	"time"
)

type Event struct {
	Account string
	Kind    string
	Points  int
}

type Store struct{ db *sql.DB }

func retryable(err error) bool {
	if err == nil {
		return false
	}
	msg := err.Error()
	for _, s := range []string{"connection reset", "broken pipe", "bad connection", "i/o timeout"} {
		if strings.Contains(msg, s) {
			return true
		}
	}
	return false
}

// Add writes the points of an event. The database is behind a proxy that drops connections now and then.
func (s *Store) Add(ctx context.Context, e Event) error {
	const q = `INSERT INTO events (account, kind, points, at) VALUES ($1, $2, $3, now())`
	var err error
	for i := 1; i <= 3; i++ {
		_, err = s.db.ExecContext(ctx, q, e.Account, e.Kind, e.Points)
		if !retryable(err) {
			return err
		}
		slog.Warn("events: again", "attempt", i, "err", err)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Duration(i*i) * 20 * time.Millisecond):
		}
	}
	return err
}
