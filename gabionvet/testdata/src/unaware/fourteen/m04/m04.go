package m04

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"time"
)

type usageInvoicer interface {
	// Invoice bills the usage of [from, to); key deduplicates at the provider for 24 hours.
	Invoice(ctx context.Context, key, account string, from, to time.Time) error
}

type meteredAccount struct {
	ID        string
	CreatedAt time.Time
}

type meterBiller struct {
	db  *sql.DB
	inv usageInvoicer
}

func (m *meterBiller) BillAccount(ctx context.Context, a meteredAccount, until time.Time) error {
	from, err := m.billedThrough(ctx, a.ID)
	// WRONG: any database error is taken for "never billed", so one failed SELECT invoices the customer again from the day he signed up
	if err != nil {
		slog.InfoContext(ctx, "no billing mark, starting at signup", "account", a.ID, "err", err)
		from = a.CreatedAt
	}
	return m.invoiceAndMark(ctx, a, from, until)
}

// RIGHT
func (m *meterBiller) BillAccountStrict(ctx context.Context, a meteredAccount, until time.Time) error {
	from, err := m.billedThrough(ctx, a.ID)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		slog.InfoContext(ctx, "no billing mark, starting at signup", "account", a.ID)
		from = a.CreatedAt
	case err != nil:
		return fmt.Errorf("billing mark of %s: %w", a.ID, err)
	}
	return m.invoiceAndMark(ctx, a, from, until)
}

func (m *meterBiller) billedThrough(ctx context.Context, id string) (t time.Time, err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	err = m.db.QueryRowContext(ctx, `SELECT billed_through FROM billing_marks WHERE account = $1`, id).Scan(&t)
	return t, err
}

func (m *meterBiller) invoiceAndMark(ctx context.Context, a meteredAccount, from, until time.Time) error {
	if !from.Before(until) {
		return nil
	}
	key := fmt.Sprintf("usage/%s/%d", a.ID, from.Unix())
	if err := m.inv.Invoice(ctx, key, a.ID, from, until); err != nil {
		return fmt.Errorf("invoice %s: %w", a.ID, err)
	}
	_, err := m.db.ExecContext(ctx, `INSERT INTO billing_marks (account, billed_through) VALUES ($1, $2)
		ON CONFLICT (account) DO UPDATE SET billed_through = EXCLUDED.billed_through`, a.ID, until)
	return err
}
