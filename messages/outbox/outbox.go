package outbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/gabion-go/gabion/internal/sqlkit"
	"github.com/gabion-go/gabion/internal/sqltx"
)

// Options is how an [Outbox] works. The zero value is sound.
type Options struct {
	// MaxPayload is how many bytes of payload a message may have. Zero means what has room in 1 MiB
	// beside its headers, its topic and its ID: that is what NATS takes by default. A larger
	// message fails its transaction with ErrTooLarge, which is better than one that the broker
	// refuses later.
	MaxPayload int

	// Deadlines makes Enqueue write the deadline of its context into the header message.Deadline,
	// unless the message has that header. Zero means not to: the message may be wanted after the caller
	// has stopped waiting for the transaction.
	Deadlines bool
}

// An Outbox is a table of messages. Make one with [New]. Safe for concurrent use, also by
// several processes.
type Outbox struct {
	db      *sql.DB
	dialect Dialect
	table   string
	sql     *texts
	options Options
}

// ErrNewer says that the tables are those of a newer program, which this one does not
// understand.
var ErrNewer = errors.New("outbox: the tables are of a newer version than this program knows")

// New returns an outbox in the given table, which [Outbox.Migrate] creates. db is what
// relays and operators use; it may be nil where only Enqueue is called. The error is about
// the dialect, the table's name or the options.
func New(db *sql.DB, d Dialect, table string, o Options) (*Outbox, error) {
	t, err := d.texts(table)
	if err != nil {
		return nil, err
	}
	if o.MaxPayload < 0 {
		return nil, fmt.Errorf("outbox: MaxPayload is %d bytes: it can't be negative", o.MaxPayload)
	}
	return &Outbox{db: db, dialect: d, table: table, sql: t, options: o}, nil
}

var errNoDB = errors.New("outbox: New got no database")

// Migrate creates what is missing: the table of messages, its indexes, and the table of the
// relay. Any number of programs may call it at the same time. It returns ErrNewer for the
// tables of a newer program, and another error for a server that is too old.
func (o *Outbox) Migrate(ctx context.Context) error {
	if o.db == nil {
		return errNoDB
	}
	if err := o.dialect.kit.Create(ctx, sqlkit.DB{DB: o.db}, o.sql.migrate...); err != nil {
		return fmt.Errorf("outbox: migrate: %w", err)
	}
	return o.Check(ctx)
}

// Check returns what keeps the outbox from being used: a database that does not answer, tables
// that are missing, or ErrNewer. It changes nothing, so it is for programs that must not call
// Migrate, such as an operator's command.
func (o *Outbox) Check(ctx context.Context) error {
	if o.db == nil {
		return errNoDB
	}
	var is int
	if err := o.db.QueryRowContext(ctx, o.sql.version).Scan(&is); err != nil {
		return fmt.Errorf("outbox: check: %w", err)
	}
	return known(is)
}

func known(is int) error {
	if is > version {
		return fmt.Errorf("%w: %d, the newest known is %d", ErrNewer, is, version)
	}
	return nil
}

// Stats are figures of an outbox at one moment.
type Stats struct {
	Waiting int           // to be published, those behind a parked one included
	Oldest  time.Duration // how long the oldest of them has waited; zero if Waiting is
	Resting int           // failed, and tried again later
	Parked  int           // given up until an operator retries or discards them
	Leader  string        // the relay that has the lease; empty means no relay
}

// Stats reads the figures from the database. It counts rows, so where many wait call it by
// the minute and not by the second.
func (o *Outbox) Stats(ctx context.Context) (s Stats, err error) {
	if o.db == nil {
		return s, errNoDB
	}
	var now, oldest, until int64
	err = o.db.QueryRowContext(ctx, o.sql.selectStats).Scan(&now, &s.Waiting, &s.Resting, &s.Parked, &oldest, &s.Leader, &until)
	if err != nil {
		return Stats{}, fmt.Errorf("outbox: stats: %w", err)
	}
	if oldest > 0 {
		s.Oldest = max(time.Duration(now-oldest), 0)
	}
	if until <= now {
		s.Leader = ""
	}
	return s, nil
}

// transact makes a few statements in one transaction, and repeats that when the database
// asks for it.
func (o *Outbox) transact(ctx context.Context, do func(*sql.Tx) error) error {
	return sqltx.Repeat(ctx, sqltx.Contended, func(bool) error {
		tx, err := o.db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback() // does nothing after a commit
		if err := do(tx); err != nil {
			return err
		}
		return tx.Commit()
	})
}
