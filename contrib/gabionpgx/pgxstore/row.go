package pgxstore

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/internal/sqltable"
	"github.com/gabion-go/gabion/internal/sqltx"
)

// A row is a record as it was read: rev is zero if the row is missing.
type row struct {
	rev    int64
	now    idempotency.Moment // the database's time when it was read
	sent   time.Time          // our time just before that
	record idempotency.Record
}

// load reads a record, in no transaction but its own.
func (s *Store) load(ctx context.Context, id idempotency.ID) (x row, err error) {
	err = sqltx.UntilNoConflict(func() error {
		x = row{sent: time.Now()}
		return x.scan(s.pool.QueryRow(ctx, s.sql.load, id[:]))
	})
	return x, wrap("load", err)
}

// scan reads the time and the columns, after what stands before them.
func (x *row) scan(from pgx.Row, before ...any) error {
	var rev, version, state, guarantee, token, attempt, lease, created, finished, expires, retention, due pgtype.Int8
	var fingerprint, owner, payload []byte
	err := from.Scan(append(before, (*int64)(&x.now), &rev, &version, &state, &guarantee, &token, &attempt, &fingerprint, &owner,
		&lease, &created, &finished, &expires, &retention, &due, &payload)...)
	if err != nil || !rev.Valid {
		return err
	}
	x.rev = rev.Int64
	if version.Int64 > sqltable.Version {
		return fmt.Errorf("%w: it is of version %d", idempotency.ErrUnreadable, version.Int64)
	}
	r := &x.record
	if payload != nil {
		if err := r.UnmarshalBinary(payload); err != nil {
			return err
		}
	}
	r.State, r.Guarantee = idempotency.State(state.Int64), idempotency.Guarantee(guarantee.Int64)
	r.Token, r.Attempt = token.Int64, int(attempt.Int64)
	copy(r.Fingerprint[:], fingerprint)
	copy(r.Owner[:], owner)
	r.LeaseUntil, r.Created = idempotency.Moment(lease.Int64), idempotency.Moment(created.Int64)
	r.Finished, r.Expires = idempotency.Moment(finished.Int64), idempotency.Moment(expires.Int64)
	r.Retention = time.Duration(retention.Int64)
	return nil
}

// values are the arguments of insert and update, which has one more: the token of what
// was read. A record that was deleted and made anew counts its revisions from 1 again,
// and has another token.
//
// Moments that the machine moved are its time plus something. Where that time, at, is
// only our idea of the database's, they are sent as that something.
func values(id idempotency.ID, old row, r idempotency.Record, at idempotency.Moment) ([]any, error) {
	payload, err := r.MarshalBinary()
	if err != nil {
		return nil, err
	}
	bits := 0
	moment := func(bit int, was, is idempotency.Moment) int64 {
		if at == 0 || is == 0 || is == was {
			return int64(is)
		}
		bits |= bit
		return min(int64(is-at), int64(sqltable.FarOff))
	}
	lease := moment(1, old.record.LeaseUntil, r.LeaseUntil)
	finished := moment(2, old.record.Finished, r.Finished)
	expires := moment(4, old.record.Expires, r.Expires)
	due := moment(8, old.record.Due(), r.Due())
	args := []any{id[:], old.rev, sqltable.Version, int(r.State), int(r.Guarantee), r.Token, r.Attempt, r.Fingerprint[:], r.Owner[:],
		lease, int64(r.Created), finished, expires, int64(r.Retention), due, payload, bits}
	if old.rev != 0 {
		args = append(args, old.record.Token)
	}
	return args, nil
}

// lockOf is the number of a key's advisory lock. Two keys with the same are needlessly
// told that the other is in progress.
func lockOf(id idempotency.ID) int64 { return int64(binary.BigEndian.Uint64(id[:])) }
