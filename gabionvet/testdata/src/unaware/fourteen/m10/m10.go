package m10

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"
)

type apiProcess struct {
	srv   *http.Server
	db    *sql.DB
	grace time.Duration
}

func newAPIProcess(addr string, db *sql.DB, h http.Handler) *apiProcess {
	return &apiProcess{
		srv: &http.Server{Addr: addr, Handler: h, ReadHeaderTimeout: 5 * time.Second,
			ReadTimeout: 15 * time.Second, WriteTimeout: 30 * time.Second, IdleTimeout: time.Minute},
		db: db, grace: 25 * time.Second,
	}
}

// Serve is the last call of main; ctx comes from signal.NotifyContext.
func (p *apiProcess) Serve(ctx context.Context) error {
	defer p.db.Close()
	go func() {
		<-ctx.Done()
		sctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.grace)
		defer cancel()
		if err := p.srv.Shutdown(sctx); err != nil {
			slog.Error("shutdown", "err", err)
		}
	}()
	slog.Info("listening", "addr", p.srv.Addr)
	// WRONG: ListenAndServe returns as soon as Shutdown begins; main does not wait for it, so each deploy closes the database and exits under running requests
	if err := p.srv.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve: %w", err)
	}
	return nil
}

// RIGHT
func (p *apiProcess) ServeDrained(ctx context.Context) error {
	defer p.db.Close()
	failed := make(chan error, 1)
	go func() {
		slog.Info("listening", "addr", p.srv.Addr)
		failed <- p.srv.ListenAndServe()
	}()
	select {
	case err := <-failed:
		return fmt.Errorf("serve: %w", err)
	case <-ctx.Done():
	}
	sctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.grace)
	defer cancel()
	if err := p.srv.Shutdown(sctx); err != nil {
		return errors.Join(fmt.Errorf("shutdown: %w", err), p.srv.Close())
	}
	return nil
}
