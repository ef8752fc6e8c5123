package m12

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"
)

var errTemporary = errors.New("temporary")

type SMS struct {
	url string
	hc  *http.Client
}

type message struct {
	To   string `json:"to"`
	Text string `json:"text"`
}

func (s *SMS) post(ctx context.Context, m message) error {
	raw, err := json.Marshal(m)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url, bytes.NewReader(raw))
	if err != nil {
		return err
	}
	resp, err := s.hc.Do(req)
	if err != nil {
		return errTemporary
	}
	defer resp.Body.Close()
	if resp.StatusCode >= 500 || resp.StatusCode == http.StatusTooManyRequests {
		return errTemporary
	}
	if resp.StatusCode != http.StatusAccepted {
		return errors.New("sms: " + resp.Status)
	}
	return nil
}

// Notify sends a text. A gateway that is down for a moment is tried again.
func (s *SMS) Notify(ctx context.Context, to, text string) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	tick := time.NewTicker(2 * time.Second)
	defer tick.Stop()
	for {
		err := s.post(ctx, message{to, text})
		if !errors.Is(err, errTemporary) {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
