package pgxstore

import (
	"context"
	"encoding/binary"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/internal/sqltable"
	"github.com/gabion-go/gabion/internal/sqltx"
)

// A row is a record as it was read.
type row struct {
	sqltable.Row
	sent time.Time // our time just before
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
func (x *row) scan(from pgx.Row, before ...any) (err error) {
	x.Row, err = sqltable.Scan(from, number, before...)
	return err
}

// number is zero where there is no record.
func number(n pgtype.Int8) int64 { return n.Int64 }

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
	lease := moment(1, old.Record.LeaseUntil, r.LeaseUntil)
	finished := moment(2, old.Record.Finished, r.Finished)
	expires := moment(4, old.Record.Expires, r.Expires)
	due := moment(8, old.Record.Due(), r.Due())
	args := []any{id[:], old.Rev, sqltable.Version, int(r.State), int(r.Guarantee), r.Token, r.Attempt, r.Fingerprint[:], r.Owner[:],
		lease, int64(r.Created), finished, expires, int64(r.Retention), due, payload, bits}
	if old.Rev != 0 {
		args = append(args, old.Record.Token)
	}
	return args, nil
}

// lockOf is the number of a key's advisory lock. Two keys with the same are needlessly
// told that the other is in progress.
func lockOf(id idempotency.ID) int64 { return int64(binary.BigEndian.Uint64(id[:])) }
