// Package followed holds what is seen only by following helpers, methods and values through a package.
package followed

import (
	"bytes"
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/policy"
	"google.golang.org/grpc"
)

type store interface {
	Save(ctx context.Context) error
}

// A helper of one's own, and one that hands on to it.
func again(f func() error) (err error) {
	for range 3 {
		if err = f(); err == nil {
			return nil
		}
	}
	return err
}

func againLogged(name string, f func() error) error {
	fmt.Println(name)
	return again(f)
}

// A helper that asks what the error is.
func againIfBusy(f func() error) (err error) {
	for range 3 {
		if err = f(); err == nil || !errors.Is(err, errors.ErrUnsupported) {
			return err
		}
	}
	return err
}

func post(c *http.Client, data []byte) error {
	resp, err := c.Post("https://a.example/orders", "text/plain", bytes.NewReader(data))
	if err != nil {
		return err
	}
	io.Copy(io.Discard, resp.Body)
	return resp.Body.Close()
}

func posts(c *http.Client, data []byte) error {
	if err := again(func() error { return post(c, data) }); err != nil { // want `G111: the work of again repeats a POST without an idempotency key, in post`
		return err
	}
	if err := againLogged("b", func() error { return post(c, data) }); err != nil { // want `G111: the work of againLogged repeats a POST`
		return err
	}
	return againIfBusy(func() error { return post(c, data) })
}

// Statements that must not be done twice, and some that may.
func statements(ctx context.Context, db *sql.DB) error {
	for _, f := range []func() error{} {
		again(f)
	}
	again(func() error {
		_, err := db.ExecContext(ctx, "INSERT INTO a (n) VALUES (1)") // want `G111: the work of again repeats an INSERT`
		return err
	})
	again(func() error {
		_, err := db.ExecContext(ctx, // want `G111: the work of again repeats an UPDATE that counts`
			`
			UPDATE a SET n = n + 1`)
		return err
	})
	again(func() error {
		_, err := db.ExecContext(ctx, "INSERT INTO a (n) VALUES (1) ON CONFLICT DO NOTHING")
		return err
	})
	return again(func() error {
		_, err := db.ExecContext(ctx, "UPDATE a SET n = m + 1, k = 3")
		return err
	})
}

type (
	request      struct{ Order string }
	keyedRequest struct{ Order, RequestId string }

	payments interface {
		CreatePayment(ctx context.Context, in *request, opts ...grpc.CallOption) (*request, error)
		CreateOrder(ctx context.Context, in *keyedRequest, opts ...grpc.CallOption) (*request, error)
		GetPayment(ctx context.Context, in *request, opts ...grpc.CallOption) (*request, error)
	}
)

func buys(ctx context.Context, p payments) error {
	again(func() error { _, err := p.CreatePayment(ctx, &request{}); return err }) // want `G111: the work of again repeats CreatePayment`
	again(func() error { _, err := p.CreateOrder(ctx, &keyedRequest{}); return err })
	return again(func() error { _, err := p.GetPayment(ctx, &request{}); return err })
}

// Keys that are new each time, and keys that are not.
func random() string {
	b := make([]byte, 8)
	rand.Read(b)
	return hex.EncodeToString(b)
}

type bank interface {
	Charge(ctx context.Context, idempotencyKey string) error
}

func charges(ctx context.Context, d *gabion.Dependency, b bank, order string) {
	d.Run(ctx, func(ctx context.Context) error {
		return b.Charge(ctx, random()) // want `G112: the work of gabion.Dependency.Run makes a new idempotency key on every attempt`
	})
	d.Run(ctx, func(ctx context.Context) error {
		return b.Charge(ctx, order+time.Now().UTC().Format(time.RFC3339Nano)) // want `G112`
	})
	d.Run(ctx, func(ctx context.Context) error {
		return b.Charge(ctx, order+time.Now().Format(time.DateOnly)) // one charge a day
	})
	key := random()
	d.Run(ctx, func(ctx context.Context) error { return b.Charge(ctx, key) })
	for i := range 3 {
		if b.Charge(ctx, fmt.Sprint(order, i)) == nil { // want `G112: this loop makes a new idempotency key`
			return
		}
	}
	for range 3 {
		if b.Charge(ctx, order) == nil {
			return
		}
	}
}

// A key for requests that have none yet.
func missing(req *http.Request) {
	if req.Header.Get("Idempotency-Key") == "" {
		req.Header.Set("Idempotency-Key", random())
	}
}

func fills(d *gabion.Dependency, c *http.Client, req *http.Request) {
	d.Run(req.Context(), func(ctx context.Context) error {
		missing(req)
		resp, err := c.Do(req.WithContext(ctx))
		if err != nil {
			return err
		}
		io.Copy(io.Discard, resp.Body)
		return resp.Body.Close()
	})
}

// Once more, though it may have been done.
func unknown(ctx context.Context, d *gabion.Dependency, b bank) error {
	err := pays(ctx, d, b)
	if errors.Is(err, policy.OutcomeUnknown) {
		err = pays(ctx, d, b) // want `G111: this repeats pays after an error that says that it may have been done`
	}
	if errors.Is(err, policy.BreakerOpen) {
		err = pays(ctx, d, b)
	}
	return err
}

func pays(ctx context.Context, d *gabion.Dependency, b bank) error {
	return d.Run(ctx, func(ctx context.Context) error { return b.Charge(ctx, "") })
}

// Goroutines whose answer nothing takes, and some whose answer has room.
func hurry(ctx context.Context, s store) error {
	c := make(chan error)
	go func() { c <- s.Save(ctx) }() // want `G127: nothing receives from c`
	select {
	case err := <-c:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func withRoom(ctx context.Context, s store) error {
	c := make(chan error, 1)
	go func() { c <- s.Save(ctx) }()
	select {
	case err := <-c:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func patient(ctx context.Context, s store) error {
	taken := make(chan error)
	kept := make(chan error)
	go func() { taken <- s.Save(ctx) }()
	select {
	case err := <-taken:
		return err
	case <-ctx.Done():
		return <-taken
	}
	go func() {
		select {
		case kept <- s.Save(ctx):
		case <-ctx.Done():
		}
	}()
	return <-kept
}

// A loop in a method under a retrier, and one reader for all that a helper repeats.
func layers(ctx context.Context, d *gabion.Dependency, s store) error {
	return d.Run(ctx, func(ctx context.Context) error { return looping(ctx, s) }) // want `G116: two layers retry here: looping has a loop`
}

func looping(ctx context.Context, s store) (err error) {
	for range 3 {
		if err = s.Save(ctx); err == nil {
			return nil
		}
	}
	return err
}

func uploads(ctx context.Context, c *http.Client, data *bytes.Buffer) error {
	return again(func() error {
		req, err := http.NewRequestWithContext(ctx, http.MethodPut, "https://a.example", io.NopCloser(data)) // want `G110: the work of again sends the same reader`
		if err != nil {
			return err
		}
		resp, err := c.Do(req)
		if err != nil {
			return err
		}
		io.Copy(io.Discard, resp.Body)
		return resp.Body.Close()
	})
}
