// Package p06 places orders: it blocks the money on the card and the goods in the warehouse.
package m06

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"time"
)

type Order struct {
	ID    string         `json:"id"`
	Card  string         `json:"card"`
	Cents int64          `json:"cents"`
	Lines map[string]int `json:"lines"`
}

type Cards interface {
	Authorise(ctx context.Context, o Order) error
	Void(ctx context.Context, orderID string) error // no error if nothing was authorised
}

type Warehouse interface {
	Reserve(ctx context.Context, o Order) error
	Release(ctx context.Context, orderID string) error // no error if nothing was reserved
}

type Checkout struct {
	cards Cards
	goods Warehouse
	log   *slog.Logger
}

func New(cards Cards, goods Warehouse, log *slog.Logger) *Checkout {
	return &Checkout{cards, goods, log}
}

// Place blocks money and goods, both or neither.
func (c *Checkout) Place(ctx context.Context, o Order) (err error) {
	ctx, cancel := context.WithTimeout(ctx, 12*time.Second)
	defer cancel()
	started := time.Now()
	defer func() { c.record(ctx, "place", o.ID, started, err) }()

	defer func() {
		if err != nil {
			err = errors.Join(err, c.undo(ctx, o.ID))
		}
	}()
	if err := c.cards.Authorise(ctx, o); err != nil {
		return fmt.Errorf("authorise %s: %w", o.ID, err)
	}
	if err := c.goods.Reserve(ctx, o); err != nil {
		return fmt.Errorf("reserve %s: %w", o.ID, err)
	}
	return nil
}

// Cancel gives back what Place has blocked. Once begun it is carried through, even if the
// customer closes the window.
func (c *Checkout) Cancel(ctx context.Context, orderID string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	return c.undo(ctx, orderID)
}

func (c *Checkout) undo(ctx context.Context, orderID string) error {
	var failed []error
	if err := c.goods.Release(ctx, orderID); err != nil {
		failed = append(failed, fmt.Errorf("release the goods of %s: %w", orderID, err))
	}
	if err := c.cards.Void(ctx, orderID); err != nil {
		failed = append(failed, fmt.Errorf("void the authorisation of %s: %w", orderID, err))
	}
	return errors.Join(failed...)
}

func (c *Checkout) record(ctx context.Context, what, id string, started time.Time, err error) {
	c.log.InfoContext(ctx, "checkout: "+what, "order", id, "took", time.Since(started), "err", err)
}

// PSP is the payment provider, over HTTP.
type PSP struct {
	Base string
	HTTP *http.Client // with a timeout
}

func (p *PSP) Authorise(ctx context.Context, o Order) error {
	return p.post(ctx, "/authorisations", "auth-"+o.ID, o)
}

func (p *PSP) Void(ctx context.Context, orderID string) error {
	return p.post(ctx, "/authorisations/"+url.PathEscape(orderID)+"/void", "void-"+orderID, struct{}{})
}

func (p *PSP) post(ctx context.Context, path, key string, in any) error {
	payload, err := json.Marshal(in)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.Base+path, bytes.NewReader(payload))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", key)
	resp, err := p.HTTP.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode >= 300 {
		return fmt.Errorf("payment provider: %s", resp.Status)
	}
	return nil
}
