// Package p10 delivers events from a queue to the webhooks of customers.
package m10

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"
)

// Message is an event that the queue has handed out.
type Message struct {
	ID       string
	URL      string
	Body     []byte
	Attempts int // before this one
}

type Queue interface {
	Receive(ctx context.Context) (Message, error) // waits for one
	Done(ctx context.Context, id string) error
	Later(ctx context.Context, id string, after time.Duration) error
	Bury(ctx context.Context, id, why string) error
}

type Config struct {
	TimeoutMS   int
	MaxWaitSecs int
	MaxAttempts int
}

type Dispatcher struct {
	queue   Queue
	http    *http.Client
	maxWait time.Duration
	max     int
	log     *slog.Logger
}

func New(q Queue, c Config, log *slog.Logger) *Dispatcher {
	return &Dispatcher{
		queue:   q,
		http:    &http.Client{Timeout: time.Duration(max(c.TimeoutMS, 1000)) * time.Millisecond},
		maxWait: time.Duration(max(c.MaxWaitSecs, 60)) * time.Second,
		max:     min(max(c.MaxAttempts, 3), 12),
		log:     log,
	}
}

// Run delivers until ctx ends.
func (d *Dispatcher) Run(ctx context.Context) error {
	for {
		m, err := d.queue.Receive(ctx)
		if err != nil {
			return fmt.Errorf("receive: %w", err)
		}
		if err := d.handle(ctx, m); err != nil {
			d.log.ErrorContext(ctx, "webhooks: the queue hands it out again", "id", m.ID, "err", err)
		}
	}
}

func (d *Dispatcher) handle(ctx context.Context, m Message) error {
	status, ask, err := d.deliver(ctx, m)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err == nil && status < 300:
		return d.queue.Done(ctx, m.ID)
	case err == nil && !worthwhile(status):
		return d.queue.Bury(ctx, m.ID, http.StatusText(status))
	case m.Attempts+1 >= d.max:
		return d.queue.Bury(ctx, m.ID, fmt.Sprint("out of attempts: ", status, " ", err))
	}
	return d.queue.Later(ctx, m.ID, d.wait(m.Attempts, ask))
}

// wait is what the receiver asks for, within a day, and a random part that grows to maxWait.
func (d *Dispatcher) wait(attempts int, ask time.Duration) time.Duration {
	ceiling := min(2*time.Second<<min(attempts, 10), d.maxWait)
	return min(ask, 24*time.Hour) + rand.N(ceiling)
}

func (d *Dispatcher) deliver(ctx context.Context, m Message) (status int, ask time.Duration, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, m.URL, bytes.NewReader(m.Body))
	if err != nil {
		return 0, 0, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Webhook-Id", m.ID)
	resp, err := d.http.Do(req)
	if err != nil {
		return 0, 0, err
	}
	defer resp.Body.Close()
	ask, err = comeBack(resp.Header.Get("Retry-After"), time.Now())
	if err != nil {
		d.log.DebugContext(ctx, "webhooks: odd header", "id", m.ID, "err", err)
	}
	return resp.StatusCode, ask, nil
}

var errRetryAfter = errors.New("malformed Retry-After")

// comeBack reads when a receiver wants to be called again: seconds, or a date.
func comeBack(v string, now time.Time) (time.Duration, error) {
	if v == "" {
		return 0, nil
	}
	if n, err := strconv.ParseUint(v, 10, 31); err == nil {
		return time.Duration(n), nil
	}
	t, err := http.ParseTime(v)
	if err != nil {
		return 0, fmt.Errorf("%w: %q", errRetryAfter, v)
	}
	return max(t.Sub(now), 0), nil
}

func worthwhile(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusTooManyRequests:
		return true
	case http.StatusNotImplemented, http.StatusHTTPVersionNotSupported:
		return false
	}
	return status >= 500
}
