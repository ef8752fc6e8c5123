package m08

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

type pushNote struct{ Device, Text string }

type pushPool struct {
	jobs chan pushNote
	send func(context.Context, pushNote) error
	dead func(pushNote, error)
	wg   sync.WaitGroup
}

func newPushPool(send func(context.Context, pushNote) error, dead func(pushNote, error)) *pushPool {
	return &pushPool{jobs: make(chan pushNote, 64), send: send, dead: dead}
}

func (p *pushPool) Start(ctx context.Context, workers int) {
	for id := range workers {
		p.wg.Go(func() {
			for n := range p.jobs {
				if err := p.deliver(ctx, n); err != nil {
					slog.ErrorContext(ctx, "push failed", "worker", id, "device", n.Device, "err", err)
					p.dead(n, err)
					// WRONG: a failed send ends the worker, not the job; after as many errors as workers no worker reads the queue and all producers hang
					return
				}
			}
		})
	}
}

// RIGHT
func (p *pushPool) StartSteady(ctx context.Context, workers int) {
	for id := range workers {
		p.wg.Go(func() {
			for n := range p.jobs {
				if err := p.deliver(ctx, n); err != nil {
					slog.ErrorContext(ctx, "push failed", "worker", id, "device", n.Device, "err", err)
					p.dead(n, err)
					continue
				}
			}
		})
	}
}

func (p *pushPool) deliver(ctx context.Context, n pushNote) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("push panicked: %v", r)
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	return p.send(ctx, n)
}

// Enqueue is called by request handlers; they stop before Close.
func (p *pushPool) Enqueue(ctx context.Context, n pushNote) error {
	select {
	case p.jobs <- n:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (p *pushPool) Close() {
	close(p.jobs)
	p.wg.Wait()
}
