package m10

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
)

type Prompt struct {
	Model string `json:"model"`
	Text  string `json:"text"`
}

type Answer struct {
	Text string `json:"text"`
}

type LLM struct {
	url, key string
	hc       *http.Client
	retries  int
}

func (l *LLM) Ask(ctx context.Context, p Prompt) (*Answer, error) {
	raw, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	for i := 0; i <= l.retries; i++ {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, l.url, bytes.NewReader(raw))
		if err != nil {
			return nil, err
		}
		req.Header.Set("Authorization", "Bearer "+l.key)
		resp, err := l.hc.Do(req)
		if err != nil {
			return nil, err
		}
		if resp.StatusCode == http.StatusTooManyRequests {
			resp.Body.Close()
			continue
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return nil, fmt.Errorf("model: %s", resp.Status)
		}
		var a Answer
		return &a, json.NewDecoder(resp.Body).Decode(&a)
	}
	return nil, fmt.Errorf("model: still limited after %d tries", l.retries+1)
}
