package mistakes

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/avast/retry-go/v4"
	"github.com/cenkalti/backoff/v5"
	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/idempotency/sqlstore"
	"github.com/gabion-go/gabion/policy"
	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
	"github.com/sony/gobreaker"
)

var (
	eager = redis.NewClient(&redis.Options{Addr: "localhost:6379"})
	once  = redis.NewClient(&redis.Options{Addr: "localhost:6379", MaxRetries: -1})
)

// go-redis retries by default.
func caches(ctx context.Context, d *gabion.Dependency) error {
	err := d.Run(ctx, func(ctx context.Context) error {
		return eager.Set(ctx, "a", "b").Err() // want `G116: two layers retry here: go-redis tries 4 times`
	})
	return errors.Join(err, d.Run(ctx, func(ctx context.Context) error {
		return once.Set(ctx, "a", "b").Err()
	}))
}

// A client's retries inside of gabion's, and gabion's inside of a loop.
func layers(ctx context.Context, d *gabion.Dependency, s store) error {
	for range 3 {
		err := d.Run(ctx, func(ctx context.Context) error { // want `G116: .*gabion.Dependency.Run retries by itself`
			return retry.Do(func() error { return s.Save(ctx) }) // want `G103` `G116: .*retry.Do retries by itself`
		})
		if err == nil {
			return nil
		}
	}
	return errors.ErrUnsupported
}

// The same mistakes in the work of others' retries.
func charges(ctx context.Context, c *http.Client, order []byte, body io.Reader) error {
	_, err := backoff.Retry(ctx, func() (*http.Response, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://bank.example/charges", body) // want `G110: the work of backoff.Retry sends the same reader`
		if err != nil {
			return nil, fmt.Errorf("request: %w", err)
		}
		key := uuid.New()
		req.Header.Set("Idempotency-Key", key.String()) // want `G112: the work of backoff.Retry makes a new idempotency key`
		return c.Do(req)
	})
	return err
}

func orders(c *http.Client, order []byte) error {
	return retry.Do(func() error {
		resp, err := c.Post("https://bank.example/charges", "text/plain", bytes.NewReader(order)) // want `G111: the work of retry.Do repeats a POST`
		if err != nil {
			return fmt.Errorf("charging: %s", err)
		}
		io.Copy(io.Discard, resp.Body)
		return resp.Body.Close()
	})
}

// A request that is made once and sent again is empty the second time.
func sendsAgain(ctx context.Context, c *http.Client, data []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, "https://a.example", bytes.NewReader(data))
	if err != nil {
		return err
	}
	for range 3 {
		resp, err := c.Do(req) // want `G110: this loop sends the same request on every attempt`
		if err == nil {
			io.Copy(io.Discard, resp.Body)
			return resp.Body.Close()
		}
	}
	return errors.ErrUnsupported
}

// A key for each call of a loop that calls again.
func keys(ctx context.Context, d *gabion.Dependency, s store) {
	for {
		err := d.Run(ctx, s.Save, gabion.WithKey(gabion.NewKey())) // want `G112: this loop makes a new idempotency key each time it calls again` `G116`
		if err == nil || errors.Is(err, policy.BreakerOpen) {
			return
		}
	}
}

// A breaker of one's own for each request counts to one.
func guarded(w http.ResponseWriter, r *http.Request) {
	b := gobreaker.NewCircuitBreaker(gobreaker.Settings{Name: "a"}) // want `G120: this breaker is made anew for each request`
	if _, err := b.Execute(func() (any, error) { return nil, r.Context().Err() }); err != nil {
		w.WriteHeader(http.StatusBadGateway)
	}
}

// Work that is given a context and has its own way.
func deaf(ctx context.Context, d *gabion.Dependency, db *sql.DB) error {
	return d.Run(ctx, func(context.Context) error { // want `G115: this work ignores the context that gabion.Dependency.Run gives it`
		time.Sleep(time.Second)
		return db.Ping()
	})
}

// A call inside a transaction, by way of a function.
func stored(ctx context.Context, s *sqlstore.Store, c *http.Client, req *http.Request) (int, error) {
	return s.Do(ctx, "claim", func(ctx context.Context, tx *sql.Tx) (int, error) {
		return tell(c, req.WithContext(ctx)) // want `G124: tell calls another service inside the transaction of sqlstore.Store.Do`
	})
}

func tell(c *http.Client, req *http.Request) (int, error) {
	resp, err := c.Do(req)
	if err != nil {
		return 0, err
	}
	io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, resp.Body.Close()
}

// Savepoints make a statement repeatable.
func savepoints(ctx context.Context, tx *sql.Tx) error {
	for range 3 {
		tx.ExecContext(ctx, "SAVEPOINT a")
		if _, err := tx.ExecContext(ctx, "UPDATE a SET n = 1"); err == nil {
			return nil
		}
		tx.ExecContext(ctx, "ROLLBACK TO SAVEPOINT a")
	}
	return errors.ErrUnsupported
}

// Bodies of iterations that end with a defer in a function of their own.
func each(c *http.Client, reqs []*http.Request) {
	for _, req := range reqs {
		func() {
			resp, err := c.Do(req)
			if err != nil {
				return
			}
			defer resp.Body.Close()
			io.Copy(io.Discard, resp.Body)
		}()
	}
}

// A wait that is drawn elsewhere.
func drawn(s store, wait func(int) time.Duration) error {
	for i := range 3 {
		if s.Save(context.Background()) == nil { // want `G104`
			return nil
		}
		time.Sleep(wait(i))
	}
	for range 3 {
		if s.Save(context.Background()) == nil {
			return nil
		}
		time.Sleep(time.Second + rand.N(time.Second))
	}
	return errors.ErrUnsupported
}
