package m01

import (
	"encoding/json"
	"fmt"
	"net/http"
)

type Rate struct {
	Pair  string
	Value float64
}

type Client struct {
	base string
	hc   *http.Client
}

func retry(attempts int, fn func() error) error {
	var err error
	for i := 0; i < attempts; i++ {
		if err = fn(); err == nil {
			return nil
		}
	}
	return fmt.Errorf("after %d attempts: %w", attempts, err)
}

func (c *Client) Rate(pair string) (Rate, error) {
	var r Rate
	err := retry(5, func() error {
		resp, err := c.hc.Get(c.base + "/rates/" + pair)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("status %d", resp.StatusCode)
		}
		return json.NewDecoder(resp.Body).Decode(&r)
	})
	return r, err
}
