package m07

import (
	"context"
	"database/sql"
	"log/slog"
	"time"
)

type Lease struct {
	db     *sql.DB
	name   string
	holder string
	ttl    time.Duration
}

// Acquire waits until this process holds the lease.
func (l *Lease) Acquire(ctx context.Context) error {
	backoff := 200 * time.Millisecond
	for {
		ok, err := l.try(ctx)
		if ok {
			return nil
		}
		if err != nil {
			slog.Warn("lease", "name", l.name, "err", err)
		}
		time.Sleep(backoff)
		if backoff < 5*time.Second {
			backoff *= 2
		}
	}
}

func (l *Lease) try(ctx context.Context) (bool, error) {
	res, err := l.db.ExecContext(ctx, `UPDATE leases SET holder = $1, until = now() + $2 * interval '1 second'
		WHERE name = $3 AND (holder = $1 OR until < now())`, l.holder, l.ttl.Seconds(), l.name)
	if err != nil {
		return false, err
	}
	n, err := res.RowsAffected()
	return n == 1, err
}
