package classify

import (
	"strconv"

	"github.com/gabion-go/gabion/policy"
)

// database knows database/sql's own errors and SQLSTATE.
func (f *facts) database() (meaning, bool) {
	switch {
	case f.has(noRows):
		return refusedBy(policy.ClassBusiness), true
	case f.has(txDone): // committed or rolled back, we can't tell which
		return inDoubt(policy.ClassClient), true
	case f.has(hasState):
		return sqlstate(f.state.SQLState())
	}
	return meaning{}, false
}

// states are the five characters that mean something by themselves.
//
// PostgreSQL ends the transaction that gets an error of class 40 or 55P03: nothing of
// it can be committed any more, so all of it is undone.
var states = map[string]meaning{
	"40001": takenBack(policy.ClassContention), // serialization_failure
	"40P01": takenBack(policy.ClassContention), // deadlock_detected
	"55P03": takenBack(policy.ClassContention), // lock_not_available: NOWAIT, or lock_timeout
	"25006": takenBack(policy.ClassServer),     // read_only_sql_transaction: a replica, as after a failover
	"57P01": inDoubt(policy.ClassServer),       // admin_shutdown
	"57P02": inDoubt(policy.ClassServer),       // crash_shutdown
	"57P03": neverLeft(policy.ClassServer),     // cannot_connect_now: still starting up
	"53300": noRoom(),                          // too_many_connections
	"08001": neverLeft(policy.ClassNetwork),    // the client could not connect
	"08004": neverLeft(policy.ClassNetwork),    // the server refused the connection
	"08000": inDoubt(policy.ClassNetwork),      // connection_exception
	"08003": inDoubt(policy.ClassNetwork),      // connection_does_not_exist
	"08006": inDoubt(policy.ClassNetwork),      // connection_failure: in doubt
	"08007": inDoubt(policy.ClassNetwork),      // transaction_resolution_unknown: in doubt
	"08S01": inDoubt(policy.ClassNetwork),      // MySQL: communication link failure, or shutdown in progress
	"25001": refusedBy(policy.ClassClient),     // active_sql_transaction: VACUUM in a transaction
	"25P01": refusedBy(policy.ClassClient),     // no_active_sql_transaction
	"25P02": refusedBy(policy.ClassClient),     // in_failed_sql_transaction: the statement before it failed
	"40002": refusedBy(policy.ClassClient),     // transaction_integrity_constraint_violation
}

// refusals are the classes, by their first two characters, in which the statement is what
// is wrong.
var refusals = map[string]bool{
	"02": true, // no data
	"09": true, // triggered action exception
	"0A": true, // feature not supported
	"0L": true, // invalid grantor
	"0P": true, // invalid role specification
	"20": true, // case not found
	"21": true, // cardinality violation
	"22": true, // data exception
	"23": true, // integrity constraint violation
	"24": true, // invalid cursor state
	"26": true, // invalid SQL statement name
	"27": true, // triggered data change violation
	"28": true, // invalid authorization
	"2B": true, // dependent privilege descriptors still exist
	"2D": true, // invalid transaction termination
	"2F": true, // SQL routine exception
	"34": true, // invalid cursor name
	"38": true, // external routine exception
	"39": true, // external routine invocation exception
	"3B": true, // savepoint exception
	"3D": true, // invalid catalog name
	"3F": true, // invalid schema name
	"42": true, // syntax error or access rule violation
	"44": true, // with check option violation
	"54": true, // program limit exceeded
	"55": true, // object not in prerequisite state
}

// sqlstate says what an SQLSTATE means, if it is one that we know.
func sqlstate(state string) (meaning, bool) {
	if o, ok := states[state]; ok {
		return o.named(state), true
	}
	switch {
	case len(state) != 5:
	case refusals[state[:2]]:
		return refusedBy(policy.ClassClient).named(state), true
	case state[:2] == "P0" || state == "45000":
		return raised.named(state), true
	case state[:2] == "45" || state[0] >= 'I' && state[0] <= 'W' || state[0] == 'Z':
		return raised, true // without a name, since programs may have any number of them
	}
	return meaning{}, false
}

// raised is said of an exception that SQL code of the program has raised: RAISE in PL/pgSQL,
// SIGNAL in MySQL, and states of the program's own, which begin with a letter after H. Those
// with X and Y are databases' too. A procedure may have committed before.
var raised = inDoubt(policy.ClassClient)

// mysql says what a MySQL error number means, and where it says nothing, the
// SQLSTATE that came with it. MySQL gives many numbers one state.
func mysql(number uint64, state string) (meaning, bool) {
	switch number {
	case 1213: // deadlock: the transaction was rolled back
		return takenBack(policy.ClassContention).named("1213"), true
	case 1020: // MariaDB: the row changed since the transaction's snapshot, which was rolled back
		return takenBack(policy.ClassContention).named("1020"), true
	case 3101: // group replication rolled back at commit
		return takenBack(policy.ClassContention).named("3101"), true
	case 1205, 3572: // a lock was not had in time, or at once
		// Only the statement was rolled back. What its transaction did before is there
		// until it ends, so nothing is proven of the whole work.
		return refusedBy(policy.ClassContention).named(strconv.FormatUint(number, 10)), true
	case 1290, 1836: // the server is read-only, as after a failover; only the statement was refused
		return refusedBy(policy.ClassServer).named(strconv.FormatUint(number, 10)), true
	case 1644: // SIGNAL, with any state: nothing is rolled back by it
		if state == "40001" {
			return inDoubt(policy.ClassContention).named("1644"), true
		}
		return raised.named("1644"), true
	case 1265, 1364, 1366, 3819: // a value is cut, missing, of another type, or a CHECK forbids it
		return refusedBy(policy.ClassClient).named(strconv.FormatUint(number, 10)), true
	case 1040, 1203: // too many connections, of all users or of this one
		return noRoom().named(strconv.FormatUint(number, 10)), true
	}
	return sqlstate(state)
}

// sqliteCodes are the names of those primary codes that mean something here.
var sqliteCodes = map[int64]string{
	1: "SQLITE_ERROR", 5: "SQLITE_BUSY", 6: "SQLITE_LOCKED", 18: "SQLITE_TOOBIG", 19: "SQLITE_CONSTRAINT", 20: "SQLITE_MISMATCH", 25: "SQLITE_RANGE",
}

// sqlite says what an SQLite result code means. The low byte is the primary code; BUSY
// has BUSY_SNAPSHOT, BUSY_RECOVERY and BUSY_TIMEOUT above it, LOCKED has
// LOCKED_SHAREDCACHE.
func sqlite(code int64) (meaning, bool) {
	switch code & 0xff {
	case 5, 6: // BUSY, LOCKED
		// The statement did nothing, be it a COMMIT, and its transaction is still open,
		// so nothing is proven of the whole work.
		return refusedBy(policy.ClassContention).named(sqliteCodes[code&0xff]), true
	case 1, 18, 19, 20, 25: // ERROR is no such table, a syntax error and the like
		return refusedBy(policy.ClassClient).named(sqliteCodes[code&0xff]), true
	}
	return meaning{}, false
}
