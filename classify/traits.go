package classify

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/url"
	"os"
	"reflect"
	"sync"

	"github.com/gabion-go/gabion/policy"
)

// traits are what can be said of all errors of a type.
type traits struct {
	facts  fact
	ways   ways
	values []sentinel // those of this type
	asked  []sentinel // those that the type's Is method might know
	means  []meaning  // what values mean alone, of types that wrap nothing
}

// alone is the meaning of err by itself. Only errors that lead nowhere and say
// nothing but by their value have one; most failures are such.
func (t *traits) alone(err error) (meaning, bool) {
	if t.ways != 0 {
		return meaning{}, false
	}
	for i := range t.means {
		if err == t.values[i].err {
			return t.means[i], true
		}
	}
	return inDoubt(policy.Unclassified), t.facts == 0
}

// ways are the methods by which an error leads to others.
type ways uint8

const (
	speaks    ways = 1 << iota // teller
	answersIs                  // Is(error) bool
	answersAs                  // As(any) bool
	wrapsOne                   // Unwrap() error
	wrapsMany                  // Unwrap() []error
)

// A sentinel is an error that is known by its value.
type sentinel struct {
	err  error
	fact fact
}

func (s sentinel) meaning() meaning {
	f := facts{seen: s.fact}
	if m, ok := f.standard(new(Rules)); ok {
		return m
	}
	return inDoubt(policy.Unclassified)
}

var permission = sentinel{fs.ErrPermission, denied}

var sentinels = []sentinel{
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
	permission,
}

// factsByType are the types that are known exactly.
var factsByType = map[reflect.Type]fact{
	reflect.TypeFor[*url.Error]():    hasURL,
	reflect.TypeFor[*net.OpError]():  hasOp,
	reflect.TypeFor[*net.DNSError](): hasDNS,
	numberType:                       hasNumber,

	// They are made by the client's handshake alone, so nothing was sent.
	reflect.TypeFor[*tls.CertificateVerificationError](): handshake,
	reflect.TypeFor[tls.RecordHeaderError]():             handshake,
	reflect.TypeFor[*tls.ECHRejectionError]():            handshake,

	reflect.TypeFor[x509.UnknownAuthorityError]():      mistrusted,
	reflect.TypeFor[x509.HostnameError]():              mistrusted,
	reflect.TypeFor[x509.CertificateInvalidError]():    mistrusted,
	reflect.TypeFor[x509.SystemRootsError]():           mistrusted,
	reflect.TypeFor[x509.ConstraintViolationError]():   mistrusted,
	reflect.TypeFor[x509.UnhandledCriticalExtension](): mistrusted,
	reflect.TypeFor[x509.InsecureAlgorithmError]():     mistrusted,

	reflect.TypeFor[*net.AddrError]():          badAddress,
	reflect.TypeFor[*net.ParseError]():         badAddress,
	reflect.TypeFor[net.UnknownNetworkError](): badAddress,
	reflect.TypeFor[net.InvalidAddrError]():    badAddress,
	reflect.TypeFor[url.EscapeError]():         badAddress,
	reflect.TypeFor[url.InvalidHostError]():    badAddress,
}

// factsByMethod are the interfaces whose methods have more to tell.
var factsByMethod = map[reflect.Type]fact{
	reflect.TypeFor[net.Error](): hasNet,
	reflect.TypeFor[stater]():    hasState,
	reflect.TypeFor[vower]():     hasSafe,
}

var waysByMethod = map[reflect.Type]ways{
	reflect.TypeFor[teller]():                        speaks,
	reflect.TypeFor[interface{ Is(error) bool }]():   answersIs,
	reflect.TypeFor[asker]():                         answersAs,
	reflect.TypeFor[interface{ Unwrap() error }]():   wrapsOne,
	reflect.TypeFor[interface{ Unwrap() []error }](): wrapsMany,
}

var (
	numberType = reflect.TypeFor[number]()

	// The commonest types of all need no lookup, which is most of what a walk costs.
	plain         = reflect.TypeOf(errors.New(""))
	plainTraits   = learn(plain)
	lateTraits    = learn(reflect.TypeOf(context.DeadlineExceeded))
	urlTraits     = learn(reflect.TypeFor[*url.Error]())
	opTraits      = learn(reflect.TypeFor[*net.OpError]())
	syscallTraits = learn(reflect.TypeFor[*os.SyscallError]())
	numberTraits  = learn(numberType)

	// learned holds the traits of every other type that came by, by reflect.Type.
	// It is bounded by the program's own types.
	learned sync.Map
)

func traitsOf(err error) *traits {
	switch err.(type) {
	case *url.Error:
		return urlTraits
	case *net.OpError:
		return opTraits
	case *os.SyscallError:
		return syscallTraits
	case number:
		return numberTraits
	}
	if err == context.DeadlineExceeded {
		return lateTraits
	}
	typ := reflect.TypeOf(err)
	if typ == plain {
		return plainTraits
	}
	return lookUp(typ)
}

func lookUp(typ reflect.Type) *traits {
	if t, ok := learned.Load(typ); ok {
		return t.(*traits)
	}
	t := learn(typ)
	learned.Store(typ, t)
	return t
}

// learn asks a type by reflection, which is slow, for all that there is to know.
func learn(typ reflect.Type) *traits {
	t := &traits{facts: factsByType[typ]}
	for method, fact := range factsByMethod {
		if typ.Implements(method) {
			t.facts |= fact
		}
	}
	for method, way := range waysByMethod {
		if typ.Implements(method) {
			t.ways |= way
		}
	}
	if isForeign(typ) {
		t.facts |= foreign
	}
	for _, s := range sentinels {
		if reflect.TypeOf(s.err) == typ {
			t.values = append(t.values, s)
			t.means = append(t.means, s.meaning())
		}
	}
	t.asked = sentinels
	if typ == numberType { // its Is method knows this one and no other of ours
		t.asked = []sentinel{permission}
	}
	return t
}
