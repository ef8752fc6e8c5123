package sqltable

import (
	"errors"
	"fmt"
	"time"

	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/internal/sqltx"
)

// A Scanner is a row of any driver's.
type Scanner interface{ Scan(...any) error }

// A Row is a record as it was read, and when, by the database's clock. Rev is zero without a record.
type Row struct {
	Rev    int64
	Now    idempotency.Moment
	Record idempotency.Record
}

// Scan reads the time and the columns, after what stands before them. N is the driver's number, which has to take NULL
// where a row has the time alone.
func Scan[N any](from Scanner, number func(N) int64, before ...any) (x Row, err error) {
	var n [12]N
	var fingerprint, owner, payload []byte
	err = from.Scan(append(before, (*int64)(&x.Now), &n[0], &n[1], &n[2], &n[3], &n[4], &n[5],
		&fingerprint, &owner, &n[6], &n[7], &n[8], &n[9], &n[10], &n[11], &payload)...)
	if err != nil {
		return x, err
	}
	x.Rev = number(n[0])
	r := &x.Record
	if version := number(n[1]); version > Version {
		err = fmt.Errorf("%w: it is of version %d", idempotency.ErrUnreadable, version)
	} else if payload != nil { // result and points: the rest is in columns
		err = r.UnmarshalBinary(payload)
	}
	r.Token, r.Attempt = number(n[4]), int(number(n[5]))
	if err != nil {
		return x, err
	}
	r.State, r.Guarantee = idempotency.State(number(n[2])), idempotency.Guarantee(number(n[3]))
	copy(r.Fingerprint[:], fingerprint)
	copy(r.Owner[:], owner)
	r.LeaseUntil, r.Created = idempotency.Moment(number(n[6])), idempotency.Moment(number(n[7]))
	r.Finished, r.Expires = idempotency.Moment(number(n[8])), idempotency.Moment(number(n[9]))
	r.Retention = time.Duration(number(n[10]))
	return x, nil
}

// Rows are those of any driver's.
type Rows interface {
	Scanner
	Next() bool // as sql.Rows and pgx.Rows have it
	Err() error // as sql.Rows and pgx.Rows have it
}

// Entries are what a list has of rows, each with its ID before the time. Any error but that a record
// can't be read ends the list.
func Entries[N any](rows Rows, number func(N) int64) (entries []idempotency.Entry, err error) {
	for rows.Next() {
		var id []byte
		x, err := Scan(rows, number, &id)
		if err != nil && !errors.Is(err, idempotency.ErrUnreadable) {
			return nil, err
		}
		e := idempotency.Entry{Record: x.Record.Bare(), Err: err}
		copy(e.ID[:], id)
		entries = append(entries, e)
	}
	return entries, rows.Err()
}

// List lists records in the order of their IDs. page returns the next ones after an ID,
// which is empty at first, and is repeated if the database wants that.
func List(cursor string, limit int, page func(after []byte, limit int) ([]idempotency.Entry, error)) (entries []idempotency.Entry, next string, err error) {
	after, limit := []byte{}, max(limit, 1)
	if cursor != "" {
		id, err := idempotency.ParseID(cursor)
		if err != nil {
			return nil, "", err
		}
		after = id[:]
	}
	err = sqltx.UntilNoConflict(func() (err error) {
		entries, err = page(after, limit)
		return err
	})
	if err == nil && len(entries) == limit {
		next = entries[limit-1].ID.Hex()
	}
	return entries, next, err
}
