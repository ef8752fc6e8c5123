// Package p07 asks the tax service what to add to an invoice.
package m07

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/gabionhttp"
	"github.com/gabion-go/gabion/policy"
)

var (
	ErrUnavailable = errors.New("the tax service is not available")
	ErrAddress     = errors.New("the tax service does not know the address")
)

type Invoice struct {
	Country string  `json:"country"`
	Postal  string  `json:"postal"`
	Lines   []int64 `json:"lines"`
}

type Service struct {
	base string
	http *http.Client
	dep  *gabion.Dependency
}

func New(base string) *Service {
	return &Service{
		base: base,
		http: &http.Client{},
		dep: gabion.New("tax", policy.Policy{
			Timeout: policy.Timeout{Call: 6 * time.Second, Attempt: 2 * time.Second},
		}),
	}
}

// reply is an answer that was read to its end.
type reply struct {
	status int
	body   []byte
}

// Quote returns the tax for each line of an invoice. It changes nothing.
func (s *Service) Quote(ctx context.Context, inv Invoice) ([]int64, error) {
	r, err := gabion.Do(ctx, s.dep, func(ctx context.Context) (reply, error) {
		return s.post(ctx, "/quotes", inv)
	}, gabion.WithIdempotent(), gabion.WithOperation("quote"))
	if err != nil {
		return nil, fmt.Errorf("quote: %w", err)
	}
	switch {
	case r.status == http.StatusUnprocessableEntity:
		return nil, ErrAddress
	case r.status >= 500:
		return nil, fmt.Errorf("quote: %w: status %d", ErrUnavailable, r.status)
	case r.status != http.StatusOK:
		return nil, fmt.Errorf("quote: status %d", r.status)
	}
	var taxes []int64
	err = json.Unmarshal(r.body, &taxes)
	return taxes, err
}

// Report tells the service of an invoice that was sent. The number is its key.
func (s *Service) Report(ctx context.Context, number string, inv Invoice) error {
	r, err := gabion.Do(ctx, s.dep, func(ctx context.Context) (reply, error) {
		return s.post(ctx, "/reports", inv)
	}, gabion.WithKey(number), gabion.WithOperation("report"), gabion.WithClassify(byStatus))
	if err != nil {
		return fmt.Errorf("report %s: %w", number, err)
	}
	if r.status == http.StatusAlreadyReported {
		return nil
	}
	var receipt struct{ Accepted bool }
	if err := json.Unmarshal(r.body, &receipt); err != nil {
		return fmt.Errorf("report %s: %w", number, err)
	}
	if !receipt.Accepted {
		return fmt.Errorf("report %s: not accepted", number)
	}
	return nil
}

// byStatus reads an answer as package gabionhttp reads it.
func byStatus(r reply, err error) policy.Outcome {
	if err != nil || r.status < 300 {
		return policy.Outcome{}
	}
	return (&gabionhttp.StatusError{Code: r.status}).Outcome()
}

func (s *Service) post(ctx context.Context, path string, in any) (reply, error) {
	payload, err := json.Marshal(in)
	if err != nil {
		return reply{}, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.base+path, bytes.NewReader(payload))
	if err != nil {
		return reply{}, err
	}
	req.Header.Set("Content-Type", "application/json")
	if key := gabion.Key(ctx); key != "" {
		req.Header.Set(gabionhttp.HeaderKey, key)
	}
	resp, err := s.http.Do(req)
	if err != nil {
		return reply{}, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	return reply{resp.StatusCode, body}, err
}
