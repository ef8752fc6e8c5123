package m01

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

type Parcel struct {
	Order  string `json:"order"`
	Weight int    `json:"weight"`
	Zip    string `json:"zip"`
}

type Carrier struct {
	base  string
	token string
	hc    *http.Client
}

var errBusy = errors.New("carrier is busy")

// Quote asks the carrier for a price. Quotes change nothing there, so they may be asked again.
func (c *Carrier) Quote(ctx context.Context, p Parcel) (int, error) {
	var buf bytes.Buffer
	if err := json.NewEncoder(&buf).Encode(p); err != nil {
		return 0, err
	}
	pause := 100 * time.Millisecond
	for try := 1; ; try++ {
		cents, err := c.quote(ctx, &buf)
		if err == nil || !errors.Is(err, errBusy) || try == 3 {
			return cents, err
		}
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-time.After(pause):
			pause *= 2
		}
	}
}

func (c *Carrier) quote(ctx context.Context, body io.Reader) (int, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+"/quotes", body)
	if err != nil {
		return 0, err
	}
	req.Header.Set("Authorization", "Bearer "+c.token)
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.hc.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	switch {
	case resp.StatusCode == http.StatusServiceUnavailable:
		return 0, errBusy
	case resp.StatusCode != http.StatusOK:
		return 0, fmt.Errorf("carrier: %s", resp.Status)
	}
	var out struct{ Cents int }
	err = json.NewDecoder(resp.Body).Decode(&out)
	return out.Cents, err
}
