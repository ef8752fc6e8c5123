package refund

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"
)

type Client struct {
	hc   *http.Client
	base string
}

func (c *Client) Refund(ctx context.Context, charge string, cents int) error {
	return c.refund(ctx, charge, cents, 3)
}

func (c *Client) refund(ctx context.Context, charge string, cents, left int) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+"/refunds", strings.NewReader(fmt.Sprintf(`{"charge":%q,"amount":%d}`, charge, cents)))
	if err != nil {
		return err
	}
	resp, err := c.hc.Do(req)
	if err != nil {
		if left == 0 {
			return err
		}
		time.Sleep(time.Second)
		return c.refund(ctx, charge, cents, left-1)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusCreated {
		return fmt.Errorf("refund: %s", resp.Status)
	}
	return nil
}
