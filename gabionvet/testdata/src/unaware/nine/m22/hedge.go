package hedge

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"time"
)

type Order struct{ SKU string }

type Client struct{ hc *http.Client }

func (c *Client) place(ctx context.Context, o Order) error {
	b, err := json.Marshal(o)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://orders.example/orders", bytes.NewReader(b))
	if err != nil {
		return err
	}
	resp, err := c.hc.Do(req)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

func (c *Client) Place(ctx context.Context, o Order) error {
	res := make(chan error, 2)
	start := func() {
		go func() { res <- c.place(ctx, o) }()
	}
	start()
	select {
	case err := <-res:
		return err
	case <-time.After(300 * time.Millisecond):
		start()
	}
	return <-res
}
