package checkout

import (
	"context"
	"database/sql"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

type Service struct {
	db *sql.DB
	hc *http.Client
}

func (s *Service) charge(ctx context.Context, order string, cents int64) error {
	v := url.Values{"order": {order}, "cents": {strconv.FormatInt(cents, 10)}}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://pay.example/charges", strings.NewReader(v.Encode()))
	if err != nil {
		return err
	}
	req.Header.Set("Idempotency-Key", order)
	resp, err := s.hc.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return errors.New(resp.Status)
	}
	return nil
}

func (s *Service) Checkout(ctx context.Context, id string) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	var total int64
	if err := tx.QueryRowContext(ctx, "SELECT total FROM orders WHERE id = $1 FOR UPDATE", id).Scan(&total); err != nil {
		return err
	}
	if err := s.charge(ctx, id, total); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, "UPDATE orders SET paid = true WHERE id = $1", id); err != nil {
		return err
	}
	return tx.Commit()
}
