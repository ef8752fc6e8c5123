package retryable

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/hashicorp/go-retryablehttp"
)

type Ledger struct {
	hc  *http.Client
	url string
}

func New(url string) *Ledger {
	rc := retryablehttp.NewClient()
	rc.RetryMax = 10
	rc.RetryWaitMax = 5 * time.Second
	hc := rc.StandardClient()
	hc.Timeout = time.Minute
	return &Ledger{hc: hc, url: url}
}

func (l *Ledger) Post(ctx context.Context, entry func() (*http.Request, error)) error {
	req, err := entry()
	if err != nil {
		return err
	}
	req = req.WithContext(ctx)
	req.Method = http.MethodPost
	resp, err := l.hc.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusCreated {
		return errors.New(resp.Status)
	}
	return nil
}
