// Package p12 takes payment for bookings of hotel rooms.
package m12

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

var ErrState = errors.New("the booking is in another state")

// voucher is the receipt of bookings that cost nothing.
const voucher = "voucher"

type Charger interface {
	Charge(ctx context.Context, key string, cents int64) (receipt string, err error)
	Refund(ctx context.Context, key, receipt string) error
}

type Desk struct {
	db  *sql.DB
	psp Charger
}

func New(db *sql.DB, base string) *Desk {
	return &Desk{db, &provider{base, &http.Client{Timeout: 10 * time.Second}}}
}

// Pay charges the guest's card and marks the booking as paid.
func (d *Desk) Pay(ctx context.Context, id int64) error {
	tx, err := d.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	var cents int64
	if err := lock(ctx, tx, id, "open").Scan(&cents); err != nil {
		return missing(err)
	}
	receipt, err := d.collect(ctx, id, cents)
	if err != nil {
		return fmt.Errorf("booking %d: %w", id, err)
	}
	_, err = tx.ExecContext(ctx, `UPDATE bookings SET state = 'paid', receipt = $2 WHERE id = $1`, id, receipt)
	if err != nil {
		return err
	}
	return tx.Commit()
}

// Cancel marks a paid booking as cancelled and gives the money back. It may be called
// again until it succeeds.
func (d *Desk) Cancel(ctx context.Context, id int64) error {
	var receipt string
	err := d.db.QueryRowContext(ctx,
		`UPDATE bookings SET state = 'cancelled' WHERE id = $1 AND state IN ('paid', 'cancelled') RETURNING receipt`, id).Scan(&receipt)
	if err != nil {
		return missing(err)
	}
	if receipt == voucher {
		return nil
	}
	return d.psp.Refund(ctx, "refund-"+strconv.FormatInt(id, 10), receipt)
}

// Move gives a booking another room, if that one is free.
func (d *Desk) Move(ctx context.Context, id, room int64) error {
	tx, err := d.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	var cents int64
	if err := lock(ctx, tx, id, "paid").Scan(&cents); err != nil {
		return missing(err)
	}
	if _, err := tx.ExecContext(ctx, `UPDATE bookings SET room = $2 WHERE id = $1`, id, room); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, `INSERT INTO outbox (topic, booking) VALUES ('moved', $1)`, id); err != nil {
		return err
	}
	return tx.Commit()
}

func (d *Desk) collect(ctx context.Context, id, cents int64) (string, error) {
	if cents == 0 {
		return voucher, nil
	}
	return d.psp.Charge(ctx, "booking-"+strconv.FormatInt(id, 10), cents)
}

func lock(ctx context.Context, tx *sql.Tx, id int64, state string) *sql.Row {
	return tx.QueryRowContext(ctx, `SELECT cents FROM bookings WHERE id = $1 AND state = $2 FOR UPDATE`, id, state)
}

func missing(err error) error {
	if errors.Is(err, sql.ErrNoRows) {
		return ErrState
	}
	return err
}

type provider struct {
	base string
	http *http.Client
}

func (p *provider) Charge(ctx context.Context, key string, cents int64) (string, error) {
	return p.post(ctx, "/charges", key, url.Values{"cents": {strconv.FormatInt(cents, 10)}})
}

func (p *provider) Refund(ctx context.Context, key, receipt string) error {
	_, err := p.post(ctx, "/refunds", key, url.Values{"charge": {receipt}})
	return err
}

func (p *provider) post(ctx context.Context, path, key string, form url.Values) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.base+path, strings.NewReader(form.Encode()))
	if err != nil {
		return "", err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Idempotency-Key", key)
	resp, err := p.http.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusCreated {
		return "", fmt.Errorf("payment provider: %s", resp.Status)
	}
	var answer struct{ ID string }
	err = json.NewDecoder(io.LimitReader(resp.Body, 1<<16)).Decode(&answer)
	return answer.ID, err
}
