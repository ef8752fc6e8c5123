package m05

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"math/rand/v2"
)

type Indexer struct{ hc *http.Client }

func (x *Indexer) attempt(ctx context.Context, f func() (*http.Response, error)) error {
	var err error
	for n := 0; n < 3; n++ {
		var resp *http.Response
		resp, err = f()
		if err == nil {
			resp.Body.Close()
			if resp.StatusCode < 500 {
				return nil
			}
			err = fmt.Errorf("index: %d", resp.StatusCode)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(rand.N(300 * time.Millisecond)):
		}
	}
	return err
}

func (x *Indexer) Put(ctx context.Context, id string, doc any) error {
	var buf bytes.Buffer
	if err := json.NewEncoder(&buf).Encode(doc); err != nil {
		return err
	}
	return x.attempt(ctx, func() (*http.Response, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodPut, "http://index:9200/docs/"+id, &buf)
		if err != nil {
			return nil, err
		}
		return x.hc.Do(req)
	})
}
