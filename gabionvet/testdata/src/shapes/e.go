package shapes

import (
	"context"
	"math/rand/v2"
	"net"
	"time"
)

// Waits with a cap, or in a loop that is counted.
func capped(ctx context.Context, d *net.Dialer, addr string, limit time.Duration) net.Conn {
	for n := 0; ; n++ {
		if n > 0 {
			wait := time.Second << n
			if wait > limit {
				wait = limit
			}
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(rand.N(wait)):
			}
		}
		if conn, err := d.DialContext(ctx, "tcp", addr); err == nil {
			return conn
		}
	}
}

func uncapped(ctx context.Context, d *net.Dialer, addr string) net.Conn {
	for n := 0; ; n++ {
		if n > 0 {
			wait := time.Second << n
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(rand.N(wait)): // want `G139`
			}
		}
		if conn, err := d.DialContext(ctx, "tcp", addr); err == nil {
			return conn
		}
	}
}

func countedDown(ctx context.Context, d *net.Dialer, addr string, left int) (net.Conn, error) {
	wait := time.Second
	for {
		conn, err := d.DialContext(ctx, "tcp", addr)
		if err == nil {
			return conn, nil
		}
		if left--; left == 0 {
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(rand.N(wait)):
		}
		wait *= 2
	}
}

type delivery struct{ body string }

func (d *delivery) Ack() error { return nil }

type inbox interface {
	Store(ctx context.Context, body string) error
	Handle(ctx context.Context, body string) error
}

func stored(ctx context.Context, d *delivery, in inbox) error {
	if err := in.Store(ctx, d.body); err != nil {
		return err
	}
	if err := d.Ack(); err != nil {
		return err
	}
	return in.Handle(ctx, d.body)
}

func forgotten(ctx context.Context, d *delivery, in inbox) error {
	body := d.body
	_ = d.Ack() // want `G140`
	return in.Handle(ctx, body)
}

// Of three that are started each is received on each path.
func allTaken(find func() string) []string {
	ch := make(chan string)
	for range 3 {
		go func() { ch <- find() }()
	}
	all := []string{<-ch}
	for len(all) < 3 {
		all = append(all, <-ch)
	}
	return all
}

func startedLater(find func() string, after time.Duration) string {
	ch := make(chan string)
	go func() { ch <- find() }()
	select {
	case s := <-ch:
		return s
	case <-time.After(after):
		go func() { ch <- find() }() // want `G127`
	}
	return <-ch
}

func lastTaken(find func() string, more bool) string {
	ch := make(chan string)
	go func() { ch <- find() }()
	if more {
		go func() { ch <- find() }()
		<-ch
	}
	return <-ch
}
