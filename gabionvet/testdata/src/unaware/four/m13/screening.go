// Package p13 checks customers against sanction lists and credit registers.
package m13

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/gabionhttp"
	"github.com/gabion-go/gabion/policy"
)

type Person struct {
	Name    string
	Country string
}

type Verdict struct {
	Hit   bool
	Score int
}

type Screening struct {
	lists     string            // URL of the sanction lists
	registers map[string]string // URLs of the credit registers, by country
	http      *http.Client

	mu      sync.Mutex
	credits map[string]*gabion.Dependency
}

func New(lists string, registers map[string]string) *Screening {
	return &Screening{
		lists:     lists,
		registers: registers,
		http:      &http.Client{},
		credits:   map[string]*gabion.Dependency{},
	}
}

// Sanctioned reports whether a person is on one of the lists.
func (s *Screening) Sanctioned(ctx context.Context, p Person) (bool, error) {
	v, err := gabion.Do(ctx, s.listsFor(p), func(ctx context.Context) (Verdict, error) {
		return s.get(ctx, s.lists+"/search?name="+url.QueryEscape(p.Name))
	}, gabion.WithOperation("sanctions"))
	if err != nil {
		return false, fmt.Errorf("sanctions: %w", err)
	}
	return v.Hit, nil
}

// Score returns what the credit register of a country says of a person.
func (s *Screening) Score(ctx context.Context, p Person) (int, error) {
	base, ok := s.registers[p.Country]
	if !ok {
		return 0, fmt.Errorf("no credit register for %q", p.Country)
	}
	v, err := gabion.Do(ctx, s.creditFor(p.Country), func(ctx context.Context) (Verdict, error) {
		return s.get(ctx, base+"/scores?name="+url.QueryEscape(p.Name))
	}, gabion.WithOperation("score"))
	if err != nil {
		return 0, fmt.Errorf("credit register of %s: %w", p.Country, err)
	}
	return v.Score, nil
}

// listsFor returns how to call the sanction lists. Some are searched phonetically, which is slow.
func (s *Screening) listsFor(p Person) *gabion.Dependency {
	rules := policy.Policy{
		Safe:    true,
		Timeout: policy.Timeout{Call: 5 * time.Second, Attempt: 1500 * time.Millisecond},
	}
	switch p.Country {
	case "CN", "JP", "KR":
		rules.Timeout = policy.Timeout{Call: 12 * time.Second, Attempt: 4 * time.Second}
	}
	return gabion.New("sanctions", rules)
}

// creditFor returns how to call the register of a country. There are 27 at most.
func (s *Screening) creditFor(country string) *gabion.Dependency {
	s.mu.Lock()
	defer s.mu.Unlock()
	if d, ok := s.credits[country]; ok {
		return d
	}
	d := gabion.New("credit-"+country, policy.Policy{Safe: true})
	s.credits[country] = d
	return d
}

func (s *Screening) get(ctx context.Context, address string) (v Verdict, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return v, err
	}
	resp, err := s.http.Do(req)
	if err != nil {
		return v, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return v, &gabionhttp.StatusError{Code: resp.StatusCode}
	}
	err = json.NewDecoder(io.LimitReader(resp.Body, 1<<20)).Decode(&v)
	return v, err
}
