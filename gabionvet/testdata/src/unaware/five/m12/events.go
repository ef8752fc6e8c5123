// Package m12 writes events in batches.
//
// Mistake: the server says which events it did not take, and the whole batch
// is sent again. Those that it took are there twice, and the load grows when
// the server is least able to take it.
package m12

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"
)

type Event struct {
	Kind string `json:"kind"`
	Data string `json:"data"`
}

type result struct {
	Failed []int `json:"failed"`
}

type Writer struct {
	client *http.Client
	url    string
}

func (w *Writer) Write(ctx context.Context, events []Event) error {
	for attempt := 1; attempt <= 3; attempt++ {
		res, err := w.put(ctx, events)
		if err != nil {
			return err
		}
		if len(res.Failed) == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(rand.N(time.Second)):
		}
	}
	return errors.New("events: some were not taken")
}

func (w *Writer) put(ctx context.Context, events []Event) (result, error) {
	var res result
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	body, err := json.Marshal(events)
	if err != nil {
		return res, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url+"/_bulk", bytes.NewReader(body))
	if err != nil {
		return res, err
	}
	resp, err := w.client.Do(req)
	if err != nil {
		return res, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return res, fmt.Errorf("events: %s", resp.Status)
	}
	err = json.NewDecoder(resp.Body).Decode(&res)
	return res, err
}
