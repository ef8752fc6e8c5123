package m01

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

type sagaStep struct {
	name     string
	do, undo func(context.Context) error
}

type bookingService struct {
	hc          *http.Client // Timeout: 5s
	seats, card string
}

type booking struct {
	ID    string `json:"id"`
	Seat  string `json:"seat"`
	Cents int64  `json:"cents"`
}

func (s *bookingService) Book(ctx context.Context, b booking) error {
	ctx, cancel := context.WithTimeout(ctx, 8*time.Second)
	defer cancel()
	done := []sagaStep{}
	for _, st := range s.steps(b) {
		done = append(done, st) // a failed step may have happened too, so it is undone as well
		if err := st.do(ctx); err != nil {
			for i := len(done) - 1; i >= 0; i-- {
				// WRONG: undo runs on the context whose expiry made the step fail, so the card is never refunded and the seat never freed
				if uerr := done[i].undo(ctx); uerr != nil {
					err = errors.Join(err, fmt.Errorf("undo %s: %w", done[i].name, uerr))
				}
			}
			return fmt.Errorf("booking %s at %s: %w", b.ID, st.name, err)
		}
	}
	return nil
}

// RIGHT
func (s *bookingService) BookSettled(ctx context.Context, b booking) error {
	doCtx, cancel := context.WithTimeout(ctx, 8*time.Second)
	defer cancel()
	done := []sagaStep{}
	for _, st := range s.steps(b) {
		done = append(done, st)
		if err := st.do(doCtx); err != nil {
			return errors.Join(fmt.Errorf("booking %s at %s: %w", b.ID, st.name, err), undoAll(ctx, done))
		}
	}
	return nil
}

func undoAll(ctx context.Context, done []sagaStep) (errs error) {
	undoCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 15*time.Second)
	defer cancel()
	for i := len(done) - 1; i >= 0; i-- {
		if err := done[i].undo(undoCtx); err != nil {
			errs = errors.Join(errs, fmt.Errorf("undo %s: %w", done[i].name, err))
		}
	}
	return errs
}

func (s *bookingService) steps(b booking) []sagaStep {
	call := func(url, op string) func(context.Context) error {
		return func(ctx context.Context) error { return s.post(ctx, url+op, b.ID+op, b) }
	}
	return []sagaStep{
		{"card", call(s.card, "/charge"), call(s.card, "/refund")},
		{"seat", call(s.seats, "/hold"), call(s.seats, "/release")},
	}
}

func (s *bookingService) post(ctx context.Context, url, key string, in any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Idempotency-Key", key)
	req.Header.Set("Content-Type", "application/json")
	resp, err := s.hc.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10))
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("%s: %s", url, resp.Status)
	}
	return nil
}
