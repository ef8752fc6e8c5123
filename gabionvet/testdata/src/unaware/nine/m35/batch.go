package batch

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"net/http"
	"time"
)

type Event struct{ Name string }

func Flush(ctx context.Context, hc *http.Client, events []Event) error {
	var buf bytes.Buffer
	try := func() error {
		if err := json.NewEncoder(&buf).Encode(events); err != nil {
			return err
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodPut, "https://events.example/batch", bytes.NewReader(buf.Bytes()))
		if err != nil {
			return err
		}
		resp, err := hc.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode >= 500 {
			return errors.New(resp.Status)
		}
		return nil
	}
	var err error
	for i := 0; i < 3; i++ {
		if err = try(); err == nil {
			break
		}
		time.Sleep(rand.N(time.Second << i))
	}
	return err
}
