package classify

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"database/sql"
	"database/sql/driver"
	"io"
	"io/fs"
	"net"
	"net/url"
	"os"
	"reflect"

	"github.com/gabion-go/gabion/internal/outcome"
	"github.com/gabion-go/gabion/policy"
)

// maxErrors bounds how many errors of a tree are looked at. No honest tree comes
// near it; one that contains itself ends here.
const maxErrors = 1 << 16

// A fact is something that holds of an error because of an error in its tree.
type fact uint32

const (
	canceled   fact = 1 << iota // context.Canceled
	expired                     // the deadline of a context or a connection
	noRows                      // sql.ErrNoRows
	txDone                      // sql.ErrTxDone
	denied                      // fs.ErrPermission
	cutOff                      // a connection that is closed: net, io and database/sql
	handshake                   // a TLS handshake that the client broke off
	mistrusted                  // a certificate that x509 refuses
	badAddress                  // an address that can't be called

	// These have more to tell, in the field of facts beside them.
	hasURL
	hasOp
	hasDNS
	hasNumber
	hasStream
	hasNet
	hasState
	hasSafe
)

// sentinels are the errors that are known by their value.
var sentinels = []struct {
	err  error
	fact fact
}{
	{context.Canceled, canceled},
	{context.DeadlineExceeded, expired},
	{os.ErrDeadlineExceeded, expired},
	{sql.ErrNoRows, noRows},
	{sql.ErrTxDone, txDone},
	{driver.ErrBadConn, cutOff},
	{sql.ErrConnDone, cutOff},
	{net.ErrClosed, cutOff},
	{io.ErrUnexpectedEOF, cutOff},
	{io.EOF, cutOff},
	{fs.ErrPermission, denied},
}

// teller is an error that knows what it means.
type teller interface {
	error
	Outcome() policy.Outcome
}

// The methods of drivers. They are aliases since an error's As method may know
// the types without their names.
type (
	stater = interface { // pgx and lib/pq
		error
		SQLState() string
	}
	vower = interface { // pgx's promise that nothing was sent to the server
		error
		SafeToRetry() bool
	}
)

// facts are what the errors on one way down a tree say. Of several errors of a
// kind the outermost counts, as with errors.As.
type facts struct {
	seen   fact
	in     lists
	spoke  bool           // driver is known
	driver meaning        // of the outermost foreign error that means something
	left   int            // how many errors may still be looked at
	hinted bool           // hints say something
	hints  policy.Outcome // what tellers said that named no class
	url    *url.Error
	op     *net.OpError
	dns    *net.DNSError
	number number
	stream streamError
	net    net.Error
	state  stater
	safe   vower
}

func (f *facts) has(any fact) bool { return f.seen&any != 0 }

// judge puts into o what the tree of err means, f being what the errors above it
// said. The word of a teller counts alone for all that is below it. One that names no
// class leaves that to those below, and what else it says is kept.
func (f *facts) judge(r *Rules, err error, o *policy.Outcome) {
	f.decide(r, err, o)
	if f.hinted {
		outcome.Add(o, &f.hints)
	}
}

func (f *facts) decide(r *Rules, err error, o *policy.Outcome) {
	for err != nil && f.left > 0 {
		f.left--
		if reflect.TypeOf(err) == text {
			f.seen |= textOf(err)
			f.in |= r.listing(err)
			break
		}
		if t, ok := err.(teller); ok && f.told(r, t, o) {
			return
		}
		f.note(err)
		f.in |= r.listing(err)
		if !f.spoke {
			f.driver, f.spoke = r.concrete(err)
		}
		if x, ok := err.(asker); ok {
			if t, ok := f.fill(x); ok && f.told(r, t, o) {
				return
			}
		}
		switch x := err.(type) {
		case interface{ Unwrap() error }:
			err = x.Unwrap()
		case interface{ Unwrap() []error }:
			if f.judgeAll(r, x.Unwrap(), o) {
				return
			}
			err = nil
		default:
			err = nil
		}
	}
	r.listed(f.in, r.known(f), o)
}

// told puts into o what t says of itself. It reports false if that is nothing.
func (f *facts) told(r *Rules, t teller, o *policy.Outcome) bool {
	if m, ok := t.(*mark); ok {
		m.outcome(r, f.left, o)
		return true
	}
	said := t.Outcome()
	if said.Class == policy.ClassUndecided {
		outcome.Add(&said, &f.hints) // the outermost has the last word
		f.hints, f.hinted = said, true
		return false
	}
	*o = said
	return true
}

// judgeAll puts together what the branches mean. It reports false if there are none.
func (f *facts) judgeAll(r *Rules, errs []error, o *policy.Outcome) (any bool) {
	var ( // out here, they need not be allocated
		branch facts
		other  policy.Outcome
	)
	for _, err := range errs {
		if err == nil {
			continue
		}
		branch, other = *f, policy.Outcome{}
		branch.judge(r, err, &other)
		f.left = branch.left
		if !any {
			*o, any = other, true
			continue
		}
		merge(o, &other)
	}
	return any
}

// text is the type of errors.New. Its errors have nothing but their value.
var text = reflect.TypeOf(io.EOF)

// texts are the sentinels of that type, by where they are: a handful is sooner compared than looked up in a map.
var texts = func() (all []sentinel) {
	for _, s := range sentinels {
		if reflect.TypeOf(s.err) == text {
			all = append(all, sentinel{reflect.ValueOf(s.err).Pointer(), s.fact})
		}
	}
	return all
}()

type sentinel struct {
	at   uintptr
	fact fact
}

// textOf is what is known of an error of that type.
func textOf(err error) fact {
	at := reflect.ValueOf(err).Pointer()
	for _, s := range texts {
		if s.at == at {
			return s.fact
		}
	}
	return 0
}

// note takes down what one error says by its value, its type and its methods. An error
// is kept where it is the first of its kind.
func (f *facts) note(err error) {
	x, asks := err.(interface{ Is(error) bool })
	for i := range sentinels {
		s := &sentinels[i]
		if !f.has(s.fact) && (err == s.err || asks && x.Is(s.err)) {
			f.seen |= s.fact
		}
	}
	switch e := err.(type) {
	case *url.Error:
		first(f, hasURL, &f.url, e)
	case *net.OpError:
		first(f, hasOp, &f.op, e)
	case *net.DNSError:
		first(f, hasDNS, &f.dns, e)
	case number:
		first(f, hasNumber, &f.number, e)
	case *tls.CertificateVerificationError, tls.RecordHeaderError, *tls.ECHRejectionError:
		f.seen |= handshake // the client's own, so nothing was sent
	case x509.UnknownAuthorityError, x509.HostnameError, x509.CertificateInvalidError, x509.SystemRootsError,
		x509.ConstraintViolationError, x509.UnhandledCriticalExtension, x509.InsecureAlgorithmError:
		f.seen |= mistrusted
	case *net.AddrError, *net.ParseError, net.UnknownNetworkError, net.InvalidAddrError, url.EscapeError, url.InvalidHostError:
		f.seen |= badAddress
	}
	if e, ok := err.(net.Error); ok {
		first(f, hasNet, &f.net, e)
	}
	if e, ok := err.(stater); ok {
		first(f, hasState, &f.state, e)
	}
	if e, ok := err.(vower); ok {
		first(f, hasSafe, &f.safe, e)
	}
}

func first[E error](f *facts, kind fact, to *E, err E) {
	if !f.has(kind) {
		f.seen |= kind
		*to = err
	}
}
