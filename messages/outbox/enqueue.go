package outbox

import (
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gabion-go/gabion/internal/idemkey"
	"github.com/gabion-go/gabion/internal/sqlkit"
)

// An Execer is the transaction of the program: a *sql.Tx, or a *sql.Conn on which it began
// one. contrib/gabionpgx makes one of a pgx.Tx.
type Execer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// Errors of [Outbox.Enqueue].
var (
	// ErrDuplicate says that the table has a message with that ID, or the same call has two.
	// Some of the messages of the call may be in the transaction: roll it back.
	ErrDuplicate = errors.New("outbox: there is a message with that ID")

	// ErrNoTransaction says that Enqueue got a database in place of a transaction: the
	// message would be sent whatever becomes of what it is about.
	ErrNoTransaction = errors.New("outbox: Enqueue needs a transaction")
)

// Enqueue writes messages into the table, in the caller's transaction: they are published if
// it commits, in the order of the arguments and of the calls.
//
// On PostgreSQL the transaction takes a lock for each aggregate, which it holds until it
// ends: another that enqueues for the same aggregate waits. That is what keeps the order,
// since transactions may commit in another order than they wrote. Transactions that enqueue for
// several aggregates in different order may deadlock. PostgreSQL ends one of them then, and
// gabionsql.RunTx repeats it. Messages without an aggregate take no lock.
//
// ErrMalformed and ErrTooLarge come before anything is sent to the database. ErrDuplicate
// leaves the transaction usable: a caller that enqueues one message, by an ID that says what it is
// about, may take it for done.
func (o *Outbox) Enqueue(ctx context.Context, tx Execer, messages ...Message) error {
	if t, is := tx.(*sql.Tx); tx == nil || is && t == nil {
		return ErrNoTransaction
	}
	if _, is := tx.(*sql.DB); is {
		return ErrNoTransaction
	}
	messages, err := o.checked(ctx, messages)
	if err != nil {
		return err
	}
	for part := range slices.Chunk(messages, maxInsert) {
		text, args := o.insertion(part)
		result, err := tx.ExecContext(ctx, text, args...)
		if err != nil {
			return fmt.Errorf("outbox: enqueue: %w", err)
		}
		n, err := result.RowsAffected()
		if err != nil {
			return fmt.Errorf("outbox: enqueue: %w", err)
		}
		if int(n) < len(part) {
			return fmt.Errorf("%w: %s", ErrDuplicate, idsOf(part))
		}
	}
	return nil
}

// checked returns the messages as they are stored.
func (o *Outbox) checked(ctx context.Context, given []Message) ([]Message, error) {
	fresh := func() string { return idemkey.New(time.Now()) }
	end, limited := ctx.Deadline()
	seen := make(map[string]bool, len(given))
	messages := make([]Message, len(given))
	for i, m := range given {
		if set, _ := m.Headers.Deadline(); o.options.Deadlines && limited && set.IsZero() {
			m.Headers = m.Headers.WithDeadline(end)
		}
		m, err := m.check(o.options.MaxPayload, fresh)
		if err != nil {
			return nil, err
		}
		if seen[m.ID] {
			return nil, fmt.Errorf("%w: %s, in the same call", ErrDuplicate, shown(m.ID))
		}
		seen[m.ID], messages[i] = true, m
	}
	return messages, nil
}

// maxInsert bounds the rows of one statement: they have five values each, and SQLite takes
// 999 at least.
const maxInsert = 100

// insertion returns the statement for some messages, and its arguments.
func (o *Outbox) insertion(messages []Message) (text string, args []any) {
	var b strings.Builder
	keys := o.lockKeys(messages)
	if len(keys) > 0 { // the numbers of the rows are drawn after the locks are had
		b.WriteString("WITH locks AS MATERIALIZED (SELECT count(pg_advisory_xact_lock(k)) AS held FROM (VALUES ")
		for i, k := range keys {
			b.WriteString(separated(i) + "(CAST(? AS bigint))")
			args = append(args, k)
		}
		b.WriteString(") AS keys(k)) ")
	}
	b.WriteString("INSERT INTO {table} (id, topic, aggregate, payload, headers, created) ")
	if len(keys) > 0 {
		b.WriteString("SELECT m.id, m.topic, m.aggregate, m.payload, m.headers, {now} FROM locks, (")
	}
	b.WriteString("VALUES ")
	for i, m := range messages {
		b.WriteString(separated(i))
		args = append(args, m.ID, m.Topic, m.Aggregate, sqlkit.NotNil(m.Payload), encode(m.Headers))
		switch {
		case len(keys) == 0:
			b.WriteString("(?, ?, ?, ?, ?, {now})")
		default:
			fmt.Fprintf(&b, "(%d, CAST(? AS text), CAST(? AS text), CAST(? AS text), CAST(? AS {blob}), CAST(? AS {blob}))", i)
		}
	}
	if len(keys) > 0 {
		b.WriteString(") AS m(n, id, topic, aggregate, payload, headers) WHERE locks.held > 0 ORDER BY m.n")
	}
	b.WriteString(" ON CONFLICT (id) DO NOTHING")
	return o.sql.insert(b.String()), args
}

func separated(i int) string {
	if i == 0 {
		return ""
	}
	return ", "
}

// lockKeys returns what the transaction has to lock, in an order that is the same for all.
func (o *Outbox) lockKeys(messages []Message) (keys []int64) {
	if !o.dialect.locks {
		return nil
	}
	for _, m := range messages {
		if m.Aggregate != "" {
			id := idemkey.ID("gabion outbox "+o.table, m.Aggregate)
			keys = append(keys, int64(binary.BigEndian.Uint64(id[:])))
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

func idsOf(messages []Message) string {
	if len(messages) == 1 {
		return shown(messages[0].ID)
	}
	return fmt.Sprintf("one of the %d from %s to %s", len(messages), shown(messages[0].ID), shown(messages[len(messages)-1].ID))
}
