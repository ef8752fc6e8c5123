package outbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/gabion-go/gabion/internal/sqlkit"
	"github.com/gabion-go/gabion/messages/message"
)

// A row is a message that waits.
type row struct {
	Message
	seq      int64
	attempts int   // how often it failed while others were confirmed
	created  int64 // by the database's clock

	confirmed bool
	err       error // the last one, nil if it was not tried
}

// A verdict is what becomes of a row that was not confirmed.
type verdict struct {
	row  *row
	rest time.Duration // until it is tried again; zero parks it
}

// rows is what a relay does in the database. A token of an older leader changes nothing but
// what it published itself.
type rows interface {
	// acquire takes the lease if it is free. If another relay holds it, token is zero and left is
	// the rest of its time. A lease that would last for more than twice the length counts as
	// free.
	acquire(ctx context.Context, owner string, length time.Duration) (token int64, left time.Duration, err error)
	renew(ctx context.Context, token int64, length time.Duration) (held bool, err error)
	release(ctx context.Context, token int64) error

	// waiting returns the first rows to be published, without those excepted, at most limit
	// and not much more than maxBytes of payload, and whether that cut it short.
	waiting(ctx context.Context, except []int64, limit int) (batch []*row, cut bool, err error)

	// published removes rows that are no newer, or keeps them for a while. A replica that took over without the last rows
	// may have numbered newer ones in the same way.
	published(ctx context.Context, seqs []int64, newest int64, keep time.Duration) error

	// setAside puts off what failed and what is behind it.
	setAside(ctx context.Context, token int64, failed []verdict) (held bool, err error)

	// tidy lets go what is due again, or seems to rest for longer than anything may, and
	// removes what was kept for long enough.
	tidy(ctx context.Context, token int64, longest time.Duration) (held bool, err error)
}

// maxBytes bounds what a relay holds in memory. A single message may be larger.
const maxBytes = 16 << 20

// acquire implements rows.
func (o *Outbox) acquire(ctx context.Context, owner string, length time.Duration) (token int64, left time.Duration, err error) {
	var is int
	if err := o.db.QueryRowContext(ctx, o.sql.left).Scan(&is, &left); err != nil {
		return 0, 0, err
	}
	if err := known(is); err != nil || left > 0 && left <= 2*length {
		return 0, left, err
	}
	// The database's clock was set back if more is left: who lives renews it soon, and who took it
	// from one that lives has done no harm.
	err = o.db.QueryRowContext(ctx, o.sql.acquire, owner, int64(length), int64(2*length)).Scan(&token)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, length, nil // another relay did, just now
	}
	return token, 0, err
}

// renew implements rows.
func (o *Outbox) renew(ctx context.Context, token int64, length time.Duration) (bool, error) {
	return sqlkit.One(o.db.ExecContext(ctx, o.sql.renew, int64(length), token))
}

// release implements rows.
func (o *Outbox) release(ctx context.Context, token int64) error {
	_, err := o.db.ExecContext(ctx, o.sql.release, token)
	return err
}

// waiting implements rows.
func (o *Outbox) waiting(ctx context.Context, except []int64, limit int) (batch []*row, cut bool, err error) {
	tx, err := o.db.BeginTx(ctx, &sql.TxOptions{ReadOnly: o.dialect.inOrder != ""})
	if err != nil {
		return nil, false, err
	}
	defer tx.Rollback()
	if o.dialect.inOrder != "" {
		if _, err := tx.ExecContext(ctx, o.dialect.inOrder); err != nil {
			return nil, false, err
		}
	}
	found, err := tx.QueryContext(ctx, o.sql.waiting, o.dialect.numbers(except), limit)
	if err != nil {
		return nil, false, err
	}
	defer found.Close()
	total := 0
	for found.Next() {
		r := new(row)
		var headers []byte
		if err := found.Scan(&r.seq, &r.ID, &r.Topic, &r.Aggregate, &r.Payload, &headers, &r.attempts, &r.created); err != nil {
			return nil, false, err
		}
		if r.Headers, r.err = decode(headers); r.err != nil {
			r.err = &unreadable{r.err}
		}
		r.Payload, r.Headers = sqlkit.NotNil(r.Payload), r.Headers.With(message.Key, r.ID)
		batch = append(batch, r)
		if total += len(r.Payload); total >= maxBytes && len(batch) < limit {
			return batch, true, nil
		}
	}
	return batch, false, found.Err()
}

// An unreadable row can't be published by this program.
type unreadable struct{ error }

// published implements rows.
func (o *Outbox) published(ctx context.Context, seqs []int64, newest int64, keep time.Duration) (err error) {
	if keep > 0 {
		_, err = o.db.ExecContext(ctx, o.sql.keepPublished, int64(keep), o.dialect.numbers(seqs), newest)
	} else {
		_, err = o.db.ExecContext(ctx, o.sql.deletePublished, o.dialect.numbers(seqs), newest)
	}
	return err
}

// errFenced says that another leader came.
var errFenced = errors.New("outbox: another relay has the lease")

// fenced makes statements if the token is that of the leader.
func (o *Outbox) fenced(ctx context.Context, token int64, do func(*sql.Tx) error) (held bool, err error) {
	err = o.transact(ctx, func(tx *sql.Tx) (err error) {
		held, err = sqlkit.One(tx.ExecContext(ctx, o.sql.fence, token))
		switch {
		case err != nil:
			return err
		case !held:
			return errFenced
		}
		return do(tx)
	})
	if errors.Is(err, errFenced) {
		return false, ctx.Err()
	}
	return err == nil, err
}

// setAside implements rows.
func (o *Outbox) setAside(ctx context.Context, token int64, failed []verdict) (held bool, err error) {
	return o.fenced(ctx, token, func(tx *sql.Tx) error {
		for _, v := range failed {
			if _, err := tx.ExecContext(ctx, o.sql.setAside, int64(v.rest), int64(v.rest), v.row.attempts, failure(v.row.err), v.row.seq); err != nil {
				return err
			}
		}
		_, err := tx.ExecContext(ctx, o.sql.holdRest)
		return err
	})
}

// maxFailure bounds what is kept of an error.
const maxFailure = 500

func failure(err error) string {
	if err == nil {
		return ""
	}
	text := []rune(fmt.Sprintf("%q", err.Error())) // it may have a zero byte, which PostgreSQL does not take
	text = text[1 : len(text)-1]
	return string(text[:min(len(text), maxFailure)])
}

// maxKept bounds how many rows that were kept for long enough are removed by one statement, and
// tidying for how long there is another.
const (
	maxKept = 1000
	tidying = time.Second
)

// removeKept removes rows that were kept for long enough: more of them may end in a second than
// one statement should remove.
func (o *Outbox) removeKept(ctx context.Context) error {
	for begun := time.Now(); ; {
		result, err := o.db.ExecContext(ctx, o.sql.deleteKept, maxKept)
		if err != nil {
			return err
		}
		if n, err := result.RowsAffected(); err != nil || n < maxKept || time.Since(begun) > tidying {
			return err
		}
	}
}

// tidy implements rows.
func (o *Outbox) tidy(ctx context.Context, token int64, longest time.Duration) (held bool, err error) {
	if err := o.removeKept(ctx); err != nil {
		return false, err
	}
	var some int
	if err := o.db.QueryRowContext(ctx, o.sql.anyAside).Scan(&some); err != nil || some == 0 {
		return err == nil, err
	}
	return o.fenced(ctx, token, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, o.sql.releaseDue, int64(longest)); err != nil {
			return err
		}
		for _, text := range []string{o.sql.releaseRest, o.sql.holdRest} {
			if _, err := tx.ExecContext(ctx, text); err != nil {
				return err
			}
		}
		return nil
	})
}
