package classify

import (
	"reflect"
	"sync"

	"github.com/gabion-go/gabion/policy"
)

// How errors of drivers that we don't import are read: by the path and name of their
// types, and by methods that only they have.

// concrete looks at one error, without looking into it.
func (r *Rules) concrete(err error) (meaning, bool) {
	if !isForeign(reflect.TypeOf(err)) {
		return meaning{}, false
	}
	v := reflect.ValueOf(err)
	if v.Kind() == reflect.Pointer && v.IsNil() {
		return meaning{}, false
	}
	if read, ok := drivers[nameOf(v.Type())]; ok {
		return read(v)
	}
	if x, ok := err.(redisError); ok {
		return redis(x.Error())
	}
	if code, ok := grpcCode(v); ok {
		return r.grpc(code)
	}
	return meaning{}, false
}

// foreign says of each type that came by whether concrete has something to read in its
// errors. To ask a type for its name and its methods takes longer than all other questions
// together. The program's own types bound it.
var foreign sync.Map // of reflect.Type: bool

func isForeign(t reflect.Type) bool {
	if is, ok := foreign.Load(t); ok {
		return is.(bool)
	}
	_, is := drivers[nameOf(t)]
	if !is {
		_, is = t.MethodByName("GRPCStatus")
	}
	is = is || t.Implements(reflect.TypeFor[redisError]())
	foreign.Store(t, is)
	return is
}

// A typeName is a type's, without a pointer to it.
type typeName struct{ path, name string }

func nameOf(t reflect.Type) typeName {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return typeName{t.PkgPath(), t.Name()}
}

// drivers are the types that we know, and how to read them.
var drivers = map[typeName]func(reflect.Value) (meaning, bool){
	{"github.com/go-sql-driver/mysql", "MySQLError"}: readMySQL,
	{"modernc.org/sqlite", "Error"}:                  readModernc,
	{"github.com/mattn/go-sqlite3", "Error"}:         readMattn,

	pgxLocked: readLocked,

	{"github.com/redis/go-redis/v9/internal/proto", "MaxClientsError"}: readMaxClients,
	{"github.com/gomodule/redigo/redis", "Error"}:                      readRedigo,
	{"github.com/redis/rueidis", "RedisError"}:                         readRueidis,
	{"github.com/valkey-io/valkey-go", "ValkeyError"}:                  readRueidis,

	// HTTP/2: of net/http up to Go 1.26 and from then on, and of the package for itself.
	{"net/http", "http2GoAwayError"}:           readGoAway,
	{"net/http/internal/http2", "GoAwayError"}: readGoAway,
	{"golang.org/x/net/http2", "GoAwayError"}:  readGoAway,
}

// readGoAway reads struct{LastStreamID uint32; ErrCode uint32; DebugData string}: a
// connection that ended after its server had said that it would. Of which stream the
// error is it does not say, so the request is in doubt.
func readGoAway(v reflect.Value) (meaning, bool) {
	code, ok := field(v, "ErrCode")
	if !ok || !code.CanUint() {
		return meaning{}, false
	}
	if code.Uint() == enhanceYourCalm {
		return inDoubt(policy.ClassThrottled), true
	}
	return inDoubt(policy.ClassNetwork), true
}

// pgxLocked is pgx's error for a connection that is closed, busy or not made yet.
var pgxLocked = typeName{"github.com/jackc/pgx/v5/pgconn", "connLockError"}

// closedBefore reports whether err is pgx's for a connection that is closed.
func closedBefore(err error) bool {
	if nameOf(reflect.TypeOf(err)) != pgxLocked {
		return false
	}
	_, closed := readLocked(reflect.ValueOf(err))
	return closed
}

// readLocked reads struct{status string}.
func readLocked(v reflect.Value) (meaning, bool) {
	status, ok := field(v, "status")
	if !ok || status.Kind() != reflect.String || status.String() != "conn closed" {
		return meaning{}, false
	}
	return inDoubt(policy.ClassNetwork), true
}

// readMySQL reads struct{Number uint16; SQLState [5]byte; …}.
func readMySQL(v reflect.Value) (meaning, bool) {
	number, ok := field(v, "Number")
	if !ok || !number.CanUint() {
		return meaning{}, false
	}
	state, _ := field(v, "SQLState")
	return mysql(number.Uint(), ascii(state))
}

// readModernc reads the method Code() int.
func readModernc(v reflect.Value) (meaning, bool) {
	code, ok := result(v.MethodByName("Code"))
	if !ok || !code.CanInt() {
		return meaning{}, false
	}
	return sqlite(code.Int())
}

// readMattn reads struct{Code ErrNo; …}.
func readMattn(v reflect.Value) (meaning, bool) {
	code, ok := field(v, "Code")
	if !ok || !code.CanInt() {
		return meaning{}, false
	}
	return sqlite(code.Int())
}

func field(v reflect.Value, name string) (reflect.Value, bool) {
	v = reflect.Indirect(v)
	if v.Kind() != reflect.Struct {
		return reflect.Value{}, false
	}
	f := v.FieldByName(name)
	return f, f.IsValid()
}

// ascii reads an array of bytes.
func ascii(v reflect.Value) string {
	if v.Kind() != reflect.Array || v.Type().Elem().Kind() != reflect.Uint8 {
		return ""
	}
	b := make([]byte, v.Len())
	reflect.Copy(reflect.ValueOf(b), v)
	return string(b)
}

// result calls a method that takes nothing and returns one value.
func result(method reflect.Value) (reflect.Value, bool) {
	if !method.IsValid() || method.Type().NumIn() != 0 || method.Type().NumOut() != 1 {
		return reflect.Value{}, false
	}
	return method.Call(nil)[0], true
}
