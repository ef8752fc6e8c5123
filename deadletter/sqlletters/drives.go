package sqlletters

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/gabion-go/gabion/deadletter"
)

func noDrive(id string) error { return fmt.Errorf("%w: redrive %.40q", deadletter.ErrNotFound, id) }

// drive reads a redrive to change it, or nothing if there is none.
func (t *tx) drive(id string) (deadletter.Course, error) {
	c, err := readDrive(t.q.QueryRowContext(t, t.sql.selectDrive, t.dialect.str(id)))
	if errors.Is(err, sql.ErrNoRows) {
		return deadletter.Course{}, nil
	}
	return c, err
}

func (t *tx) saveDrive(c deadletter.Course) error {
	_, err := t.q.ExecContext(t, t.sql.updateDrive, t.dialect.driveUpdate(&c)...)
	return err
}

// driven reads a letter, and before it the redrive that it is of: all who need both take them
// in this order.
func (t *tx) driven(id deadletter.ID) (c deadletter.Course, r deadletter.Record, err error) {
	var drive string
	err = t.q.QueryRowContext(t, t.sql.driveOf, t.dialect.id(id)).Scan(&drive)
	if errors.Is(err, sql.ErrNoRows) {
		return c, r, nil
	}
	if err == nil && drive != "" {
		c, err = t.drive(drive)
	}
	if err == nil {
		r, err = t.load(id)
	}
	if err == nil && r.Drive != c.ID {
		c = deadletter.Course{} // it is of another meanwhile: the token will say so
	}
	return c, r, err
}

// release lets a part of the letters of a redrive that is over wait again.
func (t *tx) release(c deadletter.Course) (deadletter.Course, int64, error) {
	if err := t.write(); err != nil {
		return c, 0, err
	}
	now := deadletter.Nanos(t.now)
	rows, err := t.q.QueryContext(t, t.sql.release, now, t.dialect.str(c.ID))
	n, _, err := t.moved(rows, err, int(deadletter.Waiting))
	if err == nil {
		var lost int64
		lost, err = t.releaseLost(&c)
		n += lost
	}
	return c.Leave(int(n), t.now), n, err
}

// releaseLost lets a part of the letters wait again that consumers took and lost, each as
// its record decides: of one that was resolved nobody knows any more what became of it.
func (t *tx) releaseLost(c *deadletter.Course) (n int64, err error) {
	all, err := t.candidates(c, candidates{lost: part, all: part})
	for _, r := range all {
		if next, ok := r.Release(t.now); ok && err == nil {
			n++
			err = t.save(r, next)
		}
	}
	return n, err
}

// releaseAll lets all letters of redrives that are over wait again.
func (s *Store) releaseAll(ctx context.Context, group string) error {
	_, err := s.parts(ctx, func(t *tx) (int64, error) {
		_, n, err := t.open(group)
		return n, err
	})
	return err
}

// open reads the redrives of a group that have letters, and lets a part of those wait again
// whose redrive is over. It returns how many those were.
func (t *tx) open(group string) (driving []deadletter.Course, released int64, err error) {
	all, err := readDrives(t.q.QueryContext(t, t.sql.openDrives, t.dialect.str(group)))
	for _, c := range all {
		if err != nil {
			break
		}
		if c.State == deadletter.Driving {
			driving = append(driving, c)
			continue
		}
		var n int64
		if c, n, err = t.release(c); err == nil && n > 0 {
			released += n
			err = t.saveDrive(c)
		}
	}
	return driving, released, err
}

func readDrives(rows *sql.Rows, err error) (all []deadletter.Course, _ error) {
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		c, err := readDrive(rows)
		if err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	return all, rows.Err()
}

// Drives implements [deadletter.Store].
func (s *Store) Drives(ctx context.Context, group string) ([]deadletter.Drive, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	rows, err := s.db.QueryContext(ctx, s.sql.listDrives, s.dialect.str(group), number(group == ""))
	courses, err := readDrives(rows, err)
	if err != nil {
		return nil, clear(err)
	}
	var all []deadletter.Drive
	for _, c := range courses {
		all = append(all, c.At(clock(s.options)()).Drive)
	}
	return all, nil
}

// Stop implements [deadletter.Store].
func (s *Store) Stop(ctx context.Context, drive, by, why string) error {
	_, err := s.parts(ctx, func(t *tx) (int64, error) {
		c, err := t.drive(drive)
		if err == nil && c.ID == "" {
			err = noDrive(drive)
		}
		if err != nil || c.State == deadletter.Finished {
			return 0, err
		}
		c, n, err := t.release(c.Stop(by, why))
		if err != nil {
			return 0, err
		}
		return n, t.saveDrive(c)
	})
	return err
}
