package m03

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"log/slog"
	"time"
)

var errDayBusy = errors.New("day is being closed elsewhere")

type ledgerCloser struct{ db *sql.DB }

const (
	sqlDayLock   = `SELECT pg_try_advisory_lock(hashtext($1))`
	sqlDayUnlock = `SELECT pg_advisory_unlock(hashtext($1))`
	sqlDayClose  = `UPDATE ledger SET closed = true WHERE day = $1 AND NOT closed`
)

func (l *ledgerCloser) CloseDay(ctx context.Context, day string) error {
	var got bool
	// WRONG: a session lock taken through the pool; the unlock lands on another connection, the lock stays with an idle one and the day can never be closed again
	if err := l.db.QueryRowContext(ctx, sqlDayLock, day).Scan(&got); err != nil {
		return fmt.Errorf("lock %s: %w", day, err)
	}
	if !got {
		return errDayBusy
	}
	defer func() {
		uctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*time.Second)
		defer cancel()
		if _, err := l.db.ExecContext(uctx, sqlDayUnlock, day); err != nil {
			slog.ErrorContext(ctx, "unlock day", "day", day, "err", err)
		}
	}()
	if _, err := l.db.ExecContext(ctx, sqlDayClose, day); err != nil {
		return fmt.Errorf("close %s: %w", day, err)
	}
	return nil
}

// RIGHT
func (l *ledgerCloser) CloseDayPinned(ctx context.Context, day string) error {
	conn, err := l.db.Conn(ctx)
	if err != nil {
		return fmt.Errorf("conn: %w", err)
	}
	defer conn.Close()
	// Registered before the lock is asked for: a cancelled try may have got it all the same.
	defer func() {
		uctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*time.Second)
		defer cancel()
		if _, err := conn.ExecContext(uctx, sqlDayUnlock, day); err != nil {
			slog.ErrorContext(ctx, "unlock day, dropping connection", "day", day, "err", err)
			_ = conn.Raw(func(any) error { return driver.ErrBadConn })
		}
	}()
	var got bool
	if err := conn.QueryRowContext(ctx, sqlDayLock, day).Scan(&got); err != nil {
		return fmt.Errorf("lock %s: %w", day, err)
	}
	if !got {
		return errDayBusy
	}
	if _, err := conn.ExecContext(ctx, sqlDayClose, day); err != nil {
		return fmt.Errorf("close %s: %w", day, err)
	}
	return nil
}
