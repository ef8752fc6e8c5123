package m10

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/cenkalti/backoff/v5"
)

type Orders struct {
	HTTP *http.Client
	URL  string
}

type Placed struct{ ID string }

func (o *Orders) Place(ctx context.Context, cart any) (Placed, error) {
	data, err := json.Marshal(cart)
	if err != nil {
		return Placed{}, err
	}
	return backoff.Retry(ctx, func() (Placed, error) {
		var p Placed
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, o.URL, bytes.NewReader(data))
		if err != nil {
			return p, err
		}
		resp, err := o.HTTP.Do(req)
		if err != nil {
			return p, err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusCreated {
			return p, fmt.Errorf("orders: %s", resp.Status)
		}
		return p, json.NewDecoder(resp.Body).Decode(&p)
	})
}
