package shapes

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// Slots that a path keeps: nested, in a select, of a pool, a count of what is in flight.
type gate struct {
	mu       sync.Mutex
	slots    chan struct{}
	inFlight int
	active   atomic.Int64
	sem      semaphore
	fetch    func(context.Context, string) ([]byte, error)
}

type semaphore interface {
	Acquire(ctx context.Context, n int64) error
	Release(n int64)
}

func (g *gate) nested(ctx context.Context, ids []string) error {
	g.slots <- struct{}{}
	for _, id := range ids {
		if _, err := g.fetch(ctx, id); err != nil {
			if errors.Is(err, context.Canceled) {
				return err // want `G145`
			}
			continue
		}
	}
	<-g.slots
	return nil
}

func (g *gate) secondReturn(ctx context.Context, id string) ([]byte, error) {
	select {
	case g.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	b, err := g.fetch(ctx, id)
	if err != nil {
		<-g.slots
		return nil, err
	}
	if len(b) == 0 {
		return nil, errors.New("nothing") // want `G145`
	}
	<-g.slots
	return b, nil
}

func (g *gate) inClause(ctx context.Context, id string) ([]byte, error) {
	select {
	case g.slots <- struct{}{}:
		b, err := g.fetch(ctx, id)
		if err != nil {
			return nil, err // want `G145`
		}
		<-g.slots
		return b, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (g *gate) semaphore(ctx context.Context, id string) ([]byte, error) {
	if err := g.sem.Acquire(ctx, 1); err != nil {
		return nil, err
	}
	b, err := g.fetch(ctx, id)
	if err != nil {
		return nil, err // want `G145`
	}
	g.sem.Release(1)
	return b, nil
}

func (g *gate) counted(ctx context.Context, id string) ([]byte, error) {
	g.active.Add(1)
	b, err := g.fetch(ctx, id)
	if err != nil {
		return nil, err // want `G145`
	}
	g.active.Add(-1)
	return b, nil
}

func (g *gate) deferredTooLate(ctx context.Context, id string) ([]byte, error) {
	g.slots <- struct{}{}
	if id == "" {
		return nil, errors.New("no id") // want `G145`
	}
	defer func() { <-g.slots }()
	return g.fetch(ctx, id)
}

func (g *gate) rightOnAllPaths(ctx context.Context, ids []string) error {
	for _, id := range ids {
		if err := g.sem.Acquire(ctx, 1); err != nil {
			return err
		}
		b, err := g.fetch(ctx, id)
		if err != nil {
			g.sem.Release(1)
			continue
		}
		switch {
		case len(b) == 0:
			g.give()
			return errors.New("nothing")
		case len(b) > 1<<20:
			g.sem.Release(1)
			break
		default:
			g.sem.Release(1)
		}
	}
	return nil
}

func (g *gate) give() { g.sem.Release(1) }

func (g *gate) rightInGoroutine(ctx context.Context, ids chan string) error {
	for id := range ids {
		g.slots <- struct{}{}
		go func() {
			defer func() { <-g.slots }()
			_, _ = g.fetch(ctx, id)
		}()
	}
	return ctx.Err()
}

// begin keeps the slot for its caller on success, which is meant.
func (g *gate) begin(ctx context.Context, id string) (release func(), err error) {
	g.slots <- struct{}{}
	if _, err := g.fetch(ctx, id); err != nil {
		<-g.slots
		return nil, err
	}
	return func() { <-g.slots }, nil
}

func (g *gate) looks() int {
	g.mu.Lock()
	if g.inFlight > 10 {
		g.mu.Unlock()
		return 0
	}
	n := g.inFlight
	g.mu.Unlock()
	return n
}

// Units that are multiplied by another, that a header has, or that are missing.
type limits struct{ TimeoutMS, WaitSeconds int }

func (l limits) times(resp *http.Response) []time.Duration {
	n, err := strconv.Atoi(resp.Header.Get("Retry-After"))
	if err != nil {
		return nil
	}
	time.Sleep(time.Duration(n)) // want `G137`
	return []time.Duration{
		time.Duration(l.TimeoutMS) * time.Second, // want `G137`
		time.Duration(l.TimeoutMS) * time.Millisecond,
		time.Millisecond * time.Duration(l.WaitSeconds), // want `G137`
		time.Duration(l.WaitSeconds) * time.Second,
		time.Duration(l.WaitSeconds) * 1000 * time.Millisecond,
		time.Duration(n) * time.Second,
	}
}

func bare(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 30) // want `G137`
	defer cancel()
	hc := &http.Client{Timeout: 10} // want `G137`
	wait := 5 * time.Second
	wait /= 2
	if wait > 100 {
		wait = wait / 3
	}
	_ = hc
	return sleep(ctx, wait)
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// A statement beside the transaction that stands open.
type shop struct {
	db  *sql.DB
	pay payer
}

type payer interface {
	Charge(ctx context.Context, cents int64) error
	Refund(ctx context.Context, key string, cents int64) error
}

func (s *shop) take(ctx context.Context, sku string, n int) error {
	_, err := s.db.ExecContext(ctx, `UPDATE stock SET n = $1 WHERE sku = $2`, n, sku)
	return err
}

func (s *shop) order(ctx context.Context, sku string) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if _, err := tx.ExecContext(ctx, `INSERT INTO orders (sku) VALUES ($1)`, sku); err != nil {
		return err
	}
	if err := s.take(ctx, sku, 1); err != nil { // want `G124`
		return err
	}
	return tx.Commit()
}

func (s *shop) orderRight(ctx context.Context, sku string) error {
	if err := s.take(ctx, sku, 1); err != nil {
		return err
	}
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if _, err := tx.ExecContext(ctx, `INSERT INTO orders (sku) VALUES ($1)`, sku); err != nil {
		_, _ = s.db.ExecContext(ctx, `UPDATE orders SET state = 'failed' WHERE sku = $1`, sku)
		return err
	}
	if _, err := s.db.ExecContext(ctx, `INSERT INTO audit_log (sku) VALUES ($1)`, sku); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	return s.take(ctx, sku, 0)
}

// A failure that is only logged.
func (s *shop) settles(ctx context.Context, cents int64) error {
	if cents == 0 {
		return nil
	}
	if err := s.pay.Charge(ctx, cents); err != nil { // want `G130`
		log.Printf("charge: %v", err)
	}
	return nil
}

func (s *shop) settlesRight(ctx context.Context, cents int64) error {
	err := s.pay.Charge(ctx, cents)
	if err != nil {
		log.Printf("charge: %v", err)
	}
	_, stored := s.db.ExecContext(ctx, `UPDATE orders SET paid = $1`, err == nil)
	return errors.Join(err, stored)
}

// A connection that is read without a deadline.
func askLine(ctx context.Context, addr, line string) (string, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if _, err := fmt.Fprintln(conn, line); err != nil {
		return "", err
	}
	return bufio.NewReader(conn).ReadString('\n') // want `G107`
}

func askLineRight(ctx context.Context, addr, line string) (string, error) {
	conn, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(time.Second)); err != nil {
		return "", err
	}
	if _, err := fmt.Fprintln(conn, line); err != nil {
		return "", err
	}
	return bufio.NewReader(conn).ReadString('\n')
}
