// Package p11 compares our books with the statements of the banks, all day long.
package m11

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

type Statement struct {
	Account string
	Cents   int64
}

type Bank struct {
	Name string
	URL  string
}

type Worker struct {
	banks []Bank
	book  string // URL of the bookkeeping service
	every time.Duration
	http  *http.Client
	log   *slog.Logger
}

func New(banks []Bank, book string, log *slog.Logger) *Worker {
	return &Worker{banks: banks, book: book, every: 5 * time.Minute, http: newClient(), log: log}
}

func newClient() *http.Client {
	dialer := &net.Dialer{Timeout: 3 * time.Second, KeepAlive: 30 * time.Second}
	return &http.Client{Transport: &http.Transport{
		DialContext:           dialer.DialContext,
		TLSHandshakeTimeout:   3 * time.Second,
		IdleConnTimeout:       90 * time.Second,
		ExpectContinueTimeout: time.Second,
		MaxIdleConnsPerHost:   4,
	}}
}

// Main runs the worker until the process is told to stop.
func (w *Worker) Main() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	tick := time.NewTicker(w.every)
	defer tick.Stop()
	for {
		if err := w.round(ctx); err != nil && ctx.Err() == nil {
			w.log.ErrorContext(ctx, "reconcile: round failed", "err", err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

func (w *Worker) round(ctx context.Context) error {
	var failed []error
	for _, b := range w.banks {
		statements, err := w.pull(ctx, b)
		if err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", b.Name, err))
			continue
		}
		if err := w.post(ctx, b, statements); err != nil {
			failed = append(failed, fmt.Errorf("book %s: %w", b.Name, err))
		}
	}
	return errors.Join(failed...)
}

// pull reads the statements of one bank.
func (w *Worker) pull(ctx context.Context, b Bank) (all []Statement, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, b.URL+"/statements", nil)
	if err != nil {
		return nil, err
	}
	err = w.exchange(req, &all)
	return all, err
}

// post hands statements to the bookkeeping, which knows by account and day what it has.
func (w *Worker) post(ctx context.Context, b Bank, all []Statement) error {
	payload, err := json.Marshal(all)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, w.book+"/"+b.Name, bytes.NewReader(payload))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	return w.exchange(req, nil)
}

func (w *Worker) exchange(req *http.Request, out any) error {
	resp, err := w.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		return errors.New(resp.Status)
	}
	if out == nil {
		return nil
	}
	return json.NewDecoder(io.LimitReader(resp.Body, 16<<20)).Decode(out)
}
