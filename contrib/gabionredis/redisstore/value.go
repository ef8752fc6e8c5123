package redisstore

import (
	"fmt"
	"strconv"
	"time"

	"github.com/gabion-go/gabion/idempotency"
)

// A value is a head and a record. The head is two times in sixteen digits each: when
// the record is due to be swept, and when it was claimed, if the record is as a
// claim at time zero made it and the server's clock has to be added. That is how a
// new key is claimed in one round trip, by the server's clock and without Lua that
// knows what a record is. What Record.Begin makes of a new key is thus part of the
// format.
const (
	digits   = 16
	headSize = 2 * digits
)

// grace is how much later than its expiry a record is forgotten: so far may the
// clocks of a server and the replica that takes over be apart without the new one
// dropping a record early, or granting a token that is not larger than the last.
const grace = time.Minute

// forgotten returns when the server drops a record of which nothing is heard: a
// running one as if it had been swept at the end of its lease.
func forgotten(r *idempotency.Record) idempotency.Moment {
	end := r.Expires
	if r.State == idempotency.StateRunning {
		end = r.LeaseUntil.Add(r.Retention)
	}
	return end.Add(grace)
}

// written returns the value of a record; nothing for an absent one.
func written(r idempotency.Record) (string, error) {
	if r.State == idempotency.StateAbsent {
		return "", nil
	}
	body, err := r.MarshalBinary()
	if err != nil {
		return "", err
	}
	return head(ceil(r.Due()), 0) + string(body), nil
}

func head(due, claimed int64) string { return fmt.Sprintf("%0*d%0*d", digits, due, digits, claimed) }

// claimed returns the record of a new key whose claim was granted at a moment.
func claimed(c idempotency.Claim, now idempotency.Moment) idempotency.Record {
	var none idempotency.Record
	a, _ := none.Begin(c, now)
	return a.Record
}

// read returns the record of a value; the zero Record if it is empty.
func read(value string) (r idempotency.Record, err error) {
	if value == "" {
		return r, nil
	}
	at, err := claimTime(value)
	if err == nil {
		err = r.UnmarshalBinary([]byte(value[headSize:]))
	}
	if err != nil {
		return idempotency.Record{}, fmt.Errorf("redisstore: %w", err)
	}
	if at == 0 {
		return r, nil
	}
	return claimed(idempotency.Claim{
		Fingerprint: r.Fingerprint, Owner: r.Owner, Guarantee: r.Guarantee,
		Lease: time.Duration(r.LeaseUntil), Retention: r.Retention,
	}, at), nil
}

// claimTime reads the second half of a value's head.
func claimTime(value string) (idempotency.Moment, error) {
	if len(value) < headSize {
		return 0, fmt.Errorf("%w: it is too short", idempotency.ErrUnreadable)
	}
	micros, err := strconv.ParseUint(value[digits:headSize], 10, 53)
	if err != nil {
		return 0, fmt.Errorf("%w: its head is no time", idempotency.ErrUnreadable)
	}
	return idempotency.Moment(micros * 1000), nil
}
