// Package m06 asks for the credit that a customer has left.
//
// Mistake: the answer is decoded without a look at the status. A 503 with a
// JSON body becomes a credit of 0 and no error, so no retry and no breaker
// ever learns of the failure.
package m06

import (
	"context"
	"encoding/json"
	"net/http"
	"time"
)

type Credit struct {
	Customer string `json:"customer"`
	Cents    int64  `json:"cents"`
}

type Service struct {
	client *http.Client
	base   string
}

func (s *Service) Credit(ctx context.Context, customer string) (Credit, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	var credit Credit
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.base+"/credit/"+customer, nil)
	if err != nil {
		return credit, err
	}
	req.Header.Set("Accept", "application/json")
	resp, err := s.client.Do(req)
	if err != nil {
		return credit, err
	}
	defer resp.Body.Close()
	err = json.NewDecoder(resp.Body).Decode(&credit)
	return credit, err
}
