package m12

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"time"
)

var errPayoutRefused = errors.New("payout refused")

type payoutCommand struct {
	PayoutID    string    `json:"payout_id"`
	IBAN        string    `json:"iban"`
	Cents       int64     `json:"cents"`
	RequestedAt time.Time `json:"requested_at"`
}

type payoutBank struct {
	hc  *http.Client // Timeout: 10s
	url string
}

func (b *payoutBank) Pay(ctx context.Context, cmd payoutCommand) error {
	return retryPayout(ctx, 4, func(ctx context.Context) error {
		cmd.RequestedAt = time.Now().UTC()
		body, err := json.Marshal(cmd)
		if err != nil {
			return err
		}
		// WRONG: the key is a hash of a body with the time of the attempt in it, so each retry after a lost answer is a new payout for the bank
		sum := sha256.Sum256(body)
		return b.post(ctx, hex.EncodeToString(sum[:]), body)
	})
}

// RIGHT
func (b *payoutBank) PayKeyed(ctx context.Context, cmd payoutCommand) error {
	cmd.RequestedAt = time.Now().UTC()
	body, err := json.Marshal(cmd)
	if err != nil {
		return err
	}
	sum := sha256.Sum256([]byte("payout/" + cmd.PayoutID))
	key := hex.EncodeToString(sum[:])
	return retryPayout(ctx, 4, func(ctx context.Context) error {
		return b.post(ctx, key, body)
	})
}

func retryPayout(ctx context.Context, attempts int, fn func(context.Context) error) (err error) {
	for i := range attempts {
		if err = fn(ctx); err == nil || errors.Is(err, errPayoutRefused) || i == attempts-1 {
			return err
		}
		t := time.NewTimer(200*time.Millisecond<<i + rand.N(200*time.Millisecond))
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return errors.Join(err, ctx.Err())
		}
	}
	return err
}

func (b *payoutBank) post(ctx context.Context, key string, body []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, b.url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Idempotency-Key", key)
	req.Header.Set("Content-Type", "application/json")
	resp, err := b.hc.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10))
	switch {
	case resp.StatusCode/100 == 2:
		return nil
	case resp.StatusCode/100 == 4 && resp.StatusCode != http.StatusTooManyRequests:
		return fmt.Errorf("%w: %s", errPayoutRefused, resp.Status)
	}
	return fmt.Errorf("bank: %s", resp.Status)
}
