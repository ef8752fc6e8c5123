// Package m04 charges a card at one of two acquirers.
//
// Mistake: any error of the first acquirer, a timeout too, sends the charge to
// the second. The first may have charged the card: it is charged twice.
package m04

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"time"
)

type Charge struct {
	Order  string
	Cents  int64
	Source string
}

type Acquirer struct {
	client *http.Client
	url    string
}

func (a *Acquirer) Charge(ctx context.Context, c Charge) error {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	body, err := json.Marshal(c)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, a.url+"/charges", bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Idempotency-Key", c.Order)
	resp, err := a.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusCreated {
		return fmt.Errorf("charge: %s", resp.Status)
	}
	return nil
}

type Payments struct {
	first, second *Acquirer
}

func (p *Payments) Pay(ctx context.Context, c Charge) error {
	if err := p.first.Charge(ctx, c); err != nil {
		log.Printf("first acquirer: %v, trying the second", err)
		return p.second.Charge(ctx, c)
	}
	return nil
}
