package sqlletters

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"

	"github.com/gabion-go/gabion/messages/deadletter"
)

// boundTexts find and remove letters that have to go.
type boundTexts struct {
	sweep        string
	makeRoom     string // removes what is done or dropped
	longest      string // the letters that wait the longest
	waiting      string // how many wait, and their bytes
	removeOldest string
}

func boundStatements(fill func(string) string) boundTexts {
	const gone = " RETURNING grp, state, reason, held, bytes"
	return boundTexts{
		sweep:        fill(`DELETE FROM {t} WHERE id IN (SELECT id FROM {t} WHERE state >= 2 AND since < ? {part}{rows})` + gone),
		makeRoom:     fill(`DELETE FROM {t} WHERE id IN (SELECT id FROM {t} WHERE state >= 2 AND id <> ? ORDER BY since LIMIT ?{rows})` + gone),
		longest:      fill(`SELECT grp, bytes, kept, id FROM {t} WHERE state = 0 ORDER BY kept, id LIMIT ` + strconv.Itoa(told)),
		waiting:      fill(`SELECT coalesce(sum(n), 0), coalesce(sum(bytes), 0) FROM {t}_counts WHERE state = 0`),
		removeOldest: fill(`DELETE FROM {t} WHERE id IN (SELECT id FROM {t} WHERE state = 0 AND kept <= ? AND (kept < ? OR id <= ?) ORDER BY kept, id LIMIT ?{rows})` + gone),
	}
}

// A crowdedError says that waiting letters have to go before another comes, and must be reported
// before they go.
type crowdedError struct{ notice deadletter.Notice }

// Error implements error.
func (e *crowdedError) Error() string { return fmt.Sprintf("%d letters have to go", e.notice.Letters) }

// lack makes room for a letter by removing what is done or dropped, or says what has to go
// besides. Several transactions at once may get a few letters past the bounds.
func (t *tx) lack(old, next *deadletter.Stored) error {
	need, more := next.Bytes(), int64(1)
	if old.ID != "" {
		need, more = need-old.Bytes(), 0
	}
	lacks := func(n, bytes int64) bool {
		return t.letters-n+more > int64(t.options.MaxLetters) || t.size-bytes+need > t.options.MaxBytes
	}
	for lacks(0, 0) {
		n, bytes, err := t.gone(t.q.QueryContext(t, t.sql.bound.makeRoom, t.dialect.id(next.ID), 1))
		if err != nil {
			return err
		}
		if n == 0 {
			break
		}
		t.letters, t.size = t.letters-n, t.size-bytes
	}
	if !lacks(0, 0) {
		t.letters, t.size = t.letters+more, t.size+need
		return nil
	}
	if t.options.Overflow == deadletter.DropOldest {
		if n, err := t.oldest(lacks); err != nil || n != nil {
			if err != nil {
				return err
			}
			return &crowdedError{*n}
		}
	}
	return fmt.Errorf("%w: it has %d letters with %d bytes, and the bounds are %d and %d",
		deadletter.ErrFull, t.letters, t.size, t.options.MaxLetters, t.options.MaxBytes)
}

// told is how many letters are reported and removed at once at most.
const told = 1000

// oldest finds the letters that wait the longest and have to go, or the first of them if they
// are many. It is nil if it would not help that all go.
func (t *tx) oldest(lacks func(n, bytes int64) bool) (*deadletter.Notice, error) {
	rows, err := t.q.QueryContext(t, t.sql.bound.longest)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var n deadletter.Notice
	for rows.Next() {
		var group string
		var bytes int64
		var at deadletter.Place
		if err := rows.Scan(&group, &bytes, &at.Kept, &at.ID); err != nil {
			return nil, err
		}
		n.Add(group, bytes, at)
		if !lacks(int64(n.Letters), n.Bytes) {
			return &n, nil
		}
	}
	if n.Letters < told || rows.Err() != nil {
		return nil, rows.Err()
	}
	var letters, bytes int64
	if err := t.q.QueryRowContext(t, t.sql.bound.waiting).Scan(&letters, &bytes); err != nil || lacks(letters, bytes) {
		return nil, err
	}
	return &n, nil
}

// gone counts letters that were removed, from what the statement returned of them.
func (t *tx) gone(rows *sql.Rows, err error) (n, bytes int64, _ error) {
	if err != nil {
		return 0, 0, err
	}
	defer rows.Close()
	for rows.Next() {
		var k kind
		var size int64
		if err := rows.Scan(&k.group, &k.state, &k.reason, &k.held, &size); err != nil {
			return 0, 0, err
		}
		n, bytes = n+1, bytes+size
		t.add(k, -1, -size)
		t.add(kind{state: countAll}, -1, -size)
	}
	return n, bytes, rows.Err()
}

// parts makes a change again and again, each time in a transaction of its own, until one
// changes nothing any more. It returns how many were changed.
func (s *Store) parts(ctx context.Context, do func(*tx) (int64, error)) (total int, err error) {
	for {
		n := new(int64)
		if err := s.change(ctx, "", func(t *tx) (err error) {
			*n, err = do(t)
			return err
		}); err != nil {
			return total, err
		}
		if total += int(*n); *n == 0 {
			return total, nil
		}
	}
}

// removeWaiting removes the letters that were told of, of which there are at most a thousand.
func (s *Store) removeWaiting(ctx context.Context, n deadletter.Notice) error {
	return s.change(ctx, "", func(t *tx) error {
		_, _, err := t.gone(t.q.QueryContext(t, t.sql.bound.removeOldest, n.Last.Kept, n.Last.Kept, t.dialect.id(n.Last.ID), n.Letters))
		return err
	})
}

// Sweep implements [deadletter.Store].
func (s *Store) Sweep(ctx context.Context) (removed int, err error) {
	before := func(t *tx) int64 { return deadletter.Nanos(t.now.Add(-s.options.Retention)) }
	letters, err := s.parts(ctx, func(t *tx) (int64, error) {
		n, _, err := t.gone(t.q.QueryContext(t, t.sql.bound.sweep, before(t)))
		return n, err
	})
	if err != nil {
		return letters, err
	}
	notes, err := s.parts(ctx, func(t *tx) (int64, error) {
		rows, err := t.q.QueryContext(t, t.sql.note.sweep, before(t))
		if err != nil {
			return 0, err
		}
		defer rows.Close()
		var n int64
		for rows.Next() {
			n++
		}
		t.add(kind{state: countNotes}, -n, 0)
		return n, rows.Err()
	})
	if err != nil {
		return letters + notes, err
	}
	return letters + notes, s.change(ctx, "", func(t *tx) error {
		_, err := t.q.ExecContext(t, t.sql.course.sweep, before(t))
		return err
	})
}
