package classify

import (
	"reflect"
	"strings"

	"github.com/gabion-go/gabion/policy"
)

// redisError is an error that a Redis server answered, as go-redis tells it. The first
// word of such an answer is its code, by the protocol.
type redisError interface {
	error
	RedisError()
}

// replies are the codes that a server answers before it begins, and what go-redis
// makes of answers that are no errors.
var replies = map[string]meaning{
	"LOADING":     takenBack(policy.ClassServer),     // still reading its data
	"BUSY":        takenBack(policy.ClassServer),     // a script runs for too long
	"READONLY":    takenBack(policy.ClassServer),     // a replica, as an old master is after a failover
	"MASTERDOWN":  takenBack(policy.ClassServer),     // a replica without its master
	"CLUSTERDOWN": takenBack(policy.ClassServer),     // slots without a node
	"NOREPLICAS":  takenBack(policy.ClassServer),     // too few to write to
	"MISCONF":     takenBack(policy.ClassServer),     // it can't save, and so takes no writes
	"OOM":         takenBack(policy.ClassServer),     // out of memory
	"TRYAGAIN":    takenBack(policy.ClassContention), // keys of a command while their slot moves

	"UNBLOCKED": refusedBy(policy.ClassServer), // a blocking command when its server became a replica

	"WRONGTYPE": refusedBy(policy.ClassClient),
	"NOAUTH":    refusedBy(policy.ClassClient),
	"WRONGPASS": refusedBy(policy.ClassClient),
	"NOPERM":    refusedBy(policy.ClassClient),
	"NOSCRIPT":  refusedBy(policy.ClassClient),
	"NOGROUP":   refusedBy(policy.ClassClient),
	"BUSYGROUP": refusedBy(policy.ClassClient),
	"BUSYKEY":   refusedBy(policy.ClassClient),
	"CROSSSLOT": refusedBy(policy.ClassClient),
	"MOVED":     refusedBy(policy.ClassClient), // a client that knows no clusters
	"ASK":       refusedBy(policy.ClassClient),
}

// tooManyClients begins an answer of which the code says nothing. The server closes the
// connection then.
const tooManyClients = "ERR max number of clients"

// Two errors that go-redis makes itself have the type of a server's, and this value.
const (
	redisNil      = "redis: nil"                // there is no such key
	redisConflict = "redis: transaction failed" // a watched key was changed: EXEC did nothing
)

// redis says what an answer means. The code ERR is for what the command is to blame for: a
// value that is no number, a key that is missing, a script that broke halfway. Scripts have codes
// of their own. A text without a code is a proxy's, which may be in trouble.
func redis(reply string) (meaning, bool) {
	switch reply {
	case redisNil:
		return refusedBy(policy.ClassBusiness), true
	case redisConflict:
		return takenBack(policy.ClassContention), true
	}
	code, _, _ := strings.Cut(reply, " ")
	m, ok := replies[code]
	switch {
	case ok:
	case strings.HasPrefix(reply, tooManyClients):
		return takenBack(policy.ClassServer), true
	case code != "" && strings.Trim(code, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") == "":
		return inDoubt(policy.ClassClient), true
	}
	return m, ok
}

// readMaxClients is of a type that says it all: go-redis's for "max number of clients
// reached", which has no code. The server says it and closes the connection.
func readMaxClients(reflect.Value) (meaning, bool) { return takenBack(policy.ClassServer), true }

// readRedigo reads type Error string.
func readRedigo(v reflect.Value) (meaning, bool) {
	if v = reflect.Indirect(v); v.Kind() != reflect.String {
		return meaning{}, false
	}
	return redis(v.String())
}

// readRueidis reads the methods IsNil() bool and Error() string.
func readRueidis(v reflect.Value) (meaning, bool) {
	if none, ok := result(v.MethodByName("IsNil")); ok && none.Kind() == reflect.Bool && none.Bool() {
		return refusedBy(policy.ClassBusiness), true
	}
	if err, ok := v.Interface().(error); ok {
		return redis(err.Error())
	}
	return meaning{}, false
}
