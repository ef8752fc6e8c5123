package shapes

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
)

// A POST that goes from one server of a list to the next after any error.
type cards struct {
	hc      *http.Client
	servers []string
}

func (p *cards) charge(ctx context.Context, body string) (err error) {
	for _, server := range p.servers {
		if err = p.post(ctx, server+"/charges", body); err == nil { // want `G111`
			return nil
		}
	}
	return err
}

func (p *cards) post(ctx context.Context, url, body string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := p.hc.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 1<<16))
	if resp.StatusCode >= 500 {
		return errors.New(resp.Status)
	}
	return nil
}

// each sends one to all of them, which is meant.
func (p *cards) each(ctx context.Context, body string) (failed []error) {
	for _, server := range p.servers {
		if err := p.post(ctx, server+"/news", body); err != nil {
			failed = append(failed, err)
		}
	}
	return failed
}

func (p *cards) chargeRight(ctx context.Context, body string) (err error) {
	for _, server := range p.servers {
		if err = p.post(ctx, server+"/charges", body); err == nil || !isRefusal(err) {
			return err
		}
	}
	return err
}

func isRefusal(err error) bool { return errors.Is(err, http.ErrServerClosed) }

// A 429 that is repeated at once.
func (p *cards) impatient(ctx context.Context, url string) (*http.Response, error) {
	for range 3 {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return nil, err
		}
		resp, err := p.hc.Do(req) // want `G134`
		if err != nil {
			return nil, err
		}
		if resp.StatusCode == http.StatusTooManyRequests {
			_ = resp.Body.Close()
			continue
		}
		return resp, nil
	}
	return nil, errors.New("busy")
}

// Shifts that overflow in a long outage, in the loop and in a function.
func waitOf(n int) time.Duration {
	wait := 100 * time.Millisecond * (1 << n) // want `G139`
	if wait > time.Minute {
		wait = time.Minute
	}
	return rand.N(wait)
}

func shiftedRight(n int) time.Duration {
	wait := 100 * time.Millisecond * (1 << min(n, 10))
	return rand.N(min(wait, time.Minute))
}

func shiftedAsked(n int) time.Duration {
	wait := 100 * time.Millisecond << n
	if wait <= 0 || wait > time.Minute {
		wait = time.Minute
	}
	return rand.N(wait)
}

func (p *cards) reconnect(ctx context.Context, wait func(n int) time.Duration) error {
	for n := 0; ; n++ {
		if err := p.post(ctx, p.servers[0]+"/search", "hello"); err == nil || errors.Is(err, context.Canceled) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(waitOf(n)):
		}
	}
}

func (p *cards) reconnectRight(ctx context.Context, asked bool) error {
	for n := 0; ; n++ {
		if err := p.post(ctx, p.servers[0]+"/search", "hello"); err == nil || errors.Is(err, context.Canceled) {
			return err
		}
		wait := shiftedRight(n)
		if asked {
			wait = shiftedAsked(n)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
		}
	}
}

// The lock of a whole map, held while one element is fetched.
type shelf struct {
	mu   sync.Mutex
	rows map[string]string
	load interface {
		Load(ctx context.Context, key string) (string, error)
	}
}

func (c *shelf) get(ctx context.Context, key string) (string, error) {
	c.mu.Lock() // want `G141`
	defer c.mu.Unlock()
	if v, ok := c.rows[key]; ok {
		return v, nil
	}
	v, err := c.load.Load(ctx, key)
	if err != nil {
		return "", err
	}
	c.rows[key] = v
	return v, nil
}

func (c *shelf) getRight(ctx context.Context, key string) (string, error) {
	c.mu.Lock()
	v, ok := c.rows[key]
	c.mu.Unlock()
	if ok {
		return v, nil
	}
	v, err := c.load.Load(ctx, key)
	if err != nil {
		return "", err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rows[key] = v
	return v, nil
}

// A key that is an argument.
func (s *shop) refund(ctx context.Context, cents int64) (err error) {
	for n := range 3 {
		if err = s.pay.Refund(ctx, uuid.NewString(), cents); err == nil || errors.Is(err, context.Canceled) { // want `G112`
			return err
		}
		if err := pause(ctx, n); err != nil {
			return err
		}
	}
	return err
}

func (s *shop) refundRight(ctx context.Context, cents int64) (err error) {
	key := uuid.NewString()
	for n := range 3 {
		if err = s.pay.Refund(ctx, key, cents); err == nil || errors.Is(err, context.Canceled) {
			return err
		}
		if err := pause(ctx, n); err != nil {
			return err
		}
	}
	return err
}

// A crowd of calls at once.
func (c *shelf) all(ctx context.Context, keys []string) {
	var wg sync.WaitGroup
	for _, key := range keys {
		wg.Add(1)
		go func() { // want `G149`
			defer wg.Done()
			_, _ = c.load.Load(ctx, key)
		}()
	}
	wg.Wait()
}

func (c *shelf) allRight(ctx context.Context, keys []string) {
	var wg sync.WaitGroup
	slots := make(chan struct{}, 8)
	for _, key := range keys {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			_, _ = c.load.Load(ctx, key)
		})
	}
	wg.Wait()
}

// One goroutine for each server is no crowd.
func (c *shelf) warm(ctx context.Context, servers []*shelf) {
	var wg sync.WaitGroup
	for _, s := range servers {
		wg.Go(func() { _, _ = s.load.Load(ctx, "a") })
	}
	wg.Wait()
}

// A step is undone with the context that may have ended.
type booking interface {
	Reserve(ctx context.Context, sku string) error
	Release(ctx context.Context, sku string) error
	Label(ctx context.Context, sku string) error
}

func ship(ctx context.Context, b booking, sku string) error {
	if err := b.Reserve(ctx, sku); err != nil {
		return err
	}
	if err := b.Label(ctx, sku); err != nil {
		if undo := b.Release(ctx, sku); undo != nil { // want `G132`
			return errors.Join(err, undo)
		}
		return err
	}
	return nil
}

func shipRight(ctx context.Context, b booking, sku string) error {
	if err := b.Label(ctx, sku); err != nil {
		own, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		return errors.Join(err, b.Release(own, sku))
	}
	return b.Release(ctx, sku)
}
