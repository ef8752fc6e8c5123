// Package m10 checks what a customer may do.
//
// Mistake: the cached answer is given for every error, so a 403 and a 404,
// which say that the customer has lost the right, are answered with the old
// yes.
package m10

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"
)

type Rights struct {
	client *http.Client
	base   string

	mu   sync.Mutex
	last map[string]bool
}

func (r *Rights) May(ctx context.Context, customer string) (bool, error) {
	err := r.ask(ctx, customer)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		if may, known := r.last[customer]; known {
			return may, nil
		}
		return false, err
	}
	r.last[customer] = true
	return true, nil
}

func (r *Rights) ask(ctx context.Context, customer string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.base+"/rights/"+customer, nil)
	if err != nil {
		return err
	}
	resp, err := r.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("rights of %s: %s", customer, resp.Status)
	}
	return nil
}
