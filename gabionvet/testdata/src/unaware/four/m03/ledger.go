// Package p03 keeps the ledger of customer wallets.
package m03

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
)

var ErrNotEnough = errors.New("not enough money in the wallet")

type Entry struct {
	Wallet int64
	Cents  int64
	Text   string
}

type Ledger struct {
	db  *sql.DB
	log *slog.Logger
}

func New(db *sql.DB, log *slog.Logger) *Ledger { return &Ledger{db: db, log: log} }

// Move takes money from one wallet and puts it into another.
func (l *Ledger) Move(ctx context.Context, from, to, cents int64, text string) error {
	return l.atomically(ctx, func(tx *sql.Tx) error {
		var balance int64
		err := tx.QueryRowContext(ctx, `SELECT cents FROM wallets WHERE id = $1 FOR UPDATE`, from).Scan(&balance)
		if err != nil {
			return fmt.Errorf("wallet %d: %w", from, err)
		}
		if balance < cents {
			return ErrNotEnough
		}
		if err := book(ctx, tx, Entry{from, -cents, text}); err != nil {
			return err
		}
		return book(ctx, tx, Entry{to, cents, text})
	})
}

// Close marks a wallet as closed, if nothing is left in it.
func (l *Ledger) Close(ctx context.Context, wallet int64) error {
	tx, err := l.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	res, err := tx.ExecContext(ctx, `UPDATE wallets SET closed = true WHERE id = $1 AND cents = 0`, wallet)
	if err != nil {
		return err
	}
	if n, err := res.RowsAffected(); err != nil || n == 0 {
		return errors.Join(err, fmt.Errorf("wallet %d is not empty", wallet))
	}
	return tx.Commit()
}

// Snapshot returns the sum of all wallets and of all entries as of one moment.
func (l *Ledger) Snapshot(ctx context.Context) (wallets, entries int64, err error) {
	tx, err := l.db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true})
	if err != nil {
		return 0, 0, err
	}
	defer func() { _ = tx.Rollback() }()
	if err = tx.QueryRowContext(ctx, `SELECT coalesce(sum(cents), 0) FROM wallets`).Scan(&wallets); err != nil {
		return 0, 0, err
	}
	err = tx.QueryRowContext(ctx, `SELECT coalesce(sum(cents), 0) FROM entries`).Scan(&entries)
	return wallets, entries, err
}

// atomically runs f in a transaction, which is undone if f fails or panics.
func (l *Ledger) atomically(ctx context.Context, f func(*sql.Tx) error) (err error) {
	tx, err := l.db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	defer func() {
		if p := recover(); p != nil {
			_ = tx.Rollback()
			panic(p)
		}
		if err != nil {
			if rerr := tx.Rollback(); rerr != nil && !errors.Is(rerr, sql.ErrTxDone) {
				l.log.WarnContext(ctx, "ledger: rollback failed", "err", rerr)
			}
			return
		}
		if cerr := tx.Commit(); cerr != nil {
			l.log.ErrorContext(ctx, "ledger: commit failed", "err", cerr)
		}
	}()
	return f(tx)
}

func book(ctx context.Context, tx *sql.Tx, e Entry) error {
	_, err := tx.ExecContext(ctx, `UPDATE wallets SET cents = cents + $2 WHERE id = $1`, e.Wallet, e.Cents)
	if err != nil {
		return fmt.Errorf("wallet %d: %w", e.Wallet, err)
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO entries (wallet, cents, text) VALUES ($1, $2, $3)`, e.Wallet, e.Cents, e.Text)
	return err
}
