package timeout

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"net/http"
	"time"
)

type Client struct {
	hc  *http.Client
	url string
}

func (c *Client) send(ctx context.Context, b []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url+"/invoices", bytes.NewReader(b))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.hc.Do(req)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

func temporary(err error) bool {
	var ne net.Error
	if errors.As(err, &ne) && ne.Timeout() {
		return true
	}
	return false
}

func (c *Client) Send(ctx context.Context, b []byte) error {
	err := c.send(ctx, b)
	for i := 0; i < 2 && temporary(err); i++ {
		time.Sleep(rand.N(time.Second))
		err = c.send(ctx, b)
	}
	return err
}
