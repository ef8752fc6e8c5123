package m13

import (
	"context"
	"database/sql"
	"log/slog"
	"time"
)

// leaseElector runs the payout scheduler on one pod only.
type leaseElector struct {
	db         *sql.DB
	name, self string
	ttl        time.Duration
}

func (e *leaseElector) Run(ctx context.Context, lead func(context.Context)) {
	var term *leaseTerm
	defer func() { term.end() }()
	tick := time.NewTicker(e.ttl / 6)
	defer tick.Stop()
	for ctx.Err() == nil {
		held, err := e.renew(ctx)
		switch {
		case err != nil:
			// WRONG: a pod that cannot renew goes on leading after its lease ran out; another one takes over and both pay out
			slog.WarnContext(ctx, "lease renewal failed, will try again", "lease", e.name, "err", err)
		case held && term == nil:
			term = beginTerm(ctx, lead)
		case !held && term != nil:
			term.end()
			term = nil
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}

// RIGHT
func (e *leaseElector) RunFenced(ctx context.Context, lead func(context.Context)) {
	var term *leaseTerm
	var sureUntil time.Time
	defer func() { term.end() }()
	tick := time.NewTicker(e.ttl / 6)
	defer tick.Stop()
	for ctx.Err() == nil {
		asked := time.Now()
		held, err := e.renew(ctx)
		if err != nil {
			slog.WarnContext(ctx, "lease renewal failed, will try again", "lease", e.name, "err", err)
		} else if held {
			sureUntil = asked.Add(e.ttl / 2)
		}
		lost := (err == nil && !held) || (err != nil && time.Now().After(sureUntil))
		switch {
		case lost && term != nil:
			term.end()
			term = nil
		case err == nil && held && term == nil:
			term = beginTerm(ctx, lead)
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}

type leaseTerm struct {
	cancel context.CancelFunc
	done   chan struct{}
}

func beginTerm(ctx context.Context, lead func(context.Context)) *leaseTerm {
	ctx, cancel := context.WithCancel(ctx)
	t := &leaseTerm{cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(t.done)
		lead(ctx)
	}()
	return t
}

func (t *leaseTerm) end() {
	if t != nil {
		t.cancel()
		<-t.done
	}
}

func (e *leaseElector) renew(ctx context.Context) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, e.ttl/6)
	defer cancel()
	res, err := e.db.ExecContext(ctx, `UPDATE leases SET holder = $2, expires_at = now() + make_interval(secs => $3)
		WHERE name = $1 AND (holder = $2 OR expires_at < now())`, e.name, e.self, e.ttl.Seconds())
	if err != nil {
		return false, err
	}
	n, err := res.RowsAffected()
	return n == 1, err
}
