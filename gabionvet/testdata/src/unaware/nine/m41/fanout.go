package fanout

import (
	"bytes"
	"context"
	"errors"
	"log"
	"net/http"
	"time"
)

type Hook struct {
	URL, ID string
	Body    []byte
}

type Dispatcher struct{ hc *http.Client }

func (d *Dispatcher) deliver(ctx context.Context, h Hook) {
	if err := d.post(ctx, h); err != nil {
		log.Printf("hook %s: %v", h.ID, err)
		time.Sleep(5 * time.Second)
		go d.deliver(ctx, h)
	}
}

func (d *Dispatcher) post(ctx context.Context, h Hook) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, h.URL, bytes.NewReader(h.Body))
	if err != nil {
		return err
	}
	req.Header.Set("Idempotency-Key", h.ID)
	resp, err := d.hc.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode >= 300 {
		return errors.New(resp.Status)
	}
	return nil
}
