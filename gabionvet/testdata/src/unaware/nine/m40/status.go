package status

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"time"
)

type Client struct{ hc *http.Client }

func (c *Client) Get(ctx context.Context, url string, out any) error {
	var resp *http.Response
	for i := 0; ; i++ {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		if resp, err = c.hc.Do(req); err == nil {
			break
		}
		if i == 2 {
			return err
		}
		time.Sleep(rand.N(time.Second))
	}
	defer resp.Body.Close()
	return json.NewDecoder(resp.Body).Decode(out)
}
