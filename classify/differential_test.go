package classify

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net"
	"net/url"
	"os"
	"reflect"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/gabion-go/gabion/internal/grpccode"
	"github.com/gabion-go/gabion/internal/testrace"
	"github.com/gabion-go/gabion/policy"
)

// isLike is an error whose Is method knows some sentinels.
type isLike struct {
	error
	likes []error
}

func (e isLike) Is(target error) bool { return slices.Contains(e.likes, target) }
func (e isLike) Unwrap() error        { return e.error }

// asLike is an error whose As method fills every target that its inner error fits.
type asLike struct{ hidden, inner error }

func (asLike) Error() string   { return "as" }
func (e asLike) Unwrap() error { return e.inner }
func (e asLike) As(to any) bool {
	v, h := reflect.ValueOf(to).Elem(), reflect.ValueOf(e.hidden)
	if e.hidden == nil || !h.Type().AssignableTo(v.Type()) {
		return false
	}
	v.Set(h)
	return true
}

// streamLike has net/http's way to show a stream error.
type streamLike struct{ code uint32 }

func (streamLike) Error() string { return "stream" }
func (e streamLike) As(to any) bool {
	s, ok := to.(*streamError)
	if ok {
		s.Code = e.code
	}
	return ok
}

// joinLike joins errors and may hold nils, and is not comparable.
type joinLike []error

func (joinLike) Error() string     { return "join" }
func (j joinLike) Unwrap() []error { return j }

// bothLike has an Is and an As, joins, and has a network error's methods.
type bothLike struct {
	joinLike
	isLike bool
	late   bool
}

func (bothLike) Error() string          { return "both" }
func (b bothLike) Is(target error) bool { return b.isLike && target == io.EOF }
func (b bothLike) Timeout() bool        { return b.late }
func (bothLike) Temporary() bool        { return false }

// reply is an error as go-redis tells it.
type reply string

func (r reply) Error() string { return string(r) }
func (reply) RedisError()     {}

var redisReplies = []string{redisNil, redisConflict, "LOADING x", "TRYAGAIN", "ERR x", "BUSYGROUP x", "x", ""}

type sqliteLike struct{ Code int }

func (*sqliteLike) Error() string { return "sqlite" }

// A source of choices: bytes of a fuzzer, or of a generator.
type choices []byte

func (c *choices) pick(n int) int {
	if len(*c) == 0 {
		return 0
	}
	b := int((*c)[0])
	*c = (*c)[1:]
	return b % n
}

var (
	ops   = []string{"dial", "read", "proxyconnect", "socks connect", "remote error", "local error", "parse", "Get"}
	state = []string{"40001", "08001", "08006", "23505", "53100", "", "57P03", "P0001", "Z"}
	flat  = []error{
		errOdd, io.EOF, io.ErrUnexpectedEOF, context.Canceled, context.DeadlineExceeded, os.ErrDeadlineExceeded,
		sql.ErrNoRows, sql.ErrTxDone, sql.ErrConnDone, driver.ErrBadConn, net.ErrClosed, fs.ErrPermission, fs.ErrNotExist,
		&tls.CertificateVerificationError{Err: errOdd}, &tls.CertificateVerificationError{Err: x509.HostnameError{}},
		tls.RecordHeaderError{}, &tls.RecordHeaderError{}, &tls.ECHRejectionError{}, tls.AlertError(80),
		x509.UnknownAuthorityError{}, &x509.UnknownAuthorityError{}, x509.HostnameError{}, x509.CertificateInvalidError{},
		x509.SystemRootsError{Err: io.EOF}, x509.ConstraintViolationError{}, x509.UnhandledCriticalExtension{}, x509.InsecureAlgorithmError(1),
		&net.AddrError{}, &net.ParseError{}, net.UnknownNetworkError("x"), net.InvalidAddrError("x"), url.EscapeError("x"), url.InvalidHostError("x"),
		(*net.AddrError)(nil), (*net.ParseError)(nil), (*grpcError)(nil), &grpcError{}, (*sqliteLike)(nil), joinLike(nil), joinLike{nil, nil},
	}
)

// leaf is an error that wraps nothing, of all kinds that are known.
func (c *choices) leaf() error {
	switch c.pick(13) {
	case 0:
		return syscall.Errno(c.pick(140))
	case 1:
		return pgError(state[c.pick(len(state))])
	case 2:
		return streamLike{uint32(c.pick(15))}
	case 3:
		return &grpcError{&grpcStatus{uint32(c.pick(19))}}
	case 4:
		return &sqliteLike{c.pick(22)}
	case 5:
		yes := func() bool { return c.pick(2) == 1 }
		return tells{policy.Outcome{
			Class: policy.Class(c.pick(12)), Effect: policy.Effect(c.pick(2)), Stop: yes(), Once: yes(), Fixed: yes(), Open: yes(),
			NeverSent: yes(), Undone: yes(), HasAfter: yes(), Alone: yes(), Exact: yes(), After: time.Duration(c.pick(9)),
		}}
	case 6:
		return reply(redisReplies[c.pick(len(redisReplies))])
	case 7:
		return &net.DNSError{IsNotFound: c.pick(2) == 1, IsTimeout: c.pick(2) == 1, IsTemporary: c.pick(2) == 1}
	}
	return flat[c.pick(len(flat))]
}

// tree is an error around others.
func (c *choices) tree(depth int) error {
	if depth == 0 {
		return c.leaf()
	}
	down := func() error { return c.tree(depth - 1) }
	switch c.pick(26) {
	case 0:
		return fmt.Errorf("wrapped: %w", down())
	case 1:
		return fmt.Errorf("two: %w %w", down(), down())
	case 2:
		return errors.Join(down(), down(), down())
	case 3:
		return &url.Error{Op: ops[c.pick(len(ops))], Err: down()}
	case 4, 5:
		return &net.OpError{Op: ops[c.pick(len(ops))], Err: down()}
	case 6:
		return os.NewSyscallError("connect", down())
	case 7:
		return &fs.PathError{Err: down()}
	case 8:
		return isLike{down(), []error{sentinels[c.pick(len(sentinels))].err, sentinels[c.pick(len(sentinels))].err}}
	case 9, 10:
		return asLike{down(), down()}
	case 11:
		return asLike{nil, down()}
	case 12:
		return joinLike{nil, down(), down()}
	case 13:
		return bothLike{joinLike{down(), down()}, c.pick(2) == 0, c.pick(2) == 0}
	case 14:
		return safe{down(), c.pick(2) == 0}
	case 15:
		return Transient(down())
	case 16:
		return Permanent(down())
	case 17:
		return Business(down())
	case 18:
		return Throttled(down(), time.Duration(c.pick(3)-1))
	case 19:
		return NotSent(down())
	case 20:
		return DoNotRetry(down())
	case 22:
		return Contention(down())
	case 21:
		return &net.DNSError{UnwrapErr: down(), IsTimeout: c.pick(2) == 0}
	}
	return c.leaf()
}

func (c *choices) rules() Rules {
	list := func() (l []error) {
		for range c.pick(5) - 2 {
			l = append(l, c.leaf())
		}
		return l
	}
	r := Rules{Ignored: list(), Permanent: list(), Transient: list(), Business: list(), NotSent: list(), HostNotFound: c.pick(2) == 1}
	if c.pick(2) == 1 {
		r.GRPC = policy.GRPC{
			Transient: []policy.GRPCCode{grpccode.Aborted, grpccode.ResourceExhausted, grpccode.DeadlineExceeded}, Permanent: []policy.GRPCCode{grpccode.Unavailable},
		}
	}
	return r
}

// outcomeOr makes a panic comparable: a tree that old questions choke on must
// still be choked on.
func outcomeOr(f func() policy.Outcome) (o policy.Outcome, panicked bool) {
	defer func() { panicked = recover() != nil }()
	return f(), false
}

func sameAsNaive(t *testing.T, c choices) policy.Outcome {
	t.Helper()
	r := c.rules()
	err := c.tree(1 + c.pick(5))
	got, gotPanic := outcomeOr(func() policy.Outcome { return r.Error(err) })
	want, wantPanic := outcomeOr(func() policy.Outcome { return naive(r).Error(err) })
	got, want = uncoded(got), uncoded(want)
	if got != want || gotPanic != wantPanic {
		t.Fatalf("%#v of rules %+v\n got %+v, panic %v\nwant %+v, panic %v", err, r, got, gotPanic, want, wantPanic)
	}
	if got, _ := outcomeOr(func() policy.Outcome { return Error(err) }); uncoded(got) != naiveError(err) {
		t.Fatalf("%#v\n got %+v\nwant %+v", err, got, naiveError(err))
	}
	return want
}

// Join, and %w more than once, hold errors in an order that has no meaning.
func TestIssue10_TheOrderOfBranchesDecidesNothing(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for range 3_000 {
		c := make(choices, 300)
		for i := range c {
			c[i] = byte(random.Uint32())
		}
		r := c.rules()
		x, y, z := c.tree(c.pick(4)), c.tree(c.pick(4)), c.tree(c.pick(4))
		want, panicked := outcomeOr(func() policy.Outcome { return r.Error(errors.Join(x, y, z)) })
		for _, err := range []error{
			errors.Join(y, x, z), errors.Join(z, y, x), fmt.Errorf("%w; %w", errors.Join(z, x), y), joinLike{x, nil, joinLike{z, y}},
		} {
			if got, p := outcomeOr(func() policy.Outcome { return r.Error(err) }); got != want && !p && !panicked {
				t.Fatalf("%#v\n got %+v\nwant %+v", err, got, want)
			}
		}
	}
}

func TestIssue10_BranchesTogether(t *testing.T) {
	dial := &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	read := &net.OpError{Op: "read", Err: syscall.ECONNRESET}
	undid := undone(policy.ClassThrottled)
	undid.HasAfter, undid.After = true, time.Second
	tests := []struct {
		name string
		err  error
		want policy.Outcome
	}{
		{"one was never sent, the other timed out", fmt.Errorf("primary: %w; secondary: %w", context.DeadlineExceeded, dial), late},
		{"one was never sent, the other was reset", errors.Join(dial, read), sentNet},
		{"one broke off, the other had no connection", errors.Join(io.ErrUnexpectedEOF, sql.ErrConnDone), sentNet},
		{"one broke off, the other never had a connection", errors.Join(io.ErrUnexpectedEOF, dial), sentNet},
		{"an unknown error proves nothing", fmt.Errorf("%w: %w", errOdd, dial), sentNet},
		{"both were never sent", errors.Join(dial, &net.DNSError{IsTemporary: true}), unsentNet},
		{"one was never sent, the other rolled back", errors.Join(dial, pgError("40001")), undone(policy.ClassNetwork)},
		{"one rolled back, the other is in doubt", errors.Join(pgError("40001"), pgError("08006")), sentNet},
		{"both asked for time: the longer", errors.Join(Throttled(errOdd, time.Second), Throttled(errOdd, 0)), undid},
		{"a refusal beats a blip", errors.Join(read, Permanent(dial)), maybe(policy.ClassClient)},
		{"a dial that failed is not one that succeeded below", &net.OpError{Op: "dial", Err: errors.Join(syscall.ECONNREFUSED, syscall.ENETUNREACH)}, unsentNet},
		{"a mark speaks for all below it", NotSent(errors.Join(dial, read)), unsentNet},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := uncoded(Error(tt.err)); got != tt.want {
				t.Errorf("Error = %+v, want %+v", got, tt.want)
			}
		})
	}
}

func naiveError(err error) policy.Outcome {
	o, _ := outcomeOr(func() policy.Outcome { return naive{}.Error(err) })
	return uncoded(o)
}

func TestOneWalkSaysWhatManyQuestionsSay(t *testing.T) {
	testrace.Serial(t)
	known(t, "sqliteLike", typeName{"github.com/mattn/go-sqlite3", "Error"})
	random := rand.New(rand.NewPCG(1, 2))
	met := map[policy.Outcome]int{}
	n := 60_000
	if testing.Short() {
		n = 5_000
	}
	for range n {
		c := make(choices, 300)
		for i := range c {
			c[i] = byte(random.Uint32())
		}
		met[sameAsNaive(t, c)]++
	}
	if len(met) < 40 {
		t.Errorf("only %d different outcomes: the trees say too little", len(met))
	}
}

func TestEveryKindAloneAndUnderADial(t *testing.T) {
	kinds := slices.Clone(flat)
	for n := range 256 {
		kinds = append(kinds, syscall.Errno(n))
	}
	for _, kind := range kinds {
		for _, err := range []error{kind, &net.OpError{Op: "dial", Err: kind}, &url.Error{Op: "Get", Err: kind}, Transient(kind)} {
			if got, want := Error(err), naiveError(err); got != want {
				t.Errorf("%#v\n got %+v\nwant %+v", err, got, want)
			}
		}
	}
}

func FuzzOneWalk(f *testing.F) {
	f.Add([]byte("abcdefghijklmnopqrstuvwxyz"))
	f.Add([]byte{0, 0, 0, 0, 0, 4, 9, 1, 4, 0, 0, 111})
	f.Fuzz(func(t *testing.T, b []byte) { sameAsNaive(t, b) })
}

// ring is an error that contains itself, once or many times.
type ring struct{ of []error }

func (*ring) Error() string     { return "ring" }
func (r *ring) Unwrap() []error { return r.of }

func TestAnErrorThatContainsItselfIsStillAnswered(t *testing.T) {
	once, twice, marked := &ring{}, &ring{}, &ring{}
	once.of = []error{syscall.ECONNRESET, once}
	twice.of = []error{&grpcError{}, twice, twice}
	marked.of = []error{Permanent(marked)}
	tests := []struct {
		name string
		err  error
		want policy.Outcome
	}{
		{"what it says before it begins again counts", once, sentNet},
		{"it branches", twice, unknown},
		{"it goes through a mark", marked, maybe(policy.ClassClient)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := (Rules{Ignored: []error{io.EOF}}).Error(tt.err); got != tt.want {
				t.Errorf("Error = %+v, want %+v", got, tt.want)
			}
		})
	}
}

func TestAFailureThatIsRetriedAtOnceCostsNothing(t *testing.T) {
	errs := map[string]error{
		"plain":       errOdd,
		"transient":   Transient(errOdd),
		"marked deep": DoNotRetry(fmt.Errorf("call: %w", Transient(errOdd))),
		"late":        context.DeadlineExceeded,
		"joined":      errors.Join(errOdd, io.EOF),
		"dns":         &net.DNSError{IsNotFound: true},
	}
	rules := Rules{Transient: []error{io.EOF}}
	for name, err := range errs {
		if n := testing.AllocsPerRun(100, func() { Error(err); rules.Error(err) }); n > 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}
