package m05

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
)

type batchEntry struct{ ID, Body string }

type batchFailure struct{ ID, Code string }

type sendBatchOutput struct {
	Successful []string
	Failed     []batchFailure
}

// queueAPI is the part of the SQS client the relay needs.
type queueAPI interface {
	SendMessageBatch(ctx context.Context, queueURL string, entries []batchEntry) (*sendBatchOutput, error)
}

// outboxRelay runs once per database.
type outboxRelay struct {
	db  *sql.DB
	q   queueAPI
	url string
}

func (r *outboxRelay) Drain(ctx context.Context) (int, error) {
	batch, err := r.pending(ctx)
	if err != nil || len(batch) == 0 {
		return 0, err
	}
	// WRONG: the call succeeds even when entries of it were refused (throttling); they are marked sent and lost for good
	if _, err := r.q.SendMessageBatch(ctx, r.url, batch); err != nil {
		return 0, fmt.Errorf("send %d events: %w", len(batch), err)
	}
	ids := make([]string, 0, len(batch))
	for _, e := range batch {
		ids = append(ids, e.ID)
	}
	return len(ids), r.mark(ctx, `UPDATE outbox SET sent_at = now() WHERE id = ANY(string_to_array($1, ','))`, ids)
}

// RIGHT
func (r *outboxRelay) DrainChecked(ctx context.Context) (int, error) {
	batch, err := r.pending(ctx)
	if err != nil || len(batch) == 0 {
		return 0, err
	}
	out, err := r.q.SendMessageBatch(ctx, r.url, batch)
	if err != nil {
		return 0, fmt.Errorf("send %d events: %w", len(batch), err)
	}
	if err := r.mark(ctx, `UPDATE outbox SET sent_at = now() WHERE id = ANY(string_to_array($1, ','))`, out.Successful); err != nil {
		return 0, err
	}
	failed := make([]string, 0, len(out.Failed))
	for _, f := range out.Failed {
		failed = append(failed, f.ID)
	}
	if err := r.mark(ctx, `UPDATE outbox SET attempts = attempts + 1 WHERE id = ANY(string_to_array($1, ','))`, failed); err != nil {
		return len(out.Successful), err
	}
	if len(failed) > 0 {
		return len(out.Successful), fmt.Errorf("%d of %d events refused, first: %s", len(failed), len(batch), out.Failed[0].Code)
	}
	return len(out.Successful), nil
}

func (r *outboxRelay) mark(ctx context.Context, query string, ids []string) error {
	if len(ids) == 0 {
		return nil
	}
	_, err := r.db.ExecContext(ctx, query, strings.Join(ids, ","))
	return err
}

func (r *outboxRelay) pending(ctx context.Context) ([]batchEntry, error) {
	rows, err := r.db.QueryContext(ctx, `SELECT id, body FROM outbox WHERE sent_at IS NULL ORDER BY attempts, id LIMIT 10`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []batchEntry
	for rows.Next() {
		var e batchEntry
		if err := rows.Scan(&e.ID, &e.Body); err != nil {
			return nil, err
		}
		out = append(out, e)
	}
	return out, rows.Err()
}
