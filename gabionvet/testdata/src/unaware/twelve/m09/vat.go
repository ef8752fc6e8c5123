package m09

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"time"
)

type Registry struct {
	base string
	hc   *http.Client
}

type Company struct {
	VAT  string
	Name string
	City string
}

type statusError struct{ code int }

func (e statusError) Error() string { return fmt.Sprintf("registry answered %d", e.code) }

func (r *Registry) Company(ctx context.Context, vat string) (*Company, error) {
	var (
		c   *Company
		err error
	)
	for n := range 5 {
		if n > 0 {
			base := 50 * time.Millisecond << n
			select {
			case <-time.After(base/2 + rand.N(base)):
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		if c, err = r.fetch(ctx, vat); err == nil {
			return c, nil
		}
	}
	return nil, fmt.Errorf("company %s: %w", vat, err)
}

func (r *Registry) fetch(ctx context.Context, vat string) (*Company, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.base+"/companies/"+url.PathEscape(vat), nil)
	if err != nil {
		return nil, err
	}
	resp, err := r.hc.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, statusError{resp.StatusCode}
	}
	c := new(Company)
	return c, json.NewDecoder(resp.Body).Decode(c)
}
