package boltstore

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"

	"go.etcd.io/bbolt"

	"github.com/gabion-go/gabion/idempotency"
)

// Now implements [idempotency.Store].
func (s *Store) Now(context.Context) (idempotency.Moment, error) { return s.now(), nil }

// List implements [idempotency.Store]. Records that run come first.
func (s *Store) List(ctx context.Context, cursor string, limit int) (entries []idempotency.Entry, next string, err error) {
	names := [][]byte{bucketRunning, bucketFinished}
	which, from := 0, []byte(nil)
	if cursor != "" {
		b, err := hex.DecodeString(cursor)
		if err != nil || len(b) == 0 || int(b[0]) >= len(names) {
			return nil, "", fmt.Errorf("boltstore: %q is no cursor", cursor)
		}
		which, from = int(b[0]), b[1:]
	}
	if err := s.refuses(); err != nil {
		return nil, "", err
	}
	err = s.db.View(func(tx *bbolt.Tx) error {
		c := tx.Bucket(names[which]).Cursor()
		k, v := c.Seek(from)
		for ; k != nil && len(entries) < max(limit, 1); k, v = c.Next() {
			at := dueKey(k)
			e := idempotency.Entry{ID: at.id()}
			if e.Err = e.Record.UnmarshalBinary(v); e.Err != nil && !errors.Is(e.Err, idempotency.ErrUnreadable) {
				return e.Err
			}
			e.Record = e.Record.Bare()
			entries = append(entries, e)
		}
		switch {
		case k != nil:
			next = hex.EncodeToString(append([]byte{byte(which)}, k...))
		case which+1 < len(names):
			next = hex.EncodeToString([]byte{byte(which + 1)})
		}
		return nil
	})
	return entries, next, err
}
