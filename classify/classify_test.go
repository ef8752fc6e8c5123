package classify

import (
	"context"
	"crypto/x509"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/url"
	"os"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/gabion-go/gabion/internal/grpccode"
	"github.com/gabion-go/gabion/policy"
)

var errOdd = errors.New("odd")

// The outcomes that most tests expect.
var (
	success   = policy.Succeeded()
	sentNet   = maybe(policy.ClassNetwork)
	unsentNet = unsent(policy.ClassNetwork)
	late      = maybe(policy.ClassTimeout)
	refused   = unsent(policy.ClassClient)
	unknown   = maybe(policy.ClassUnclassified)
	gaveUp    = maybe(policy.ClassIgnored)
)

// On Windows nearly all lookups that fail are of no known kind (lookup_windows.go).
var vagueLookup = map[bool]policy.Outcome{false: unsent(policy.ClassUnclassified), true: unsentNet}

func TestErrorByValue(t *testing.T) {
	tests := []struct {
		name string
		err  error
		want policy.Outcome
	}{
		{"nil is a success", nil, success},
		{"C62 an unclassified error is in doubt", errOdd, unknown},
		{"a text that sounds like a network error is not one", errors.New("connection refused"), unknown},
		{"a file that is missing is not a network error", &fs.PathError{Op: "open", Path: "x", Err: syscall.ENOENT}, unknown},

		{"C65 the caller's cancel says nothing", fmt.Errorf("get: %w", context.Canceled), gaveUp},
		{"a deadline is in doubt", fmt.Errorf("get: %w", context.DeadlineExceeded), late},
		{"a connection's deadline is in doubt", os.ErrDeadlineExceeded, late},

		{"reset", &net.OpError{Op: "read", Err: os.NewSyscallError("read", syscall.ECONNRESET)}, sentNet},
		{"broken pipe", &net.OpError{Op: "write", Err: os.NewSyscallError("write", syscall.EPIPE)}, sentNet},
		{"bare errno", syscall.ECONNABORTED, sentNet},
		{"host unreachable while sending", &net.OpError{Op: "write", Err: syscall.EHOSTUNREACH}, sentNet},
		{"network unreachable while dialling", &net.OpError{Op: "dial", Err: syscall.ENETUNREACH}, unsentNet},
		{"timed out while sending", &net.OpError{Op: "read", Err: syscall.ETIMEDOUT}, late},
		{"timed out while dialling", &net.OpError{Op: "dial", Err: syscall.ETIMEDOUT}, unsent(policy.ClassTimeout)},
		{"a dial that the caller cancelled", &net.OpError{Op: "dial", Err: context.Canceled}, unsent(policy.ClassIgnored)},
		{"a dial that a firewall forbids", &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.EPERM)}, refused},
		{"a dial with no file descriptors left", &net.OpError{Op: "dial", Err: os.NewSyscallError("socket", syscall.EMFILE)}, unsentNet},
		{"a proxy that could not be reached", &net.OpError{Op: "proxyconnect", Err: &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}}, unsentNet},
		{"host down while sending", &net.OpError{Op: "write", Err: os.NewSyscallError("write", syscall.EHOSTDOWN)}, sentNet},
		{"no buffers left while sending", &net.OpError{Op: "write", Err: os.NewSyscallError("write", syscall.ENOBUFS)}, sentNet},
		{"a connection shut down", &net.OpError{Op: "write", Err: os.NewSyscallError("write", syscall.ESHUTDOWN)}, sentNet},
		{"closed connection", &net.OpError{Op: "write", Err: net.ErrClosed}, sentNet},

		{"end of file under a URL", &url.Error{Op: "Get", URL: "http://x", Err: io.EOF}, sentNet},
		{"end of file under a connection", &net.OpError{Op: "read", Err: io.EOF}, sentNet},
		{"unexpected end of file", fmt.Errorf("decode: %w", io.ErrUnexpectedEOF), sentNet},
		{"a connection that was closed", io.EOF, sentNet},

		{"no such host", &net.DNSError{Err: "no such host", IsNotFound: true}, refused},
		{"temporary DNS failure", &net.DNSError{Err: "server misbehaving", IsTemporary: true}, unsentNet},
		{"DNS timeout", &net.DNSError{Err: "i/o timeout", IsTimeout: true}, unsent(policy.ClassTimeout)},
		{"DNS failure of no known kind", &net.DNSError{Err: "cannot unmarshal"}, vagueLookup[runtime.GOOS == "windows"]},
		{"no such host under dial and URL", &url.Error{Op: "Get", Err: &net.OpError{Op: "dial", Err: &net.DNSError{IsNotFound: true}}}, refused},

		{"expired certificate", x509.CertificateInvalidError{Reason: x509.Expired}, maybe(policy.ClassClient)},

		{"no rows is a valid no", fmt.Errorf("user: %w", sql.ErrNoRows), refusal(policy.ClassBusiness)},
		{"a finished transaction", sql.ErrTxDone, maybe(policy.ClassClient)},
		{"a bad connection may have been used", driver.ErrBadConn, sentNet},
		{"a connection given back says nothing of its use before", sql.ErrConnDone, sentNet},
		{"serialization failure", pgError("40001"), undone(policy.ClassContention)},
		{"the server is a read-only replica", pgError("25006"), undone(policy.ClassServer)},
		{"deadlock", fmt.Errorf("tx: %w", pgError("40P01")), undone(policy.ClassContention)},
		{"lock not had in time", pgError("55P03"), undone(policy.ClassContention)},
		{"crash of another", pgError("57P02"), maybe(policy.ClassServer)},
		{"shutdown", pgError("57P01"), maybe(policy.ClassServer)},
		{"starting up", pgError("57P03"), unsent(policy.ClassServer)},
		{"too many connections", pgError("53300"), policy.Outcome{Class: policy.ClassServer, NeverSent: true, Busy: true}},
		{"never connected", pgError("08001"), unsentNet},
		{"connection rejected", pgError("08004"), unsentNet},
		{"connection failure in doubt", pgError("08006"), sentNet},
		{"commit in doubt", pgError("08007"), sentNet},
		{"connection gone", pgError("08003"), sentNet},
		{"unique violation", pgError("23505"), refusal(policy.ClassClient)},
		{"syntax error", pgError("42601"), refusal(policy.ClassClient)},
		{"an exception that SQL code raises", pgError("P0001"), maybe(policy.ClassClient)},
		{"no row for SELECT INTO STRICT", pgError("P0002"), maybe(policy.ClassClient)},
		{"an exception with a state of the program's own", pgError("ZZ001"), maybe(policy.ClassClient)},
		{"SIGNAL with the standard's state", pgError("45000"), maybe(policy.ClassClient)},
		{"more than one row in a subquery", pgError("21000"), refusal(policy.ClassClient)},
		{"an object that others depend on", pgError("2BP01"), refusal(policy.ClassClient)},
		{"an unknown prepared statement", pgError("26000"), refusal(policy.ClassClient)},
		{"a value too large for its index", pgError("54000"), refusal(policy.ClassClient)},
		{"an object in use", pgError("55006"), refusal(policy.ClassClient)},
		{"VACUUM in a transaction", pgError("25001"), refusal(policy.ClassClient)},
		{"a statement in a failed transaction", pgError("25P02"), refusal(policy.ClassClient)},
		{"statement timeout", pgError("57014"), unknown},
		{"a session that was idle too long", pgError("57P05"), unknown},
		{"a foreign server away", pgError("HV00N"), unknown},
		{"internal error", pgError("XX000"), unknown},
		{"a letter is no state", pgError("Z"), unknown},
		{"disk full", pgError("53100"), unknown},
		{"no state at all", pgError(""), unknown},
		{"pgx says nothing was sent", safe{errOdd, true}, unsent(policy.ClassUnclassified)},
		{"pgx says nothing was sent before a reset", safe{syscall.ECONNRESET, true}, unsentNet},
		{"pgx does not say so", safe{syscall.ECONNRESET, false}, sentNet},

		{"the error says so itself", fmt.Errorf("nested: %w", tells{policy.Outcome{Class: policy.ClassServer, Stop: true}}), policy.Outcome{Class: policy.ClassServer, Stop: true}},
		{"one of two joined errors is known", errors.Join(errOdd, syscall.ECONNRESET), sentNet},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := uncoded(Error(tt.err)); got != tt.want {
				t.Errorf("Error(%v) = %+v, want %+v", tt.err, got, tt.want)
			}
		})
	}
}

type pgError string

func (e pgError) Error() string    { return "state " + string(e) }
func (e pgError) SQLState() string { return string(e) }

type safe struct {
	error
	ok bool
}

func (e safe) Unwrap() error     { return e.error }
func (e safe) SafeToRetry() bool { return e.ok }

type tells struct{ o policy.Outcome }

func (tells) Error() string             { return "tells" }
func (e tells) Outcome() policy.Outcome { return e.o }

func TestMarks(t *testing.T) {
	dial := &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	tests := []struct {
		name string
		err  error
		want policy.Outcome
	}{
		{"transient", Transient(errOdd), maybe(policy.ClassServer)},
		{"transient keeps a transient class", Transient(syscall.ECONNRESET), sentNet},
		{"permanent", Permanent(errOdd), maybe(policy.ClassClient)},
		{"permanent keeps that nothing was sent", Permanent(dial), refused},
		{"permanent keeps a business no", Permanent(sql.ErrNoRows), refusal(policy.ClassBusiness)},
		{"business has no effect", Business(errOdd), refusal(policy.ClassBusiness)},
		{"throttled", Throttled(errOdd, 2*time.Second), policy.Outcome{Class: policy.ClassThrottled, Undone: true, HasAfter: true, After: 2 * time.Second}},
		{"throttled without a time", Throttled(errOdd, 0), policy.Refused(policy.ClassThrottled)},
		{"throttled with a time gone by", Throttled(errOdd, -time.Second), policy.Refused(policy.ClassThrottled)},
		{"contention", Contention(errOdd), policy.Refused(policy.ClassContention)},
		{"transient keeps contention", Transient(Contention(errOdd)), policy.Refused(policy.ClassContention)},
		{"not sent", NotSent(errOdd), unsentNet},
		{"not sent and permanent", NotSent(Permanent(errOdd)), refused},
		{"permanent and not sent", Permanent(NotSent(errOdd)), refused},
		{"stop keeps the class", DoNotRetry(syscall.ECONNRESET), policy.Outcome{Class: policy.ClassNetwork, Effect: policy.UnknownEffect, Stop: true}},
		{"C75 transient does not lift a stop", Transient(DoNotRetry(errOdd)), policy.Outcome{Class: policy.ClassServer, Effect: policy.UnknownEffect, Stop: true}},
		{"the outermost mark wins", Transient(fmt.Errorf("x: %w", Permanent(errOdd))), maybe(policy.ClassServer)},
		{"the outermost mark wins, turned round", Permanent(fmt.Errorf("x: %w", Transient(errOdd))), maybe(policy.ClassClient)},
		{"a mark beats what the error says itself", Permanent(tells{maybe(policy.ClassNetwork)}), maybe(policy.ClassClient)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := uncoded(Error(tt.err)); got != tt.want {
				t.Errorf("Error = %+v, want %+v", got, tt.want)
			}
		})
	}
}

func TestMarksAreSeenThrough(t *testing.T) {
	marks := map[string]func(error) error{
		"Transient": Transient, "Permanent": Permanent, "Business": Business, "NotSent": NotSent, "Contention": Contention, "DoNotRetry": DoNotRetry,
		"Throttled": func(err error) error { return Throttled(err, time.Second) },
	}
	for name, mark := range marks {
		if mark(nil) != nil {
			t.Errorf("%s(nil) is not nil", name)
		}
		err := mark(errOdd)
		if !errors.Is(err, errOdd) || err.Error() != errOdd.Error() {
			t.Errorf("%s hides its error: %v", name, err)
		}
		if o := err.(teller).Outcome(); o != Error(err) {
			t.Errorf("%s: Outcome() = %+v, Error = %+v", name, o, Error(err))
		}
	}
}

func TestRules(t *testing.T) {
	errGone := errors.New("gone")
	grpc := Rules{GRPC: policy.GRPC{Transient: []policy.GRPCCode{grpccode.ResourceExhausted, grpccode.Aborted}}}
	tests := []struct {
		name  string
		rules Rules
		err   error
		want  policy.Outcome
	}{
		{"listed transient", Rules{Transient: []error{errOdd}}, errOdd, maybe(policy.ClassServer)},
		{"listed permanent", Rules{Permanent: []error{syscall.ECONNRESET}}, syscall.ECONNRESET, maybe(policy.ClassClient)},
		{"C62 ignored beats transient", Rules{Transient: []error{errOdd}, Ignored: []error{errOdd}}, errOdd, gaveUp},
		{"C62 permanent beats transient", Rules{Transient: []error{errOdd}, Permanent: []error{errOdd}}, errOdd, maybe(policy.ClassClient)},
		{"listed as a valid no", Rules{Business: []error{errOdd}}, errOdd, refusal(policy.ClassBusiness)},
		{"C62 permanent beats a valid no", Rules{Permanent: []error{errOdd}, Business: []error{errOdd}}, errOdd, maybe(policy.ClassClient)},
		{"listed as never sent", Rules{NotSent: []error{errOdd}}, errOdd, unsentNet},
		{"listed as never sent and transient", Rules{NotSent: []error{errOdd}, Transient: []error{errOdd}}, errOdd, unsentNet},
		{"a nil in a list names nothing", Rules{Transient: []error{nil}}, errOdd, unknown},
		{"a list names one branch, and speaks of it alone", Rules{NotSent: []error{errOdd}}, errors.Join(errOdd, syscall.ECONNRESET), sentNet},
		{"lists leave others alone", Rules{Transient: []error{errGone}}, errOdd, unknown},
		{"a list does not unlearn that nothing was sent", Rules{Permanent: []error{syscall.ECONNREFUSED}}, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}, refused},
		{"a mark beats a list", Rules{Transient: []error{errOdd}}, Permanent(errOdd), maybe(policy.ClassClient)},
		{"a list is heard below a mark", Rules{Transient: []error{errOdd}}, DoNotRetry(errOdd), policy.Outcome{Class: policy.ClassServer, Effect: policy.UnknownEffect, Stop: true}},
		{"names that come and go", Rules{HostNotFound: true}, &net.DNSError{IsNotFound: true}, unsentNet},
		{"listed gRPC quota", grpc, status(8), maybe(policy.ClassThrottled)},
		{"listed gRPC abort", grpc, status(10), maybe(policy.ClassContention)},
		{"listed gRPC deadline", Rules{GRPC: policy.GRPC{Transient: []policy.GRPCCode{grpccode.DeadlineExceeded}}}, status(4), maybe(policy.ClassTimeout)},
		{"listed gRPC bug", Rules{GRPC: policy.GRPC{Transient: []policy.GRPCCode{grpccode.Internal}}}, status(13), maybe(policy.ClassServer)},
		{"listed gRPC outage that stays", Rules{GRPC: policy.GRPC{Permanent: []policy.GRPCCode{grpccode.Unavailable}}}, status(14), maybe(policy.ClassClient)},
		{"in both lists of gRPC", Rules{GRPC: policy.GRPC{Transient: []policy.GRPCCode{grpccode.Aborted}, Permanent: []policy.GRPCCode{grpccode.Aborted}}}, status(10), maybe(policy.ClassClient)},
		{"a gRPC refusal that is called permanent stays a valid no", Rules{GRPC: policy.GRPC{Permanent: []policy.GRPCCode{grpccode.NotFound}}}, status(5), refusal(policy.ClassBusiness)},
		{"unlisted gRPC quota", Rules{}, status(8), maybe(policy.ClassClient)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := uncoded(tt.rules.Error(tt.err)); got != tt.want {
				t.Errorf("Error = %+v, want %+v", got, tt.want)
			}
		})
	}
}

// grpcStatus and grpcError have the methods of grpc-go's types.
type (
	grpcStatus struct{ code uint32 }
	grpcError  struct{ s *grpcStatus }
)

func (s *grpcStatus) Code() uint32           { return s.code }
func (e *grpcError) Error() string           { return "rpc error" }
func (e *grpcError) GRPCStatus() *grpcStatus { return e.s }

func status(code uint32) error { return fmt.Errorf("call: %w", &grpcError{&grpcStatus{code}}) }

func TestGRPC(t *testing.T) {
	want := map[uint32]policy.Outcome{
		0: unknown, 1: gaveUp, 2: unknown, 4: unknown, 13: unknown, 14: maybe(policy.ClassServer), 15: unknown,
		5: refusal(policy.ClassBusiness), 8: maybe(policy.ClassClient), 10: maybe(policy.ClassContention), 99: unknown,
	}
	for code := range uint32(17) {
		w, ok := want[code]
		if !ok {
			w = refusal(policy.ClassClient)
		}
		if got := uncoded(Error(status(code))); got != w {
			t.Errorf("%s = %+v, want %+v", codes[code].name, got, w)
		}
	}
	for name, err := range map[string]error{
		"a code of the future": status(99), "no status": &grpcError{}, "nil pointer": (*grpcError)(nil),
	} {
		if got := Error(err); got != unknown {
			t.Errorf("%s = %+v", name, got)
		}
	}
}

type (
	mysqlType struct {
		Number   uint16
		SQLState [5]byte
	}
	moderncType struct{ code int }
	mattnNumber int
	mattnType   struct{ Code mattnNumber }
)

func (*mysqlType) Error() string   { return "" }
func (*moderncType) Error() string { return "" }
func (e *moderncType) Code() int   { return e.code }
func (mattnType) Error() string    { return "" }
func at(s string) (state [5]byte)  { copy(state[:], s); return }
func known(t *testing.T, as string, real typeName) {
	t.Helper()
	local := typeName{"github.com/gabion-go/gabion/classify", as}
	if drivers[real] == nil {
		t.Fatalf("no driver is called %v", real)
	}
	drivers[local] = drivers[real]
	foreign.Clear() // some may have come by as strangers
	t.Cleanup(func() { delete(drivers, local); foreign.Clear() })
}

// The real types are asked in module e2e; here are types of the same shape.
func TestDrivers(t *testing.T) {
	known(t, "mysqlType", typeName{"github.com/go-sql-driver/mysql", "MySQLError"})
	known(t, "moderncType", typeName{"modernc.org/sqlite", "Error"})
	known(t, "mattnType", typeName{"github.com/mattn/go-sqlite3", "Error"})
	again, rolledBack, wrong := refusal(policy.ClassContention), undone(policy.ClassContention), refusal(policy.ClassClient)
	full := policy.Outcome{Class: policy.ClassServer, NeverSent: true, Busy: true}
	tests := []struct {
		name string
		err  error
		want policy.Outcome
	}{
		{"mysql lock wait", &mysqlType{1205, at("HY000")}, again},
		{"mysql deadlock", fmt.Errorf("tx: %w", &mysqlType{1213, at("40001")}), rolledBack},
		{"mysql group replication", &mysqlType{3101, at("40000")}, rolledBack},
		{"mysql changed since the snapshot", &mysqlType{1020, at("HY000")}, rolledBack},
		{"mysql NOWAIT", &mysqlType{3572, at("HY000")}, again},
		{"mysql too many connections of this user", &mysqlType{1203, at("42000")}, full},
		{"mysql shuts down", &mysqlType{1053, at("08S01")}, sentNet},
		{"mysql too many connections", &mysqlType{1040, at("08004")}, full},
		{"mysql duplicate key", &mysqlType{1062, at("23000")}, wrong},
		{"mysql SIGNAL", &mysqlType{1644, at("45000")}, maybe(policy.ClassClient)},
		{"mysql SIGNAL with the state of a conflict", &mysqlType{1644, at("40001")}, maybe(policy.ClassContention)},
		{"mysql column without a value", &mysqlType{1364, at("HY000")}, wrong},
		{"mysql value of another type", &mysqlType{1366, at("HY000")}, wrong},
		{"mysql value that is cut", &mysqlType{1265, at("01000")}, wrong},
		{"mysql check constraint", &mysqlType{3819, at("HY000")}, wrong},
		{"mysql more than one row in a subquery", &mysqlType{1242, at("21000")}, wrong},
		{"mysql something else", &mysqlType{3, at("HY000")}, unknown},
		{"mysql without a state", &mysqlType{Number: 3}, unknown},
		{"mysql nil", (*mysqlType)(nil), unknown},
		{"modernc busy", &moderncType{5}, again},
		{"modernc busy, extended", fmt.Errorf("save: %w", &moderncType{5 | 2<<8}), again},
		{"modernc locked", &moderncType{6}, again},
		{"modernc constraint, extended", &moderncType{19 | 8<<8}, wrong},
		{"modernc no such table", &moderncType{1}, wrong},
		{"modernc too big", &moderncType{18}, wrong},
		{"modernc bind index", &moderncType{25}, wrong},
		{"modernc corrupt", &moderncType{11}, unknown},
		{"mattn busy by value", mattnType{5}, again},
		{"mattn busy by pointer", &mattnType{5}, again},
		{"redis: a value that is no number", reply("ERR value is not an integer or out of range"), maybe(policy.ClassClient)},
		{"redis: an error of a script's own", reply("MYERR not enough money"), maybe(policy.ClassClient)},
		{"redis: too many clients", reply("ERR max number of clients reached"), undone(policy.ClassServer)},
		{"redis: a proxy's text", reply("upstream failure"), unknown},
		{"redis: a text that begins with a capital", reply("Upstream failure"), unknown},
		{"redis: no text", reply(""), unknown},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := uncoded(Error(tt.err)); got != tt.want {
				t.Errorf("Error = %+v, want %+v", got, tt.want)
			}
		})
	}
}

func TestKnownErrorsCostNothing(t *testing.T) {
	errs := map[string]error{
		"nil":     nil,
		"cancel":  context.Canceled,
		"late":    &url.Error{Op: "Get", Err: context.DeadlineExceeded},
		"refused": &url.Error{Op: "Get", Err: &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}},
		"state":   fmt.Errorf("tx: %w", pgError("40001")),
		"marked":  Permanent(errOdd),
	}
	for name, err := range errs {
		if n := testing.AllocsPerRun(100, func() { Error(err) }); n > 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

// An error that has nothing to say of itself is what it wraps.
func TestAnOutcomeWithoutAClassSaysNothing(t *testing.T) {
	for _, c := range []struct {
		err  error
		want policy.Class
	}{
		{tells{o: policy.Outcome{}}, policy.ClassUnclassified},
		{tells{o: policy.Outcome{Stop: true}}, policy.ClassUnclassified},
		{fmt.Errorf("%w: %w", tells{o: policy.Outcome{}}, Throttled(errors.New("busy"), 0)), policy.ClassThrottled},
		{Permanent(tells{o: policy.Outcome{}}), policy.ClassClient},
	} {
		if got := Error(c.err); got.Class != c.want {
			t.Errorf("%v means %+v, want %v", c.err, got, c.want)
		}
	}
}

// uncoded is o without the code, by which nothing is decided.
func uncoded(o policy.Outcome) policy.Outcome {
	o.Code = ""
	return o
}

func TestTheCodeIsTheDependencysOwnWord(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want string
	}{
		{errOdd, ""},
		{syscall.ECONNREFUSED, ""},
		{pgError("40001"), "40001"},
		{fmt.Errorf("save: %w", pgError("23505")), "23505"},
		{pgError("P0001"), "P0001"},
		{pgError("ZZ001"), ""}, // programs may have any number of them
		{pgError("XX000"), ""},
		{errors.Join(pgError("40001"), pgError("08006")), "40001"},
		{errors.Join(pgError("08006"), pgError("40001")), "40001"},
	} {
		if got := Error(tt.err).Code; got != tt.want {
			t.Errorf("%v: code %q, want %q", tt.err, got, tt.want)
		}
	}
	if m, _ := mysql(1213, "40001"); m.code != "1213" {
		t.Errorf("a deadlock of MySQL has the code %q", m.code)
	}
	if m, _ := sqlite(5 | 2<<8); m.code != "SQLITE_BUSY" {
		t.Errorf("a busy SQLite has the code %q", m.code)
	}
	if m, _ := new(Rules).grpc(14); m.code != "UNAVAILABLE" {
		t.Errorf("gRPC 14 has the code %q", m.code)
	}
}
