package sqlletters

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gabion-go/gabion/messages/deadletter"
)

// letterTexts read and write one letter.
type letterTexts struct {
	lock   string // keeps it from other transactions, also where it is not there; empty where nothing has to
	read   string
	insert string
	update string
	remove string
}

func letterStatements(fill func(string) string, lock string) letterTexts {
	return letterTexts{
		lock: lock,
		read: fill(`SELECT {columns}, failures, payload FROM {t} WHERE id = ?{rows}`),
		insert: fill(`INSERT INTO {t} ({columns}, failures, payload, held, bytes)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`),
		update: fill(updates(1)),
		remove: fill(`DELETE FROM {t} WHERE id = ?`),
	}
}

// noteTexts are about the failures of messages that are no letters.
type noteTexts struct {
	read         string
	write        string
	remove       string
	count        string
	removeOldest string
	sweep        string
}

func noteStatements(fill func(string) string) noteTexts {
	return noteTexts{
		read: fill(`SELECT failures FROM {t}_failures WHERE id = ?{rows}`),
		write: fill(`INSERT INTO {t}_failures (id, last, failures) VALUES (?, ?, ?)
			ON CONFLICT (id) DO UPDATE SET last = excluded.last, failures = excluded.failures`),
		remove:       fill(`DELETE FROM {t}_failures WHERE id = ?`),
		count:        fill(`SELECT coalesce(sum(n), 0) FROM {t}_counts WHERE grp = ? AND state = 253`),
		removeOldest: fill(`DELETE FROM {t}_failures WHERE id IN (SELECT id FROM {t}_failures ORDER BY last LIMIT ?)`),
		sweep:        fill(`DELETE FROM {t}_failures WHERE id IN (SELECT id FROM {t}_failures WHERE last < ? {part}{rows}) RETURNING last`),
	}
}

// counterTexts are about the counters of letters.
type counterTexts struct {
	head   string // what all changes need
	add    string
	stats  string
	groups string
	sum    string // what the counters say of a query
}

func counterStatements(fill func(string) string) counterTexts {
	return counterTexts{
		head: fill(`SELECT version, {now}, {shard}, (SELECT coalesce(sum(n), 0) FROM {t}_counts WHERE grp = ? AND state = 255),
			(SELECT coalesce(sum(bytes), 0) FROM {t}_counts WHERE grp = ? AND state = 255) FROM {t}_schema WHERE one = 1`),
		add:    fill(counts(1)),
		stats:  fill(`SELECT state, reason, held, sum(n), sum(bytes) FROM {t}_counts WHERE (grp = ? OR ? = 1) AND state NOT IN (253, 255) GROUP BY state, reason, held ORDER BY state, reason, held`),
		groups: fill(`SELECT DISTINCT grp FROM {t}_counts WHERE state = 254 ORDER BY grp`),
		sum:    fill(`SELECT grp, state, reason, held, sum(n) AS n FROM {t}_counts WHERE {where} GROUP BY grp, state, reason, held`),
	}
}

// load reads a letter to change it; the zero record means that there is no such letter.
func (t *tx) load(id deadletter.ID) (deadletter.Stored, error) {
	if err := t.write(); err != nil {
		return deadletter.Stored{}, err
	}
	r, err := readLetter(t.q.QueryRowContext(t, t.sql.letter.read, t.dialect.id(id)), true)
	if errors.Is(err, sql.ErrNoRows) {
		return deadletter.Stored{}, nil
	}
	return r, err
}

// save writes a letter in the place of what there was.
func (t *tx) save(old, next deadletter.Stored) error {
	if old.ID != "" {
		t.count(&old, -1)
	}
	t.count(&next, 1)
	if old.ID != "" && old.Live() && next.State != deadletter.Dropped {
		t.changed = append(t.changed, next)
		if !t.dialect.many || len(t.changed) == mostRows {
			return t.write()
		}
		return nil
	}
	if old.ID != "" { // its payload is another
		if _, err := t.q.ExecContext(t, t.sql.letter.remove, t.dialect.id(old.ID)); err != nil {
			return err
		}
	}
	_, err := t.q.ExecContext(t, t.sql.letter.insert, t.dialect.insertValues(&next)...)
	return err
}

func (t *tx) count(r *deadletter.Stored, n int64) {
	t.add(kind{r.Group, r.Reason, int(r.State), number(r.Held())}, n, n*r.Bytes())
	t.add(kind{state: countAll}, n, n*r.Bytes())
}

func (t *tx) add(k kind, n, bytes int64) {
	of := t.counts[k]
	t.counts[k] = tally{of.n + n, of.bytes + bytes}
}

// flush writes what was counted, always in the same order, so that no two transactions wait
// for each other.
func (t *tx) flush() error {
	if err := t.write(); err != nil {
		return err
	}
	kinds := make([]kind, 0, len(t.counts))
	for k, of := range t.counts {
		if of != (tally{}) {
			kinds = append(kinds, k)
		}
	}
	slices.SortFunc(kinds, func(a, b kind) int {
		return cmp.Or(strings.Compare(a.group, b.group), cmp.Compare(a.state, b.state), strings.Compare(a.reason, b.reason), cmp.Compare(a.held, b.held))
	})
	for some := range slices.Chunk(kinds, t.rows()) {
		var args []any
		for _, k := range some {
			of := t.counts[k]
			args = append(args, t.dialect.str(k.group), k.state, t.dialect.str(k.reason), k.held, t.shard, of.n, of.bytes)
		}
		if _, err := t.q.ExecContext(t, t.countText(len(some)), args...); err != nil {
			return err
		}
	}
	return nil
}

func (t *tx) countText(n int) string {
	if n == 1 {
		return t.sql.counter.add
	}
	return t.sql.fill(counts(n))
}

// Fail implements [deadletter.Store].
func (s *Store) Fail(ctx context.Context, id deadletter.ID, f deadletter.Failure) error {
	if err := id.Validate(); err != nil {
		return err
	}
	return s.change(ctx, id, func(t *tx) error {
		old, err := t.load(id)
		if err != nil {
			return err
		}
		if old.Live() {
			return t.save(old, old.Fail(f))
		}
		noted, err := t.noted(id)
		if err != nil {
			return err
		}
		if len(noted) == 0 {
			if err := t.boundNotes(); err != nil {
				return err
			}
		}
		text := writeFailures(deadletter.AddFailures(noted, f))
		_, err = t.q.ExecContext(t, t.sql.note.write, t.dialect.id(id), deadletter.Nanos(t.now), t.dialect.str(text))
		return err
	})
}

// boundNotes makes room for the failures of one more message.
func (t *tx) boundNotes() error {
	t.add(kind{state: countNotes}, 1, 0)
	var n int64
	err := t.q.QueryRowContext(t, t.sql.note.count, t.dialect.str("")).Scan(&n)
	if over := n + 1 - int64(t.options.MaxLetters); err == nil && over > 0 {
		err = t.forget(t.sql.note.removeOldest, over)
	}
	return err
}

// forget removes what was noted of messages.
func (t *tx) forget(text string, args ...any) error {
	res, err := t.q.ExecContext(t, text, args...)
	if err != nil {
		return err
	}
	n, err := res.RowsAffected()
	t.add(kind{state: countNotes}, -n, 0)
	return err
}

// noted reads the failures of a message that is no letter.
func (t *tx) noted(id deadletter.ID) ([]deadletter.Failure, error) {
	var text []byte
	err := t.q.QueryRowContext(t, t.sql.note.read, t.dialect.id(id)).Scan(&text)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return readFailures(text)
}

// Forget implements [deadletter.Store].
func (s *Store) Forget(ctx context.Context, id deadletter.ID) error {
	return s.change(ctx, id, func(t *tx) error { return t.forget(t.sql.note.remove, t.dialect.id(id)) })
}

// Put implements [deadletter.Store].
func (s *Store) Put(ctx context.Context, l deadletter.Letter) error {
	if n, most := l.Size(), min(s.options.MaxPayload, s.options.MaxBytes); n > most {
		return fmt.Errorf("%w: it has %d bytes, and the bound is %d", deadletter.ErrTooLarge, n, most)
	}
	return s.room.Put(ctx, func() (*deadletter.Notice, error) {
		err := s.change(ctx, l.ID, func(t *tx) error { return t.put(l) })
		if crowded, ok := errors.AsType[*crowdedError](err); ok {
			return &crowded.notice, nil
		}
		return nil, err
	}, func(told deadletter.Notice) error { return s.removeWaiting(ctx, told) })
}

func (t *tx) put(l deadletter.Letter) error {
	if err := l.ID.Validate(); err != nil {
		return err
	}
	old, err := t.load(l.ID)
	if err != nil {
		return err
	}
	noted, err := t.noted(l.ID)
	if err != nil {
		return err
	}
	next, err := old.Put(l, noted, t.now)
	if err != nil {
		return err
	}
	if !old.Live() {
		if err := t.lack(&old, &next); err != nil {
			return err
		}
		t.add(kind{group: l.Group, state: countPut}, 1, 0)
	}
	if len(noted) > 0 {
		if err := t.forget(t.sql.note.remove, t.dialect.id(l.ID)); err != nil {
			return err
		}
	}
	return t.save(old, next)
}

func missing(id deadletter.ID) error {
	return fmt.Errorf("%w: %.40q", deadletter.ErrNotFound, string(id))
}

// Get implements [deadletter.Store].
func (s *Store) Get(ctx context.Context, id deadletter.ID) (deadletter.Letter, error) {
	if err := ctx.Err(); err != nil {
		return deadletter.Letter{}, err
	}
	text := strings.TrimSuffix(s.sql.letter.read, s.dialect.rows)
	r, err := readLetter(s.db.QueryRowContext(ctx, text, s.dialect.id(id)), true)
	if errors.Is(err, sql.ErrNoRows) {
		return deadletter.Letter{}, missing(id)
	}
	return r.Letter, clear(err)
}

// one decides about one letter.
func (s *Store) one(ctx context.Context, id deadletter.ID, decide func(deadletter.Stored, time.Time) (deadletter.Stored, bool, error)) error {
	return s.change(ctx, id, func(t *tx) error {
		r, err := t.load(id)
		if err != nil {
			return err
		}
		if r.ID == "" {
			return missing(id)
		}
		next, changed, err := decide(r, t.now)
		if err != nil || !changed {
			return err
		}
		return t.save(r, next)
	})
}

// Resolve implements [deadletter.Store].
func (s *Store) Resolve(ctx context.Context, id deadletter.ID, res deadletter.Resolution, by, note string) error {
	return s.one(ctx, id, func(r deadletter.Stored, now time.Time) (deadletter.Stored, bool, error) {
		return r.Resolve(res, by, note, now)
	})
}

// Drop implements [deadletter.Store].
func (s *Store) Drop(ctx context.Context, id deadletter.ID, by, note string) error {
	return s.one(ctx, id, func(r deadletter.Stored, now time.Time) (deadletter.Stored, bool, error) {
		return r.Drop(by, note, now)
	})
}
