package shapes

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/avast/retry-go/v4"
)

type cache interface {
	Refresh(ctx context.Context) error
	Undo(ctx context.Context) error
}

// Workers without an end.
func worker(ctx context.Context, c cache) {
	go func() {
		for {
			if err := c.Refresh(ctx); err != nil {
				fmt.Println(err)
			}
			time.Sleep(time.Minute) // want `G103`
		}
	}()
}

func ticking(ctx context.Context, c cache) {
	t := time.NewTicker(time.Minute)
	for range t.C { // want `G103`
		_ = c.Refresh(ctx)
	}
}

func stops(ctx context.Context, c cache, stop chan struct{}) {
	for {
		_ = c.Refresh(ctx)
		select {
		case <-stop:
			return
		case <-time.After(time.Minute):
		}
	}
}

// Closed before it is read.
func (c *client) closed(ctx context.Context) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, "GET", c.base, nil)
	if err != nil {
		return nil, err
	}
	resp, err := c.hc.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close() // want `G128`
	if resp.StatusCode != 200 {
		return nil, fmt.Errorf("%s", resp.Status)
	}
	return resp, nil
}

func closedRows(ctx context.Context, db *sql.DB) (*sql.Rows, error) {
	rows, err := db.QueryContext(ctx, "SELECT 1")
	if err != nil {
		return nil, err
	}
	defer rows.Close() // want `G128`
	return rows, nil
}

func readHere(ctx context.Context, db *sql.DB) (n int, err error) {
	rows, err := db.QueryContext(ctx, "SELECT 1")
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	for rows.Next() {
		n++
	}
	return n, rows.Err()
}

// A context that has ended.
func undo(ctx context.Context, c cache) error {
	if err := c.Refresh(ctx); err != nil {
		if ctx.Err() != nil {
			return errors.Join(err, c.Undo(ctx)) // want `G132`
		}
		return err
	}
	select {
	case <-ctx.Done():
		return c.Undo(ctx) // want `G132`
	case <-time.After(time.Second):
		return nil
	}
}

// No wait.
func atOnce(ctx context.Context, c cache) (err error) {
	for i := 0; i < 10; i++ {
		if err = c.Refresh(ctx); err == nil { // want `G133`
			return nil
		}
	}
	return err
}

func dies(ctx context.Context, c cache) {
	for ctx.Err() == nil {
		if c.Refresh(ctx) == nil {
			return
		}
	}
}

// 429.
func (c *client) limited(ctx context.Context) error {
	for i := 0; i < 4; i++ {
		req, err := http.NewRequestWithContext(ctx, "GET", c.base, nil)
		if err != nil {
			return err
		}
		resp, err := c.hc.Do(req) // want `G134`
		if err != nil {
			return err
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		if resp.StatusCode != http.StatusTooManyRequests {
			return nil
		}
		if err := pauseFor(ctx, jitter(i)); err != nil {
			return err
		}
	}
	return errors.New("limited")
}

// A library without the context.
func deaf(ctx context.Context, c cache) error {
	return retry.Do(func() error { return c.Refresh(ctx) }) // want `G103`
}

// A transaction that a function literal ends, and one whose Begin is asked later.
func ends(ctx context.Context, db *sql.DB) (err error) {
	end := func() {}
	defer func() { end() }()
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	end = func() { tx.Rollback() }
	if _, err := tx.ExecContext(ctx, "UPDATE a SET n = 1"); err != nil {
		return err
	}
	return tx.Commit()
}

func refused(err error) bool { return errors.Is(err, errors.ErrUnsupported) }

// A loop that asks, by whatever name.
func asking(ctx context.Context, c cache) (err error) {
	for i := 0; i < 10; i++ {
		if err = c.Refresh(ctx); err == nil || refused(err) {
			return err
		}
	}
	return err
}

// A RoundTripper that sends a body twice.
type twice struct{ next http.RoundTripper }

func (t twice) RoundTrip(r *http.Request) (resp *http.Response, err error) {
	for range 2 {
		if resp, err = t.next.RoundTrip(r.Clone(r.Context())); err == nil { // want `G110`
			return resp, nil
		}
	}
	return nil, err
}
