package boltstore

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"

	"go.etcd.io/bbolt"

	"github.com/gabion-go/gabion/idempotency"
)

var _ idempotency.Admin = (*Store)(nil)

// Now implements [idempotency.Admin].
func (s *Store) Now(context.Context) (idempotency.Moment, error) { return s.now(), nil }

// List implements [idempotency.Admin]. Records that run come first.
func (s *Store) List(ctx context.Context, cursor string, limit int) (p idempotency.Page, err error) {
	names := [][]byte{bucketRunning, bucketFinished}
	which, from := 0, []byte(nil)
	if cursor != "" {
		b, err := hex.DecodeString(cursor)
		if err != nil || len(b) == 0 || int(b[0]) >= len(names) {
			return p, fmt.Errorf("boltstore: %q is no cursor", cursor)
		}
		which, from = int(b[0]), b[1:]
	}
	if err := s.refuses(); err != nil {
		return p, err
	}
	err = s.db.View(func(tx *bbolt.Tx) error {
		c := tx.Bucket(names[which]).Cursor()
		k, v := c.Seek(from)
		for ; k != nil && len(p.Entries) < max(limit, 1); k, v = c.Next() {
			at := dueKey(k)
			e := idempotency.Entry{ID: at.id()}
			if e.Err = e.Record.UnmarshalBinary(v); e.Err != nil && !errors.Is(e.Err, idempotency.ErrUnreadable) {
				return e.Err
			}
			e.Record = e.Record.Bare()
			p.Entries = append(p.Entries, e)
		}
		switch {
		case k != nil:
			p.Next = hex.EncodeToString(append([]byte{byte(which)}, k...))
		case which+1 < len(names):
			p.Next = hex.EncodeToString([]byte{byte(which + 1)})
		}
		return nil
	})
	return p, err
}

// Forget implements [idempotency.Admin].
func (s *Store) Forget(ctx context.Context, ref idempotency.Ref) error {
	return s.submit(ctx, 0, func(t *tables, now idempotency.Moment) error {
		old, _, err := t.load(ref.ID)
		if err != nil {
			return err
		}
		if err := old.Forgettable(ref, now); err != nil {
			return err
		}
		return t.replace(ref.ID, &old, new(idempotency.Record))
	})
}
