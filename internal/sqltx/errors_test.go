package sqltx

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"syscall"
	"testing"

	"github.com/gabion-go/gabion/classify"
)

// stateErr is an error as PostgreSQL's drivers have it.
type stateErr string

func (s stateErr) Error() string    { return "state " + string(s) }
func (s stateErr) SQLState() string { return string(s) }

// codeErr is an error as SQLite's drivers have it.
type codeErr int

func (c codeErr) Error() string { return fmt.Sprint("code ", int(c)) }
func (c codeErr) Code() int     { return int(c) }

func TestWhatErrorsProve(t *testing.T) {
	for _, c := range []struct {
		name                                  string
		err                                   error
		answered, contended, conflict, failed bool
	}{
		{"nothing is no conflict", nil, false, false, false, false},
		{"serialization failure", stateErr("40001"), true, true, true, false},
		{"deadlock", stateErr("40P01"), true, true, true, false},
		{"the database does not know", stateErr("40003"), false, false, false, false},
		{"a lock that was not had has been waited for", stateErr("55P03"), true, true, false, false},
		{"a deferred constraint is an answer", stateErr("23505"), true, false, false, false},
		{"the transaction had failed", stateErr("25P02"), true, false, false, true},
		{"the connection broke", stateErr("08006"), false, false, false, false},
		{"the disk is full", stateErr("53100"), false, false, false, false},
		{"the server shut down", stateErr("57P01"), false, false, false, false},
		{"the statement was cancelled in the middle of COMMIT", stateErr("57014"), false, false, false, false},
		{"the system failed", stateErr("58030"), false, false, false, false},
		{"the database is damaged", stateErr("XX001"), false, false, false, false},
		{"an invalid state", stateErr("4000"), false, false, false, false},
		{"an answer that is wrapped", fmt.Errorf("commit: %w", stateErr("40001")), true, true, true, false},
		{"SQLite's BUSY", codeErr(5), true, true, false, false},
		{"BUSY_SNAPSHOT", codeErr(5 | 2<<8), true, true, false, false},
		{"LOCKED", codeErr(6), true, true, false, false},
		{"SQLite's CONSTRAINT", codeErr(19), true, false, false, false},
		{"SQLite's disk failed", codeErr(10), false, false, false, false},
		{"SQLite has no transaction", codeErr(1), false, false, false, false},
		{"a bad connection says nothing", driver.ErrBadConn, false, false, false, false},
		{"a transaction that is over says nothing", sql.ErrTxDone, false, false, false, false},
		{"an end of file says nothing", io.ErrUnexpectedEOF, false, false, false, false},
		{"a reset says nothing", syscall.ECONNRESET, false, false, false, false},
		{"a deadline says nothing", context.DeadlineExceeded, false, false, false, false},
		{"pgx's rolled back", errors.New(pgxRolledBack), true, false, false, false},
		{"lib/pq's rolled back", fmt.Errorf("commit: %w", errors.New(pqRolledBack)), true, false, false, false},
		{"a text that only contains it", errors.New("not: " + pgxRolledBack), false, false, false, false},
		{"marked as contention", classify.Contention(errors.New("again")), true, true, true, false},
	} {
		if got := Answered(c.err); got != c.answered {
			t.Errorf("%s: answered %v", c.name, got)
		}
		if got := Contended(c.err); got != c.contended {
			t.Errorf("%s: contended %v", c.name, got)
		}
		if got := Conflict(c.err); got != c.conflict {
			t.Errorf("%s: conflict %v", c.name, got)
		}
		if got := Aborted(c.err); got != c.failed {
			t.Errorf("%s: aborted %v", c.name, got)
		}
	}
}
