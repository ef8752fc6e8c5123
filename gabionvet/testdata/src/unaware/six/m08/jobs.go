// Package m08 takes jobs from a queue in a database.
//
// Mistake: the job is marked as done before the call is made. When the call
// fails the job is lost.
package m08

import (
	"context"
	"database/sql"
	"fmt"
	"net/http"
	"strings"
	"time"
)

type Worker struct {
	db     *sql.DB
	client *http.Client
	url    string
}

func (w *Worker) Step(ctx context.Context) error {
	var id int64
	var payload string
	err := w.db.QueryRowContext(ctx,
		`UPDATE jobs SET state = 'done' WHERE id = (SELECT id FROM jobs WHERE state = 'new' ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED)
		 RETURNING id, payload`).Scan(&id, &payload)
	if err != nil {
		return err
	}
	return w.deliver(ctx, id, payload)
}

func (w *Worker) deliver(ctx context.Context, id int64, payload string) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url, strings.NewReader(payload))
	if err != nil {
		return err
	}
	req.Header.Set("Idempotency-Key", fmt.Sprintf("job-%d", id))
	resp, err := w.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode >= 300 {
		return fmt.Errorf("job %d: %s", id, resp.Status)
	}
	return nil
}
