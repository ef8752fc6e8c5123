// Package sqltx is how a transaction of a SQL database is tried and repeated: what its
// errors prove, which way it ended, and when it may run again. Package gabionsql,
// contrib/gabionpgx and the stores of idempotency keys share it. It links no driver.
package sqltx

import (
	"errors"
	"slices"

	"github.com/gabion-go/gabion/classify"
	"github.com/gabion-go/gabion/policy"
)

// sqlState is what PostgreSQL drivers' errors have.
type sqlState interface{ SQLState() string }

// code is what SQLite drivers' errors have.
type code interface{ Code() int }

// Primary result codes of SQLite.
const (
	sqliteBusy       = 5 // the write lock was not to be had
	sqliteLocked     = 6
	sqliteConstraint = 19
)

// States that package classify gives no meaning of their own.
const (
	unknownState        = "40003" // statement_completion_unknown
	lockNotAvailable    = "55P03"
	inFailedTransaction = "25P02"
)

// StateOf returns the SQLSTATE of an error, empty if it has none.
func StateOf(err error) string {
	var state sqlState
	if errors.As(err, &state) {
		return state.SQLState()
	}
	return ""
}

func sqliteCode(err error) int {
	var c code
	if errors.As(err, &c) {
		return c.Code() & 0xff
	}
	return 0
}

// Contended reports whether a database asks for the transaction again, because of
// another's: it could not serialize them, ended a deadlock, or a lock was not had in time.
// Of some databases only the statement is undone by that, so the transaction has to be
// rolled back before it is repeated.
func Contended(err error) bool {
	return err != nil && (classify.Error(err).Class == policy.ClassContention || slices.Contains([]int{sqliteBusy, sqliteLocked}, sqliteCode(err)))
}

// Conflict reports whether a database undid all of a transaction, be it that of a single
// statement, and wants it repeated. It does not for a lock that was not had: the statement
// has waited for it, and may wait as long again.
func Conflict(err error) bool {
	if err == nil || StateOf(err) == lockNotAvailable {
		return false
	}
	o := classify.Error(err)
	return o.Class == policy.ClassContention && o.Undone
}

// Aborted reports whether an earlier statement's error ended the transaction.
func Aborted(err error) bool { return StateOf(err) == inFailedTransaction }

// broken are the classes of SQLSTATE by which nothing is said of a COMMIT: connection,
// resources, operator, system, and a database that is damaged. A full disk can stop
// PostgreSQL in the middle of a COMMIT.
var broken = []string{"08", "53", "57", "58", "XX"}

// Texts of errors that drivers have no type for.
const (
	pgxRolledBack = "commit unexpectedly resulted in rollback"                 // pgx.ErrTxCommitRollback
	pqRolledBack  = "pq: Could not complete operation in a failed transaction" // lib/pq, which sends ROLLBACK
	mysqlLost     = "invalid connection"                                       // mysql.ErrInvalidConn
)

// madeRollback reports whether COMMIT was made a ROLLBACK, because the transaction had
// failed before.
func madeRollback(err error) bool { return says(err, pgxRolledBack) || says(err, pqRolledBack) }

// says looks for an error without a type by its whole text. A driver that changes the text
// makes "nothing was committed" an "unknown", never the reverse.
func says(err error, text string) bool {
	for ; err != nil; err = errors.Unwrap(err) {
		if err.Error() == text {
			return true
		}
	}
	return false
}

// Answered reports whether an error of COMMIT is the database's own word that nothing was
// committed. It is not when the connection, the server or the database itself broke down
// meanwhile, nor with 40003, by which the database says that it does not know; nor with any
// error of SQLite but a lock or a constraint, for its commit may have reached the disk in
// part. What a client says of itself does not count, driver.ErrBadConn included: pgx says
// "conn closed" for the rest of a batch of which all was sent.
func Answered(err error) bool {
	if state := StateOf(err); state != "" {
		return len(state) == 5 && state != unknownState && !slices.Contains(broken, state[:2])
	}
	if slices.Contains([]int{sqliteBusy, sqliteLocked, sqliteConstraint}, sqliteCode(err)) {
		return true
	}
	return madeRollback(err) || Contended(err)
}
