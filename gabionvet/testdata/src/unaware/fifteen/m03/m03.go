package m03

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"time"
)

var (
	errChargeDeclined = errors.New("charge not accepted by provider") // an answer: certainly not charged
	errChargeUnknown  = errors.New("charge outcome unknown, left to reconciliation")
)

type cardCharge struct {
	OrderID string `json:"order_id"`
	Token   string `json:"token"`
	Cents   int64  `json:"cents"`
}

type cardProvider struct {
	name, url string
	hc        *http.Client
}

type cardRouter struct{ providers []*cardProvider } // in order of preference

func (r *cardRouter) Charge(ctx context.Context, c cardCharge) (string, error) {
	var errs error
	for _, p := range r.providers {
		err := p.charge(ctx, c)
		if err == nil {
			return p.name, nil
		}
		slog.WarnContext(ctx, "provider failed, trying next", "provider", p.name, "order", c.OrderID, "err", err)
		// WRONG: a timeout is no refusal; the first provider may have charged the card, and now the second one charges it again
		errs = errors.Join(errs, err)
	}
	return "", errs
}

// RIGHT
func (r *cardRouter) ChargeOnce(ctx context.Context, c cardCharge) (string, error) {
	var errs error
	for _, p := range r.providers {
		err := p.charge(ctx, c)
		if err == nil {
			return p.name, nil
		}
		if !errors.Is(err, errChargeDeclined) {
			return p.name, fmt.Errorf("%w: %s: %w", errChargeUnknown, p.name, err)
		}
		slog.WarnContext(ctx, "provider declined, trying next", "provider", p.name, "order", c.OrderID, "err", err)
		errs = errors.Join(errs, err)
	}
	return "", errs
}

func (p *cardProvider) charge(ctx context.Context, c cardCharge) error {
	ctx, cancel := context.WithTimeout(ctx, 4*time.Second)
	defer cancel()
	body, err := json.Marshal(c)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url+"/charges", bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Idempotency-Key", c.OrderID)
	req.Header.Set("Content-Type", "application/json")
	resp, err := p.hc.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10))
	switch resp.StatusCode {
	case http.StatusOK, http.StatusCreated:
		return nil
	case http.StatusPaymentRequired, http.StatusTooManyRequests, http.StatusUnprocessableEntity:
		return fmt.Errorf("%w: %s", errChargeDeclined, resp.Status)
	}
	return fmt.Errorf("%s: %s", p.name, resp.Status)
}
