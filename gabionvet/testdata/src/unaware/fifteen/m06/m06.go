package m06

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"
)

type refundJob struct {
	ID      int64
	Payload []byte
}

// refundWorker runs on every pod; send is not idempotent at the bank.
type refundWorker struct {
	db   *sql.DB
	self string
	send func(context.Context, refundJob) error
}

func (w *refundWorker) RunNext(ctx context.Context) (bool, error) {
	var j refundJob
	// WRONG: outside a transaction the row lock ends with the SELECT itself; two pods read the same job and refund it twice
	err := w.db.QueryRowContext(ctx, `SELECT id, payload FROM refund_jobs WHERE state = 'queued'
		ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED`).Scan(&j.ID, &j.Payload)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("claim: %w", err)
	}
	return true, w.finish(ctx, j, w.attempt(ctx, j))
}

// RIGHT
func (w *refundWorker) RunNextClaimed(ctx context.Context) (bool, error) {
	var j refundJob
	// A job of a pod that died stays 'running' and is looked at by a human.
	err := w.db.QueryRowContext(ctx, `UPDATE refund_jobs SET state = 'running', worker = $1, started_at = now()
		WHERE id = (SELECT id FROM refund_jobs WHERE state = 'queued' ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED)
		RETURNING id, payload`, w.self).Scan(&j.ID, &j.Payload)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("claim: %w", err)
	}
	return true, w.finish(ctx, j, w.attempt(ctx, j))
}

func (w *refundWorker) attempt(ctx context.Context, j refundJob) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	return w.send(ctx, j)
}

// finish parks a job that failed for a human, who asks the bank before he queues it again.
func (w *refundWorker) finish(ctx context.Context, j refundJob, sendErr error) error {
	state, note := "done", ""
	if sendErr != nil {
		state, note = "review", sendErr.Error()
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if _, err := w.db.ExecContext(ctx, `UPDATE refund_jobs SET state = $2, note = $3 WHERE id = $1`, j.ID, state, note); err != nil {
		return errors.Join(sendErr, fmt.Errorf("job %d not marked %s: %w", j.ID, state, err))
	}
	return sendErr
}
