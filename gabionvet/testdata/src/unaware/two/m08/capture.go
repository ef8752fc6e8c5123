package m08

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"
)

type Captures struct {
	hc  *http.Client
	url string
}

func key(order string, attempt int) string {
	return order + "-" + strconv.Itoa(attempt)
}

func (c *Captures) Capture(ctx context.Context, order string) error {
	for attempt := 1; attempt <= 3; attempt++ {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, strings.NewReader(order))
		if err != nil {
			return err
		}
		req.Header.Set("Idempotency-Key", key(order, attempt))
		resp, err := c.hc.Do(req)
		if err == nil {
			io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10))
			resp.Body.Close()
			switch {
			case resp.StatusCode < 300:
				return nil
			case resp.StatusCode < 500:
				return fmt.Errorf("capture: %s", resp.Status)
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(rand.N(500 * time.Millisecond)):
		}
	}
	return errors.New("capture: no answer")
}
