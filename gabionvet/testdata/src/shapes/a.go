// Package shapes has each mistake in other shapes than its rule's page.
package shapes

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/avast/retry-go/v4"
	"github.com/cenkalti/backoff/v5"
	"github.com/gabion-go/gabion"
	"github.com/google/uuid"
	"github.com/hashicorp/go-retryablehttp"
)

type client struct {
	hc    *http.Client
	base  string
	delay time.Duration
	dep   *gabion.Dependency
}

// The method comes through a wrapper.
func (c *client) do(ctx context.Context, method, path string, in any) error {
	data, err := json.Marshal(in)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, bytes.NewReader(data))
	if err != nil {
		return err
	}
	resp, err := c.hc.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode >= 300 {
		return fmt.Errorf("%s: %s", path, resp.Status)
	}
	return json.NewDecoder(resp.Body).Decode(in)
}

func (c *client) Order(ctx context.Context, in any) error {
	var last error
	for try := 1; try <= 4; try++ {
		if last = c.do(ctx, http.MethodPost, "/orders", in); last == nil { // want `G111` `G126` `G104`
			return nil
		}
		select {
		case <-time.After(rand.N(time.Duration(try) * time.Second)):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return last
}

func (c *client) Get(ctx context.Context, in any) error {
	return c.do(ctx, http.MethodGet, "/orders", in)
}

// The retry is in the wrapper, and the method comes from its callers.
func (c *client) send(ctx context.Context, method, path string, body []byte) (*http.Response, error) {
	var resp *http.Response
	var err error
	for i := 0; i < 3; i++ {
		var req *http.Request
		if req, err = http.NewRequestWithContext(ctx, method, c.base+path, bytes.NewReader(body)); err != nil {
			return nil, err
		}
		resp, err = c.hc.Do(req) // want `G111`
		if err == nil && resp.StatusCode < 500 {
			return resp, nil
		}
		if err == nil {
			_, _ = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
			err = errors.New(resp.Status)
		}
		if serr := pauseFor(ctx, jitter(i)); serr != nil {
			return nil, serr
		}
	}
	return nil, err
}

func jitter(n int) time.Duration { return rand.N(time.Second << n) }

func pauseFor(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c *client) Pay(ctx context.Context, body []byte) error {
	resp, err := c.send(ctx, "POST", "/payments", body)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

// A closure that retries, in a variable.
func closure(ctx context.Context, db *sql.DB) error {
	attempts := func(n int, f func() error) (err error) {
		for range n {
			if err = f(); err == nil {
				break
			}
			time.Sleep(200 * time.Millisecond) // want `G101` `G103`
		}
		return err
	}
	const q = "INSERT INTO orders (id) VALUES ($1)"
	return attempts(3, func() error {
		_, err := db.ExecContext(ctx, q, 1) // want `G111`
		return err
	})
}

// A struct that retries what it holds.
type retrier struct {
	tries int
	wait  time.Duration
}

func (r retrier) Run(ctx context.Context, f func(context.Context) error) error {
	var err error
	backoff := r.wait
	for n := r.tries; n > 0; n-- {
		err = f(ctx) // want `G104`
		if err == nil {
			return nil
		}
		time.Sleep(backoff) // want `G101` `G103`
		backoff *= 2
	}
	return err
}

func (c *client) refund(ctx context.Context, r retrier, id string) error {
	return r.Run(ctx, func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+"/refunds", strings.NewReader(id))
		if err != nil {
			return err
		}
		req.Header.Set("Idempotency-Key", uuid.New().String()) // want `G112`
		resp, err := c.hc.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		_, err = io.Copy(io.Discard, resp.Body)
		return err
	})
}

// goto.
func (c *client) again(ctx context.Context, in any) error {
	n := 0
again:
	err := c.do(ctx, "POST", "/transfers", in) // want `G111` `G126`
	if err != nil && n < 3 {
		n++
		time.Sleep(time.Second) // want `G101` `G103`
		goto again
	}
	return err
}

// A money method of an interface.
type bank interface {
	Transfer(ctx context.Context, from, to string, cents int64) error
	Balance(ctx context.Context, of string) (int64, error)
}

func transfer(ctx context.Context, b bank) (err error) {
	for range 3 {
		err = b.Transfer(ctx, "a", "b", 1) // want `G111`
		if err == nil {
			return nil
		}
		_ = pauseFor(ctx, rand.N(time.Second))
	}
	return err
}

// A failure that is lost.
func lost(ctx context.Context, b bank) error {
	for i := 0; i < 3; i++ {
		if _, err := b.Balance(ctx, "a"); err == nil {
			return nil
		}
		_ = pauseFor(ctx, rand.N(time.Second))
	}
	return nil // want `G130`
}

func shadowed(ctx context.Context, b bank) (int64, error) {
	var err error
	for i := 0; i < 3; i++ {
		n, err := b.Balance(ctx, "a")
		if err == nil {
			return n, nil
		}
		_ = pauseFor(ctx, rand.N(time.Second))
	}
	return 0, err // want `G130`
}

// A context that ends before the answer is read.
func (c *client) open(ctx context.Context, path string) (*http.Response, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+path, nil)
	if err != nil {
		return nil, err
	}
	return c.hc.Do(req) // want `G128`
}

func (c *client) body(ctx context.Context, path string) (io.ReadCloser, error) {
	tctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(tctx, http.MethodGet, c.base+path, nil)
	if err != nil {
		return nil, err
	}
	resp, err := c.hc.Do(req) // want `G128`
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		resp.Body.Close()
		return nil, fmt.Errorf("%s", resp.Status)
	}
	return resp.Body, nil
}

func rows(ctx context.Context, db *sql.DB) (*sql.Rows, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	rows, err := db.QueryContext(ctx, "SELECT 1") // want `G128`
	if err != nil {
		return nil, fmt.Errorf("rows: %w", err)
	}
	return rows, nil
}

func (c *client) work(ctx context.Context, req *http.Request) (*http.Response, error) {
	return gabion.Do(ctx, c.dep, func(ctx context.Context) (*http.Response, error) {
		return c.hc.Do(req.WithContext(ctx)) // want `G128`
	})
}

// A transaction that stays open.
func leaves(ctx context.Context, db *sql.DB) error {
	tx, err := db.BeginTx(ctx, nil) // want `G129`
	if err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, "UPDATE a SET n = 1"); err != nil {
		return err
	}
	return tx.Commit()
}

func closes(ctx context.Context, db *sql.DB) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, "UPDATE a SET n = 1"); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

// A call while a transaction is open.
func (c *client) within(ctx context.Context, db *sql.DB) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if _, err := tx.ExecContext(ctx, "UPDATE a SET n = 1"); err != nil {
		return err
	}
	if err := c.do(ctx, http.MethodPost, "/ship", nil); err != nil { // want `G124`
		return err
	}
	return tx.Commit()
}

// A goroutine that outlives its request.
func (c *client) handler(w http.ResponseWriter, r *http.Request) {
	ctx := r.Context()
	go func() {
		if err := c.do(ctx, http.MethodPut, "/audit", nil); err != nil { // want `G131`
			log.Print(err)
		}
	}()
	w.WriteHeader(http.StatusAccepted)
}

func (c *client) waits(w http.ResponseWriter, r *http.Request) {
	var wg sync.WaitGroup
	wg.Add(1)
	go func() {
		defer wg.Done()
		_ = c.do(r.Context(), http.MethodPut, "/audit", nil)
	}()
	wg.Wait()
}

// Losers that stay.
func fastest(ctx context.Context, b []bank) int64 {
	ch := make(chan int64)
	for _, b := range b {
		go func() {
			n, _ := b.Balance(ctx, "a")
			ch <- n // want `G127`
		}()
	}
	return <-ch
}

func ask(ctx context.Context, b bank, ch chan int64) {
	n, _ := b.Balance(ctx, "a")
	ch <- n // want `G127`
}

func asks(ctx context.Context, b bank) (n int64, err error) {
	ch := make(chan int64)
	go ask(ctx, b, ch)
	select {
	case n = <-ch:
	case <-time.After(time.Second):
		err = errors.New("late")
	}
	return n, err
}

// A defer in a loop, in a closure.
func (c *client) all(ctx context.Context, urls []string) error {
	for _, u := range urls {
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer func() { cancel() }() // want `G118`
		if err := c.do(ctx, "GET", u, nil); err != nil {
			return err
		}
	}
	return nil
}

// Libraries.
func (c *client) library(ctx context.Context, in any) error {
	if err := retry.Do(func() error { return c.do(ctx, http.MethodPost, "/orders", in) }); err != nil { // want `G103` `G111` `G126`
		return err
	}
	_, err := backoff.Retry(ctx, func() (any, error) { return nil, c.do(ctx, http.MethodPost, "/orders", in) }) // want `G111` `G126`
	return err
}

func byClient(ctx context.Context, url string, body []byte) error {
	rc := retryablehttp.NewClient()
	resp, err := rc.Post(url, "application/json", body) // want `G111`
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

// Tickers.
func poll(ctx context.Context, b bank) (n int64, err error) {
	t := time.NewTicker(time.Second)
	defer t.Stop()
	for range t.C { // want `G101` `G102` `G103`
		if n, err = b.Balance(ctx, "a"); err == nil {
			return n, nil
		}
	}
	return 0, err
}
