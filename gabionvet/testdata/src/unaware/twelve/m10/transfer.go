package m10

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

type Transfer struct {
	From   string    `json:"from"`
	To     string    `json:"to"`
	Cents  int64     `json:"cents"`
	SentAt time.Time `json:"sent_at"`
}

type Bank struct {
	base string
	hc   *http.Client
}

func (b *Bank) Transfer(ctx context.Context, from, to string, cents int64) error {
	var err error
	for wait := 200 * time.Millisecond; wait < 2*time.Second; wait *= 2 {
		if err = b.transfer(ctx, from, to, cents); err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
		}
	}
	return err
}

func (b *Bank) transfer(ctx context.Context, from, to string, cents int64) error {
	t := Transfer{From: from, To: to, Cents: cents, SentAt: time.Now().UTC()}
	body, err := json.Marshal(t)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(body)
	req, err := http.NewRequestWithContext(ctx, "POST", b.base+"/transfers", bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", hex.EncodeToString(sum[:]))
	resp, err := b.hc.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode >= 500 {
		return fmt.Errorf("bank answered %s", resp.Status)
	}
	return nil
}
