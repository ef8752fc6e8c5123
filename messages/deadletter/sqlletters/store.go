package sqlletters

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"hash/fnv"
	"time"

	"github.com/gabion-go/gabion/internal/sqlgroup"
	"github.com/gabion-go/gabion/internal/sqlkit"
	"github.com/gabion-go/gabion/internal/sqltx"
	"github.com/gabion-go/gabion/messages/deadletter"
)

// A Store keeps letters in the tables of one database. Make one with [New]. Safe for
// concurrent use, and for many processes.
type Store struct {
	db      *sql.DB
	dialect Dialect
	options deadletter.Options
	room    *deadletter.Room
	sql     statements
	group   *sqlgroup.Group // nil where each change is a transaction of its own
	settles settling
	taker   uint32
}

var _ deadletter.Store = (*Store)(nil)

// New returns a store in tables whose names begin with the given one, such as dead_letters.
// [Store.Migrate] makes them. It does not ask the database anything. The error is about the
// dialect, the name or the options.
func New(db *sql.DB, d Dialect, table string, o deadletter.Options) (*Store, error) {
	texts, err := d.statements(table)
	if err == nil {
		err = o.Validate()
	}
	if err != nil {
		return nil, fmt.Errorf("sqlletters: %w", err)
	}
	s := &Store{db: db, dialect: d, options: o.Resolved(), room: deadletter.NewRoom(o), sql: texts, taker: deadletter.NewTaker()}
	s.settles.change = s.change
	if d.group {
		s.group = sqlgroup.New(db, sqlgroup.Texts{Store: "sqlletters", Lock: s.sql.schema.lock, Prepared: s.sql.often()}, refusal)
	}
	return s, nil
}

// refusal reports whether an error is the store's own word: what was done before it is to
// stay.
func refusal(err error) bool {
	for _, own := range []error{
		deadletter.ErrNotFound, deadletter.ErrState, deadletter.ErrLost, deadletter.ErrFull, deadletter.ErrTooLarge, deadletter.ErrUnresolved,
		deadletter.ErrSchema, deadletter.ErrBusy,
	} {
		if errors.Is(err, own) {
			return true
		}
	}
	_, crowded := errors.AsType[*crowdedError](err)
	return crowded
}

// A tx is a change under way.
type tx struct {
	context.Context
	*Store
	q             sqlgroup.Queryer
	now           time.Time
	shard         int64
	letters, size int64 // all that there are
	counts        map[kind]tally
	changed       []deadletter.Stored // that are yet to be written
}

// A kind is what letters are counted by.
type kind struct {
	group, reason string
	state, held   int
}

type tally struct{ n, bytes int64 }

// change makes a change, alone or together with others'. What do assigns may not be read
// after an error: do may still be under way. Do may be called several times.
func (s *Store) change(ctx context.Context, id deadletter.ID, do func(*tx) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if s.group != nil {
		return clear(s.group.Do(ctx, func(ctx context.Context, q sqlgroup.Queryer) error { return s.within(ctx, q, id, do) }))
	}
	return clear(sqltx.Repeat(ctx, sqltx.Conflict, func(bool) error { return s.alone(ctx, id, do) }))
}

// alone makes a change in a transaction of its own.
func (s *Store) alone(ctx context.Context, id deadletter.ID, do func(*tx) error) error {
	t, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer t.Rollback() // does nothing after a commit
	said := s.within(ctx, t, id, do)
	if said != nil && !refusal(said) {
		return said
	}
	if err := t.Commit(); err != nil {
		return err
	}
	return said
}

// within makes a change in a transaction.
func (s *Store) within(ctx context.Context, q sqlgroup.Queryer, id deadletter.ID, do func(*tx) error) error {
	t := &tx{Context: ctx, Store: s, q: q, counts: map[kind]tally{}}
	if id != "" && s.sql.letter.lock != "" {
		if _, err := q.ExecContext(ctx, s.sql.letter.lock, lockOf(id)); err != nil {
			return err
		}
	}
	if err := t.begin(); err != nil {
		return err
	}
	said := do(t)
	if said != nil && !refusal(said) {
		return said
	}
	if err := t.flush(); err != nil {
		return err
	}
	return said
}

// lockOf is the number of a letter's lock. Two letters with one number wait for each other.
func lockOf(id deadletter.ID) int64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(id))
	return int64(h.Sum64())
}

// begin reads what all changes need.
func (t *tx) begin() error {
	var version int
	var now int64
	none := t.dialect.str("")
	err := t.q.QueryRowContext(t, t.sql.counter.head, none, none).Scan(&version, &now, &t.shard, &t.letters, &t.size)
	if err != nil {
		return missingTable(err)
	}
	if err := known(version); err != nil {
		return err
	}
	switch {
	case t.options.Clock != nil:
		t.now = t.options.Clock()
	case t.dialect.kit.Now != "":
		t.now = deadletter.Time(now)
	default:
		t.now = time.Now()
	}
	return nil
}

// known returns what is wrong with tables of that version.
func known(version int) error {
	switch {
	case version > len(versions):
		return fmt.Errorf("%w: they are of version %d, and the newest that it knows is %d: use a newer program", deadletter.ErrSchema, version, len(versions))
	case version < len(versions):
		return fmt.Errorf("%w: they are of version %d, and it needs %d: call Migrate", deadletter.ErrSchema, version, len(versions))
	}
	return nil
}

func missingTable(err error) error {
	if errors.Is(err, sql.ErrNoRows) {
		return known(0)
	}
	return err
}

// none returns nil for the absence of a row.
func none(err error) error {
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	return err
}

// Codes of SQLite, and states of PostgreSQL, that users can do something about.
var remedies = map[int]string{
	5: "the database is locked by another process", 6: "the database is locked", 8: "the database is read-only", 11: "the database is damaged",
	13: "the disk is full, or the database's largest size is reached", 14: "the database can't be opened", 26: "the file is no database",
}

var stateRemedies = map[string]string{
	"25006": "the database is read-only", "53100": "the disk is full", "42501": "the role may not do this", "42P01": "a table is missing: call Migrate",
}

// clear says in words what a database's error means.
func clear(err error) error {
	if err == nil || refusal(err) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	if says, ok := stateRemedies[sqltx.StateOf(err)]; ok {
		return fmt.Errorf("sqlletters: %s: %w", says, err)
	}
	if code, ok := errors.AsType[interface {
		error
		Code() int
	}](err); ok {
		if says, ok := remedies[code.Code()&0xff]; ok {
			return fmt.Errorf("sqlletters: %s: %w", says, err)
		}
	}
	return fmt.Errorf("sqlletters: %w", err)
}

// Migrate makes the tables, or brings those of an older program up to date. It may run in
// many processes at once, and does nothing where there is nothing to do, so that a database
// that may only be read can be used. Tables of a newer program are ErrSchema. A server that is too old
// is refused before a table is made.
func (s *Store) Migrate(ctx context.Context) error {
	version, err := s.version(ctx)
	if err == nil && version >= len(versions) {
		return known(version)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return clear(sqlkit.UntilMade(func() error { return s.migrate(ctx) }))
}

// Check returns what keeps the store from being used: a database that does not answer,
// tables that are missing, or ErrSchema for those of another version. It changes nothing, so it is
// for programs that must not call Migrate, such as an operator's command.
func (s *Store) Check(ctx context.Context) error {
	version, err := s.version(ctx)
	if err != nil {
		return clear(missingTable(err))
	}
	return known(version)
}

// version returns that of the tables, or an error if there are none.
func (s *Store) version(ctx context.Context) (version int, err error) {
	err = s.db.QueryRowContext(ctx, s.sql.schema.read).Scan(&version)
	return version, err
}

// migrate makes all steps in one transaction, which begins with a write so that only one
// process is at it.
func (s *Store) migrate(ctx context.Context) error {
	if err := s.dialect.kit.Check(ctx, sqlkit.DB{DB: s.db}); err != nil {
		return err
	}
	if _, err := s.db.ExecContext(ctx, s.sql.schema.table); err != nil {
		return err
	}
	t, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer t.Rollback() // does nothing after a commit
	if _, err := t.ExecContext(ctx, s.sql.schema.begin); err != nil {
		return err
	}
	var version int
	if err := t.QueryRowContext(ctx, s.sql.schema.read).Scan(&version); err != nil {
		return err
	}
	if version > len(versions) {
		return known(version)
	}
	for _, step := range versions[version:] {
		for _, text := range step {
			if _, err := t.ExecContext(ctx, s.sql.fill(text)); err != nil {
				return err
			}
		}
	}
	if _, err := t.ExecContext(ctx, s.sql.schema.set, len(versions)); err != nil {
		return err
	}
	return t.Commit()
}
