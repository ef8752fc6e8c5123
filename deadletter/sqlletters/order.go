package sqlletters

import (
	"context"
	"database/sql"
	"slices"
	"time"

	"github.com/gabion-go/gabion/deadletter"
)

// Order implements [deadletter.Store]. It orders some hundred letters in each transaction,
// so that others get their turn, and looks for them outside of it. If it fails half way, the
// redrive is stopped.
func (s *Store) Order(ctx context.Context, q deadletter.Query, d deadletter.Drive) (deadletter.Drive, error) {
	if err := q.Validate(); err != nil {
		return deadletter.Drive{}, err
	}
	id := deadletter.NewDrive()
	made := new(deadletter.Course)
	err := s.change(ctx, "", func(t *tx) (err error) {
		if *made, err = deadletter.NewCourse(q, d, id, t.now); err != nil {
			return err
		}
		if err := t.resolved(q, made.Group); err != nil {
			return err
		}
		_, err = t.q.ExecContext(t, t.sql.insertDrive, t.dialect.driveValues(made)...)
		return err
	})
	if err != nil {
		return deadletter.Drive{}, err
	}
	q.Group = made.Group
	if err := s.releaseAll(ctx, q.Group); err != nil {
		return deadletter.Drive{}, s.undo(ctx, id, err)
	}
	if err := s.fill(ctx, &q, id); err != nil {
		return deadletter.Drive{}, s.undo(ctx, id, err)
	}
	err = s.change(ctx, "", func(t *tx) error {
		c, err := t.drive(id)
		if err == nil {
			c = c.Filled(t.now)
			*made = c
			err = t.saveDrive(c)
		}
		return err
	})
	if err != nil {
		return deadletter.Drive{}, s.undo(ctx, id, err)
	}
	return made.Drive, nil
}

// undo stops a redrive that could not be ordered whole. If that fails too, it ends by itself.
func (s *Store) undo(ctx context.Context, id string, err error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	_ = s.Stop(ctx, id, "", "it could not be ordered whole")
	return err
}

// resolved returns an error if the query names a letter that wants a Resolution.
func (t *tx) resolved(q deadletter.Query, group string) error {
	if len(q.IDs) == 0 || !slices.Contains(q.In(), deadletter.Waiting) {
		return nil
	}
	q.Group = group
	w := t.dialect.pick(&q, deadletter.Waiting, deadletter.Place{})
	w.and("held = 1")
	all, err := places(t.q.QueryContext(t, w.fill(t.sql.pickSome), append(w.args, 1)...))
	if err != nil || len(all) == 0 {
		return err
	}
	return deadletter.NotResolved(all[0].ID)
}

// fill orders what the query picks, the oldest first. Each letter is looked at once: what
// failed meanwhile waits again, and is not ordered a second time.
func (s *Store) fill(ctx context.Context, q *deadletter.Query, id string) error {
	if !slices.Contains(q.In(), deadletter.Waiting) {
		return nil
	}
	end, err := s.newest(ctx, q.Group)
	for from := (deadletter.Place{}); err == nil; {
		var some stretch
		if some, err = s.stretch(ctx, q, from, end); err != nil || len(some.ids) == 0 {
			break
		}
		more := new(bool)
		err = s.change(ctx, "", func(t *tx) (err error) {
			*more, err = t.fill(q, &some, id)
			return err
		})
		if from = some.last; err == nil && !*more {
			break
		}
	}
	return clear(err)
}

// newest is the place of the last letter of a group that waits.
func (s *Store) newest(ctx context.Context, group string) (p deadletter.Place, err error) {
	err = none(s.db.QueryRowContext(ctx, s.sql.newestWaiting, s.dialect.str(group)).Scan(&p.ID, &p.Kept))
	return p, err
}

// A stretch is a part of the letters that are to be ordered.
type stretch struct {
	ids         []deadletter.ID
	first, last deadletter.Place
	dense       bool // there is little between the first and the last that is not to be ordered
}

// stretch finds the next part. It only reads, so that nobody waits for it, however many letters
// it has to look at.
func (s *Store) stretch(ctx context.Context, q *deadletter.Query, from, end deadletter.Place) (some stretch, err error) {
	w := s.dialect.pick(q, deadletter.Waiting, from)
	w.and("held = 0")
	w.and("(kept, id) <= (?, ?)", end.Kept, s.dialect.id(end.ID))
	all, err := places(s.db.QueryContext(ctx, w.fill(s.sql.pickSome), append(w.args, part)...))
	if err != nil || len(all) == 0 {
		return some, err
	}
	for _, one := range all {
		some.ids = append(some.ids, one.ID)
	}
	some.first, some.last = all[0], all[len(all)-1]
	if len(q.IDs) > 0 || q.Prefix != "" {
		return some, nil
	}
	w = s.dialect.between(&deadletter.Query{Group: q.Group}, &some)
	most, n := 2*len(all), 0
	err = s.db.QueryRowContext(ctx, w.fill(s.sql.countSome), append(w.args, most+1)...).Scan(&n)
	some.dense = n <= most
	return some, err
}

func places(rows *sql.Rows, err error) (all []deadletter.Place, _ error) {
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var one deadletter.Place
		if err := rows.Scan(&one.ID, &one.Kept); err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, rows.Err()
}

// between is the condition of a query, from the first to the last letter of a stretch.
func (d Dialect) between(q *deadletter.Query, some *stretch) *where {
	named := *q
	named.Reason = ""
	w := d.pick(&named, deadletter.Waiting, deadletter.Place{})
	if q.Reason != "" { // by the index of the group, whose letters these mostly are
		w.and(d.aside+"reason = ?", d.str(q.Reason))
	}
	w.and("(kept, id) >= (?, ?)", some.first.Kept, d.id(some.first.ID))
	w.and("(kept, id) <= (?, ?)", some.last.Kept, d.id(some.last.ID))
	return w
}

// fill orders one part, of what still is as it was found. It returns false if the redrive is
// over.
func (t *tx) fill(q *deadletter.Query, some *stretch, id string) (more bool, err error) {
	c, err := t.drive(id)
	if err != nil || c.State != deadletter.Driving {
		return false, err
	}
	var w *where
	if some.dense {
		w = t.dialect.between(q, some)
	} else {
		named := *q
		named.IDs = some.ids
		w = t.dialect.pick(&named, deadletter.Waiting, deadletter.Place{})
	}
	w.and("held = 0")
	args := append([]any{deadletter.Nanos(t.now), t.dialect.str(id), t.dialect.str(c.By)}, w.args...)
	rows, err := t.q.QueryContext(t, w.fill(t.sql.orderSome), args...)
	n, _, err := t.moved(rows, err, int(deadletter.Ordered))
	if err != nil {
		return false, err
	}
	return true, t.saveDrive(c.Fill(int(n), t.now))
}
