package m03

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"
)

type Doc struct {
	ID   string `json:"id"`
	Text string `json:"text"`
}

type Indexer struct {
	endpoint string
	client   *http.Client
	tries    int
}

func (x *Indexer) Put(ctx context.Context, d Doc) error {
	raw, err := json.Marshal(d)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, x.endpoint+"/docs/"+d.ID, io.NopCloser(bytes.NewReader(raw)))
	if err != nil {
		return err
	}
	req.ContentLength = int64(len(raw))
	req.Header.Set("Content-Type", "application/json")
	resp, err := x.do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode >= 300 {
		return fmt.Errorf("index: %s", resp.Status)
	}
	return nil
}

func (x *Indexer) do(req *http.Request) (resp *http.Response, err error) {
	for n := 0; n < x.tries; n++ {
		if n > 0 {
			time.Sleep(time.Duration(n) * 100 * time.Millisecond)
		}
		resp, err = x.client.Do(req)
		if err != nil {
			continue
		}
		if resp.StatusCode < 500 {
			return resp, nil
		}
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
	return resp, err
}
