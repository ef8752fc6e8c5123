package lookup

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"time"
)

type Address struct{ Street, City string }

func Find(ctx context.Context, hc *http.Client, id string) (a Address, err error) {
	var last error
	for attempt := 1; attempt <= 4; attempt++ {
		a, last = once(ctx, hc, id)
		if last == nil {
			return a, nil
		}
		t := time.NewTimer(time.Duration(attempt)*200*time.Millisecond + rand.N(200*time.Millisecond))
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return a, ctx.Err()
		}
	}
	return a, last
}

func once(ctx context.Context, hc *http.Client, id string) (a Address, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://addresses.example/v2/"+id, nil)
	if err != nil {
		return a, err
	}
	resp, err := hc.Do(req)
	if err != nil {
		return a, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		b, _ := io.ReadAll(io.LimitReader(resp.Body, 1024))
		return a, fmt.Errorf("addresses: %s: %s", resp.Status, b)
	}
	err = json.NewDecoder(resp.Body).Decode(&a)
	return a, err
}
