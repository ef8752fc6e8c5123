package classify

import "github.com/gabion-go/gabion/policy"

// database knows database/sql's own errors and SQLSTATE.
func (f *facts) database() (meaning, bool) {
	switch {
	case f.has(noRows):
		return takenBack(policy.Business), true
	case f.has(txDone): // committed or rolled back, we can't tell which
		return inDoubt(policy.ClientError), true
	case f.has(unused): // a driver must not return ErrBadConn if the server might have acted
		return neverLeft(policy.Network), true
	case f.has(hasState):
		return sqlstate(f.state.SQLState())
	}
	return meaning{}, false
}

// states are the five characters that mean something by themselves.
var states = map[string]meaning{
	"40001": takenBack(policy.ServerError), // serialization_failure: rolled back
	"40P01": takenBack(policy.ServerError), // deadlock_detected: rolled back
	"57P01": inDoubt(policy.ServerError),   // admin_shutdown
	"57P03": neverLeft(policy.ServerError), // cannot_connect_now: still starting up
	"53300": neverLeft(policy.ServerError), // too_many_connections
	"08001": neverLeft(policy.Network),     // the client could not connect
	"08004": neverLeft(policy.Network),     // the server refused the connection
	"08000": inDoubt(policy.Network),       // connection_exception
	"08003": inDoubt(policy.Network),       // connection_does_not_exist
	"08006": inDoubt(policy.Network),       // connection_failure: in doubt
	"08007": inDoubt(policy.Network),       // transaction_resolution_unknown: in doubt
}

// refusals are the classes, by their first two characters, in which the
// statement is what is wrong.
var refusals = map[string]bool{
	"0A": true, // feature not supported
	"22": true, // data exception
	"23": true, // integrity constraint violation
	"28": true, // invalid authorization
	"3D": true, // invalid catalog name
	"3F": true, // invalid schema name
	"42": true, // syntax error or access rule violation
	"44": true, // with check option violation
}

// sqlstate says what an SQLSTATE means, if it is one that we know.
func sqlstate(state string) (meaning, bool) {
	if o, ok := states[state]; ok {
		return o, true
	}
	if len(state) == 5 && refusals[state[:2]] {
		return takenBack(policy.ClientError), true
	}
	return meaning{}, false
}

// mysql says what a MySQL error number means, and where it says nothing, the
// SQLSTATE that came with it. MySQL gives many numbers one state.
func mysql(number uint64, state string) (meaning, bool) {
	switch number {
	case 1205: // lock wait timeout: only the statement was rolled back
		return takenBack(policy.ServerError), true
	case 1213: // deadlock: the transaction was rolled back
		return takenBack(policy.ServerError), true
	case 1040: // too many connections
		return neverLeft(policy.ServerError), true
	}
	return sqlstate(state)
}

// sqlite says what an SQLite result code means. The low byte is the primary code.
func sqlite(code int64) (meaning, bool) {
	switch code & 0xff {
	case 5, 6: // BUSY, LOCKED: the statement did nothing
		return takenBack(policy.ServerError), true
	case 19, 20: // CONSTRAINT, MISMATCH
		return takenBack(policy.ClientError), true
	}
	return meaning{}, false
}
