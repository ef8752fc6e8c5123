package shapes

import (
	"bytes"
	"context"
	"errors"
	"log"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"
)

type cell struct {
	mu    sync.Mutex
	slots chan struct{}
	v     string
	load  func(ctx context.Context) (string, error)
}

func (c *cell) retried(ctx context.Context) (v string, err error) {
	for i := range 3 {
		if v, err = c.load(ctx); err == nil || errors.Is(err, context.Canceled) {
			return v, err
		}
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case <-time.After(rand.N(time.Second << i)):
		}
	}
	return "", err
}

func (c *cell) held(ctx context.Context) (string, error) {
	c.mu.Lock() // want `G141`
	v, err := c.retried(ctx)
	c.mu.Unlock()
	return v, err
}

// given back before it waits
func (c *cell) notHeld(ctx context.Context) (string, error) {
	c.mu.Lock()
	if c.v != "" {
		defer c.mu.Unlock()
		return c.v, nil
	}
	c.mu.Unlock()
	return c.retried(ctx)
}

func (c *cell) kept(ctx context.Context) (string, error) {
	c.mu.Lock()
	if c.v == "" {
		return "", errors.New("nothing") // want `G145`
	}
	c.mu.Unlock()
	return c.v, nil
}

// the branch gives it back
func (c *cell) givenBack(ctx context.Context) (string, error) {
	c.slots <- struct{}{}
	if c.v == "" {
		<-c.slots
		return "", errors.New("nothing")
	}
	<-c.slots
	return c.v, nil
}

func again(ctx context.Context, work func() error) (err error) {
	for i := range 3 {
		if err = work(); err == nil || errors.Is(err, context.Canceled) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(rand.N(time.Second << i)):
		}
	}
	return err
}

func (c *cell) added(ctx context.Context, out *bytes.Buffer) error {
	return again(ctx, func() error {
		v, err := c.load(ctx)
		out.WriteString(v) // want `G142`
		return err
	})
}

// emptied before
func (c *cell) emptied(ctx context.Context, out *bytes.Buffer) error {
	return again(ctx, func() error {
		out.Reset()
		v, err := c.load(ctx)
		out.WriteString(v)
		return err
	})
}

// words for which there is nothing better, and words of something else
func retryable(err error, name string) bool {
	return strings.Contains(err.Error(), "try again later") || strings.Contains(name, "timeout")
}

// the loop ends elsewhere
func (c *cell) ends(ctx context.Context) {
	for {
		if _, err := c.load(ctx); err != nil {
			return
		}
		select {
		case <-ctx.Done():
			log.Print("ends")
		case <-time.After(rand.N(time.Second)):
		}
	}
}

func (c *cell) goesOn(ctx context.Context) {
	for {
		if _, err := c.load(ctx); err != nil {
			log.Print(err)
		}
		select {
		case <-ctx.Done(): // want `G103`
			log.Print("ends")
		case <-time.After(rand.N(time.Second)):
		}
	}
}

type seen struct{ hc *http.Client }

// each path but this one counts
func (s *seen) counted(ctx context.Context, n int) {
	if _, err := s.get(ctx); err != nil {
		time.AfterFunc(time.Second, func() { s.counted(ctx, n-1) })
	}
}

func (s *seen) get(ctx context.Context) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://flags.example", nil)
	if err != nil {
		return nil, err
	}
	return s.hc.Do(req)
}

func (s *seen) forever(ctx context.Context) {
	if _, err := s.get(ctx); err != nil {
		time.AfterFunc(time.Second, func() { s.forever(ctx) }) // want `G102`
	}
}
