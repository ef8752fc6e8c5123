package shapes

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"time"
)

// What follows stands beside mistakes that look alike, and is right.

var (
	errOutcome = errors.New("it is not known what was done")
	errUnsent  = errors.New("nothing was done")
	errFull    = errors.New("full")
)

type ledger struct {
	hc      *http.Client
	base    string
	maxWait time.Duration
	counter interface {
		Add(ctx context.Context, n int64)
	}
	store interface {
		Put(ctx context.Context, v string) error
	}
	done chan struct{}
}

// what is asked for ends the loop
func (l *ledger) post(ctx context.Context, body []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, l.base+"/entries", bytes.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := l.hc.Do(req)
	if err != nil {
		return fmt.Errorf("%w: %w", errOutcome, err)
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 1<<16))
	if resp.StatusCode == http.StatusServiceUnavailable {
		return errFull
	}
	return nil
}

func pause(ctx context.Context, i int) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(rand.N(time.Second << min(i, 5))):
		return nil
	}
}

func (l *ledger) stopsAtUnknown(ctx context.Context, body []byte) (err error) {
	for i := range 3 {
		if err = l.post(ctx, body); err == nil || errors.Is(err, errOutcome) {
			return err
		}
		if err := pause(ctx, i); err != nil {
			return err
		}
	}
	return err
}

func (l *ledger) stopsAtUnknownLater(ctx context.Context, body []byte) (err error) {
	for i := range 3 {
		err = l.post(ctx, body)
		if err == nil {
			return nil
		}
		if errors.Is(err, errOutcome) {
			return fmt.Errorf("entry: %w", err)
		}
		if err := pause(ctx, i); err != nil {
			return err
		}
	}
	return err
}

func (l *ledger) goesOnWhenFull(ctx context.Context, body []byte) (err error) {
	for i := range 3 {
		if err = l.post(ctx, body); !errors.Is(err, errFull) {
			return err
		}
		if err := pause(ctx, i); err != nil {
			return err
		}
	}
	return err
}

// a dial alone is not sent
func (l *ledger) dialed(ctx context.Context, body []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, l.base+"/entries", bytes.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := l.hc.Do(req)
	if err != nil {
		var op *net.OpError
		if errors.As(err, &op) && op.Op == "dial" {
			return errUnsent
		}
		return err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, io.LimitReader(resp.Body, 1<<16))
	return err
}

func (l *ledger) goesOnWhenUnsent(ctx context.Context, body []byte) (err error) {
	for i := range 3 {
		if err = l.dialed(ctx, body); !errors.Is(err, errUnsent) {
			return err
		}
		if err := pause(ctx, i); err != nil {
			return err
		}
	}
	return err
}

func (l *ledger) switches(ctx context.Context, body []byte) (err error) {
	for i := range 3 {
		switch err = l.post(ctx, body); {
		case err == nil, errors.Is(err, errOutcome):
			return err
		}
		if err := pause(ctx, i); err != nil {
			return err
		}
	}
	return err
}

// waits that end or have a cap
func (l *ledger) capped(ctx context.Context, session func(context.Context) error) {
	wait := time.Second
	for {
		_ = session(ctx)
		select {
		case <-ctx.Done():
			return
		case <-time.After(rand.N(wait)):
		}
		if wait *= 2; wait > l.maxWait {
			wait = l.maxWait
		}
	}
}

func steps(ctx context.Context, probe func()) {
	for d := time.Millisecond; d < time.Second; d *= 2 {
		probe()
		select {
		case <-ctx.Done():
			return
		case <-time.After(d):
		}
	}
}

func until(ctx context.Context, look func() bool) bool {
	for d := time.Millisecond; ; d *= 2 {
		if look() {
			return true
		}
		if d > time.Minute {
			return false
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(rand.N(d)):
		}
	}
}

func shifted(ctx context.Context, session func(context.Context) error) {
	for n := 0; ; n++ {
		if session(ctx) == nil {
			n = 0
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(rand.N(time.Second << min(n, 6))):
		}
	}
}

func longer(d time.Duration) time.Duration { return min(2*d, time.Minute) }

func byFunction(ctx context.Context, session func(context.Context) error) {
	wait := time.Second
	for ctx.Err() == nil {
		_ = session(ctx)
		select {
		case <-ctx.Done():
		case <-time.After(rand.N(wait)):
		}
		wait = longer(wait)
	}
}

// goroutines of handlers
func (l *ledger) counts(w http.ResponseWriter, r *http.Request) {
	go l.count(r.Context())
	w.WriteHeader(http.StatusAccepted)
}

func (l *ledger) count(ctx context.Context) { l.counter.Add(ctx, 1) }

func (l *ledger) detached(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), time.Minute)
	go func() {
		defer cancel()
		_ = l.keep(ctx, "x")
	}()
	w.WriteHeader(http.StatusAccepted)
}

func (l *ledger) keep(ctx context.Context, v string) error { return l.store.Put(ctx, v) }

func (l *ledger) awaited(w http.ResponseWriter, r *http.Request) {
	end := make(chan error, 1)
	go func() { end <- l.keep(r.Context(), "x") }()
	if err := <-end; err != nil {
		http.Error(w, "not kept", http.StatusBadGateway)
	}
}

func (l *ledger) ofServer(base context.Context) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		go func() { _ = l.keep(base, r.URL.Path) }()
		w.WriteHeader(http.StatusAccepted)
	}
}

func (l *ledger) tells(w http.ResponseWriter, r *http.Request) {
	go l.end(r.Context())
	w.WriteHeader(http.StatusAccepted)
}

func (l *ledger) end(ctx context.Context) {
	<-ctx.Done()
	close(l.done)
}

// timeouts of attempts
func (l *ledger) undone(ctx context.Context, c *cell) (v string, err error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	for i := range 3 {
		if v, err = part(ctx, c); err == nil || errors.Is(err, context.Canceled) {
			return v, err
		}
		l.undo(ctx)
		if err := pause(ctx, i); err != nil {
			return "", err
		}
	}
	return "", err
}

func (l *ledger) undo(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	_ = l.store.Put(ctx, "")
}

func (l *ledger) inLoop(ctx context.Context, c *cell) (v string, err error) {
	all, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for i := range 3 {
		one, cancel := context.WithTimeout(all, 2*time.Second)
		v, err = c.load(one)
		cancel()
		if err == nil || errors.Is(err, context.Canceled) {
			return v, err
		}
		if err := pause(all, i); err != nil {
			return "", err
		}
	}
	return "", err
}

func (l *ledger) besides(ctx context.Context, c *cell) (v string, err error) {
	short, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if err := l.store.Put(short, "x"); err != nil {
		return "", err
	}
	for i := range 3 {
		one, cancel := context.WithTimeout(ctx, 2*time.Second)
		v, err = c.load(one)
		cancel()
		if err == nil || errors.Is(err, context.Canceled) {
			return v, err
		}
		if err := pause(ctx, i); err != nil {
			return "", err
		}
	}
	return "", err
}
