package classify

import (
	"reflect"
	"strings"

	"github.com/gabion-go/gabion/policy"
)

// driver knows errors of drivers that we don't import, by the path and name of
// their types. It comes last, since reflection is slow, and only where the walk
// has seen one of them. The first that means something counts.
func (r *Rules) driver(err error) (meaning, bool) {
	for err != nil {
		if o, ok := r.concrete(err); ok {
			return o, true
		}
		switch x := err.(type) {
		case interface{ Unwrap() error }:
			err = x.Unwrap()
		case interface{ Unwrap() []error }:
			for _, e := range x.Unwrap() {
				if o, ok := r.driver(e); ok {
					return o, true
				}
			}
			return meaning{}, false
		default:
			return meaning{}, false
		}
	}
	return meaning{}, false
}

// concrete looks at one error, without looking into it.
func (r *Rules) concrete(err error) (meaning, bool) {
	if traitsOf(err).facts&foreign == 0 {
		return meaning{}, false
	}
	v := reflect.ValueOf(err)
	if v.Kind() == reflect.Pointer && v.IsNil() {
		return meaning{}, false
	}
	if read, ok := drivers[fullName(v.Type())]; ok {
		return read(v)
	}
	if code, ok := grpcCode(v); ok {
		return r.grpc(code)
	}
	return meaning{}, false
}

// isForeign reports whether concrete has something to read in errors of a type.
func isForeign(t reflect.Type) bool {
	if _, ok := drivers[fullName(t)]; ok {
		return true
	}
	_, ok := t.MethodByName("GRPCStatus")
	return ok
}

func fullName(t reflect.Type) string {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t.PkgPath() + "." + t.Name()
}

// drivers are the types that we know, and how to read them.
var drivers = map[string]func(reflect.Value) (meaning, bool){
	"github.com/go-sql-driver/mysql.MySQLError": readMySQL,
	"modernc.org/sqlite.Error":                  readModernc,
	"github.com/mattn/go-sqlite3.Error":         readMattn,

	// HTTP/2: of net/http up to Go 1.26 and from then on, and of the package for itself.
	"net/http.http2GoAwayError":           readGoAway,
	"net/http/internal/http2.GoAwayError": readGoAway,
	"golang.org/x/net/http2.GoAwayError":  readGoAway,
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
		return inDoubt(policy.Throttled), true
	}
	return inDoubt(policy.Network), true
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

// grpcCode reads err.GRPCStatus().Code(), by which every gRPC library knows its
// own errors. The names of methods are constants so that the linker can still
// drop methods that nobody calls.
func grpcCode(v reflect.Value) (uint64, bool) {
	status, ok := result(v.MethodByName("GRPCStatus"))
	if !ok || status.Kind() == reflect.Pointer && status.IsNil() {
		return 0, false
	}
	if status.Kind() == reflect.Interface {
		status = status.Elem()
	}
	if !status.IsValid() {
		return 0, false
	}
	code, ok := result(status.MethodByName("Code"))
	if !ok || !code.CanUint() {
		return 0, false
	}
	return code.Uint(), true
}

// A grpcMeaning is what a code means, and its name.
type grpcMeaning struct {
	name string
	meaning
}

// codes are gRPC's, in their order. The unclassified ones are failures that
// nobody promised to be passing.
var codes = [...]grpcMeaning{
	0:  {"OK", inDoubt(policy.Unclassified)}, // an error that says OK says nothing
	1:  {"CANCELLED", inDoubt(policy.Ignored)},
	2:  {"UNKNOWN", inDoubt(policy.Unclassified)},
	3:  {"INVALID_ARGUMENT", takenBack(policy.ClientError)},
	4:  {"DEADLINE_EXCEEDED", inDoubt(policy.Unclassified)}, // whose deadline? The attempt's own is known by the clock
	5:  {"NOT_FOUND", takenBack(policy.ClientError)},
	6:  {"ALREADY_EXISTS", takenBack(policy.ClientError)},
	7:  {"PERMISSION_DENIED", takenBack(policy.ClientError)},
	8:  {"RESOURCE_EXHAUSTED", takenBack(policy.ClientError)}, // a quota; passing only where the policy says so
	9:  {"FAILED_PRECONDITION", takenBack(policy.ClientError)},
	10: {"ABORTED", inDoubt(policy.ClientError)},
	11: {"OUT_OF_RANGE", takenBack(policy.ClientError)},
	12: {"UNIMPLEMENTED", takenBack(policy.ClientError)},
	13: {"INTERNAL", inDoubt(policy.Unclassified)},
	14: {"UNAVAILABLE", inDoubt(policy.ServerError)},
	15: {"DATA_LOSS", inDoubt(policy.Unclassified)},
	16: {"UNAUTHENTICATED", takenBack(policy.ClientError)},
}

// grpc says what a code means to r.
func (r *Rules) grpc(code uint64) (meaning, bool) {
	if code >= uint64(len(codes)) {
		return meaning{}, false
	}
	m := codes[code]
	if !r.lists(m.name) {
		return m.meaning, true
	}
	if m.name == "RESOURCE_EXHAUSTED" {
		m.class = policy.Throttled
	}
	m.class = transient(m.class)
	return m.meaning, true
}

func (r *Rules) lists(name string) bool {
	for _, n := range r.GRPC {
		if strings.EqualFold(n, name) {
			return true
		}
	}
	return false
}
