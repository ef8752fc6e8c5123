package shapes

import (
	"bytes"
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	mrand "math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/sony/gobreaker"
)

// 1: an attempt without a context, of an interface, with a fixed wait and a flag.
type mailer interface{ Send(to, text string) error }

func notify(ctx context.Context, m mailer, to string) bool {
	sent := false
	for i := 0; i < 5 && !sent; i++ {
		if err := m.Send(to, "hello"); err != nil {
			time.Sleep(2 * time.Second) // want `G101` `G103`
			continue
		}
		sent = true
	}
	return sent
}

// 2: the attempt answers with a bool.
func (c *client) try(ctx context.Context) bool {
	resp, err := c.hc.Get(c.base)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode == 200
}

func (c *client) ready(ctx context.Context) error {
	for i := 0; i < 10; i++ {
		if c.try(ctx) {
			return nil
		}
		time.Sleep(time.Second)
	}
	return errors.New("not ready")
}

// 3: for ok := false; !ok;
func (c *client) endless(ctx context.Context) (v any) {
	for done := false; !done; { // want `G102`
		err := c.do(ctx, http.MethodGet, "/v", &v) // want `G126`
		done = err == nil
		if !done {
			time.Sleep(mrand.N(time.Second)) // want `G103`
		}
	}
	return v
}

// 4: the body is read into a buffer that a second attempt finds empty.
func (c *client) upload(ctx context.Context, v any) error {
	var buf bytes.Buffer
	if err := json.NewEncoder(&buf).Encode(v); err != nil {
		return err
	}
	for i := 0; i < 3; i++ {
		err := c.put(ctx, &buf) // want `G110`
		if err == nil {
			return nil
		}
		var t interface{ Temporary() bool }
		if !errors.As(err, &t) {
			return err
		}
		time.Sleep(mrand.N(time.Second)) // want `G103`
	}
	return errors.New("gave up")
}

func (c *client) put(ctx context.Context, body io.Reader) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, c.base, body)
	if err != nil {
		return err
	}
	resp, err := c.hc.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}

// 5: a retry of the request that a function is given.
func (c *client) retried(req *http.Request) (*http.Response, error) {
	var last error
	for i := 0; i < 3; i++ {
		resp, err := c.hc.Do(req) // want `G110` `G111`
		if err == nil {
			return resp, nil
		}
		last = err
		if err := pauseFor(req.Context(), mrand.N(time.Second)); err != nil {
			return nil, err
		}
	}
	return nil, last
}

func (c *client) create(ctx context.Context, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, "POST", c.base+"/users", io.NopCloser(bytes.NewReader(data)))
	if err != nil {
		return err
	}
	resp, err := c.retried(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	return json.NewDecoder(resp.Body).Decode(v)
}

// 6: the key comes through a field.
type charge struct {
	Cents          int
	IdempotencyKey string
}

func newCharge(cents int) charge {
	var b [8]byte
	_, _ = rand.Read(b[:])
	return charge{Cents: cents, IdempotencyKey: hex.EncodeToString(b[:])}
}

type acquirer interface {
	Charge(ctx context.Context, c charge) error
}

func charges(ctx context.Context, a acquirer, d *gabion.Dependency) error {
	return d.Run(ctx, func(ctx context.Context) error {
		return a.Charge(ctx, newCharge(5)) // want `G112`
	}, gabion.WithIdempotent())
}

func chargesBy(ctx context.Context, a acquirer) (err error) {
	c := charge{Cents: 5}
	for n := 0; n < 3; n++ {
		c.IdempotencyKey = "c-" + strconv.Itoa(n) // want `G112`
		if err = a.Charge(ctx, c); err == nil {
			break
		}
		_ = pauseFor(ctx, mrand.N(time.Second))
	}
	return err
}

// 7: headers in a map.
func (c *client) headers(ctx context.Context, in any) (err error) {
	for n := 0; n < 3; n++ {
		h := map[string]string{"Idempotency-Key": fmt.Sprint(time.Now().UnixNano())} // want `G112`
		if err = c.with(ctx, h, in); err == nil {
			return nil
		}
		_ = pauseFor(ctx, mrand.N(time.Second))
	}
	return err
}

func (c *client) with(ctx context.Context, h map[string]string, in any) error {
	req, err := http.NewRequestWithContext(ctx, "POST", c.base, http.NoBody)
	if err != nil {
		return err
	}
	for k, v := range h {
		req.Header.Set(k, v)
	}
	resp, err := c.hc.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	return json.NewDecoder(resp.Body).Decode(in)
}

// 8: a breaker for each call, and one in a method.
func (c *client) broken(ctx context.Context, in any) error {
	cb := gobreaker.NewCircuitBreaker(gobreaker.Settings{}) // want `G120`
	_, err := cb.Execute(func() (any, error) { return nil, c.do(ctx, "GET", "/", in) })
	return err
}

// 9: a pool for each request.
func list(w http.ResponseWriter, r *http.Request) {
	db, err := sql.Open("pgx", "") // want `G120`
	if err != nil {
		return
	}
	defer db.Close()
	if err := db.PingContext(r.Context()); err != nil {
		slog.Error("ping", "err", err)
	}
}

// 10: a helper that retries, generic, in a goroutine with a timeout of its own.
func withTimeout[T any](ctx context.Context, d time.Duration, f func(context.Context) (T, error)) (T, error) {
	type result struct {
		v   T
		err error
	}
	ch := make(chan result)
	go func() {
		v, err := f(ctx)
		ch <- result{v, err} // want `G127`
	}()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case r := <-ch:
		return r.v, r.err
	case <-timer.C:
		var zero T
		return zero, context.DeadlineExceeded
	}
}

// 11: a transaction repeated at its commit, in a closure.
func commits(ctx context.Context, db *sql.DB) error {
	once := func() error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback()
		if _, err := tx.ExecContext(ctx, "UPDATE accounts SET balance = balance + $1", 5); err != nil {
			return err
		}
		return tx.Commit()
	}
	var err error
	for i := 0; i < 3; i++ {
		err = once() // want `G111`
		if err == nil {
			return nil
		}
		_ = pauseFor(ctx, mrand.N(time.Second))
	}
	return err
}

// 12: a loop above a helper that retries.
func twiceOver(ctx context.Context, c *client, r retrier) (err error) {
	for i := 0; i < 3; i++ {
		err = r.Run(ctx, func(ctx context.Context) error { return c.do(ctx, "GET", "/", nil) }) // want `G116` `G126`
		if err == nil {
			return nil
		}
		_ = pauseFor(ctx, mrand.N(time.Second))
	}
	return err
}

// 13: a hedge with a loop.
func hedge(ctx context.Context, c *client, in any) error {
	errs := make(chan error, 2)
	for i := 0; i < 2; i++ {
		go func() {
			errs <- c.do(ctx, "POST", "/seats", in) // want `G111`
		}()
		select {
		case err := <-errs:
			if err == nil {
				return nil
			}
		case <-time.After(50 * time.Millisecond):
		}
	}
	return <-errs
}

// 14: Background in each attempt.
func (c *client) fresh(ctx context.Context) (err error) {
	for i := 0; i < 3; i++ {
		req, err := http.NewRequestWithContext(context.Background(), "GET", c.base, nil) // want `G121`
		if err != nil {
			return err
		}
		resp, err := c.hc.Do(req)
		if err == nil {
			_, err = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
			return err
		}
		_ = pauseFor(ctx, mrand.N(time.Second))
	}
	return errors.New("gave up")
}

// 15: a select that waits for nothing but a timer.
func (c *client) selects(ctx context.Context) (err error) {
	wait := 100 * time.Millisecond
	for attempt := 0; ; attempt++ {
		err = c.do(ctx, "GET", "/", nil) // want `G104` `G126`
		if err == nil || attempt > 4 {
			return err
		}
		select {
		case <-time.After(wait): // want `G101` `G103`
		}
		wait = min(wait*2, time.Second)
	}
}

// 16: body left open where the status is asked in a switch.
func (c *client) switches(ctx context.Context) (*http.Response, error) {
	for i := 0; i < 4; i++ {
		req, _ := http.NewRequestWithContext(ctx, "GET", c.base, nil)
		resp, err := c.hc.Do(req) // want `G108` `G134`
		if err != nil {
			return nil, err
		}
		switch {
		case resp.StatusCode < 400:
			return resp, nil
		case resp.StatusCode == 429, resp.StatusCode >= 500:
			if err := pauseFor(ctx, jitter(i)); err != nil {
				return nil, err
			}
		default:
			resp.Body.Close()
			return nil, errors.New(resp.Status)
		}
	}
	return nil, errors.New("gave up")
}

// 17: a loop that polls until the answer is 200.
func (c *client) until(ctx context.Context) error {
	for {
		req, _ := http.NewRequestWithContext(ctx, "GET", c.base, nil)
		resp, err := c.hc.Do(req) // want `G108`
		if err == nil && resp.StatusCode == http.StatusOK {
			_, _ = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
			return nil
		}
		if err := pauseFor(ctx, jitter(1)); err != nil {
			return err
		}
	}
}
