package m01

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/avast/retry-go/v4"
)

type Wallet struct {
	addr string
	http *http.Client
}

type entry struct {
	Account string `json:"account"`
	Cents   int64  `json:"cents"`
	Reason  string `json:"reason"`
}

// Credit adds money to an account.
func (w *Wallet) Credit(ctx context.Context, account string, cents int64, reason string) error {
	return w.withRetry(ctx, func() error {
		return w.call(ctx, "/credits", entry{account, cents, reason})
	})
}

func (w *Wallet) withRetry(ctx context.Context, fn retry.RetryableFunc) error {
	return retry.Do(fn, retry.Attempts(4), retry.Delay(100*time.Millisecond), retry.Context(ctx))
}

func (w *Wallet) call(ctx context.Context, path string, in any) error {
	raw, err := json.Marshal(in)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.addr+path, bytes.NewReader(raw))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := w.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("wallet: %s answered %d", path, resp.StatusCode)
	}
	return nil
}
