package outbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/gabion-go/gabion/internal/sqlkit"
)

// A Parked message is one that its relay has given up. Nothing of it is lost.
type Parked struct {
	Message  Message   // without its payload
	Bytes    int       // of payload
	Enqueued time.Time // by the database's clock
	Attempts int       // how often it failed while others were confirmed
	Failure  string    // the last error
	Behind   int       // messages of its aggregate that wait for it
}

// ErrNotParked says that the outbox has no such message that failed.
var ErrNotParked = errors.New("outbox: no message with that ID has failed")

// Parked lists messages that an operator has to look at, at most limit of them. cursor is empty
// at first and then the last call's next, which is empty at the end.
func (o *Outbox) Parked(ctx context.Context, cursor string, limit int) (page []Parked, next string, err error) {
	if o.db == nil {
		return nil, "", errNoDB
	}
	var after int64
	if cursor != "" {
		if after, err = strconv.ParseInt(cursor, 10, 64); err != nil {
			return nil, "", fmt.Errorf("outbox: parked: %q is no cursor", cursor)
		}
	}
	limit = max(limit, 1)
	found, err := o.db.QueryContext(ctx, o.sql.selectParked, after, limit)
	if err != nil {
		return nil, "", fmt.Errorf("outbox: parked: %w", err)
	}
	defer found.Close()
	for found.Next() {
		var p Parked
		var headers []byte
		var created int64
		m := &p.Message
		if err := found.Scan(&after, &m.ID, &m.Topic, &m.Aggregate, &p.Bytes, &headers, &created, &p.Attempts, &p.Failure, &p.Behind); err != nil {
			return nil, "", fmt.Errorf("outbox: parked: %w", err)
		}
		m.Headers, _ = decode(headers) // the Failure says it if they can't be read
		p.Enqueued = time.Unix(0, created)
		page = append(page, p)
	}
	if err := found.Err(); err != nil {
		return nil, "", fmt.Errorf("outbox: parked: %w", err)
	}
	if len(page) == limit {
		next = strconv.FormatInt(after, 10)
	}
	return page, next, nil
}

// Retry has a message published again that was parked or rests, and with it those behind it,
// as if it had not failed. It returns ErrNotParked for any other.
func (o *Outbox) Retry(ctx context.Context, id string) error {
	return o.decide(ctx, "retry", o.sql.retryParked, id)
}

// Discard removes a message that was parked or rests, so that it is never published, and
// lets go those behind it. It returns ErrNotParked for any other. A relay that lost its
// lease while it had the message at hand may still publish it once.
func (o *Outbox) Discard(ctx context.Context, id string) error {
	return o.decide(ctx, "discard", o.sql.discardParked, id)
}

// decide changes one row under the relay's lock: what is behind it can't be published in
// between.
func (o *Outbox) decide(ctx context.Context, what, text, id string) error {
	if o.db == nil {
		return errNoDB
	}
	err := o.transact(ctx, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, o.sql.lock); err != nil {
			return err
		}
		if found, err := sqlkit.One(tx.ExecContext(ctx, text, id)); err != nil || !found {
			if err == nil {
				err = fmt.Errorf("%w: %s", ErrNotParked, shown(id))
			}
			return err
		}
		_, err := tx.ExecContext(ctx, o.sql.releaseRest)
		return err
	})
	if err != nil && !errors.Is(err, ErrNotParked) {
		err = fmt.Errorf("outbox: %s: %w", what, err)
	}
	return err
}
