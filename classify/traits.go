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
)

// traits are what can be said of all errors of a type.
type traits struct {
	facts  fact
	ways   ways
	values []sentinel // those of this type
	asked  []sentinel // those that the type's Is method might know
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

var permission = sentinel{fs.ErrPermission, denied}

var sentinels = []sentinel{
	{context.Canceled, canceled},
	{context.DeadlineExceeded, expired},
	{os.ErrDeadlineExceeded, expired},
	{sql.ErrNoRows, noRows},
	{sql.ErrTxDone, txDone},
	{driver.ErrBadConn, unused},
	{sql.ErrConnDone, unused},
	{net.ErrClosed, cutOff},
	{io.ErrUnexpectedEOF, cutOff},
	{io.EOF, ended},
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

	// plain is the type of what errors.New returns, the commonest leaf of all: it
	// needs no lookup.
	plain       = reflect.TypeOf(errors.New(""))
	plainTraits = learn(plain)

	// learned holds the traits of every other type that came by, by reflect.Type.
	// It is bounded by the program's own types.
	learned sync.Map
)

func traitsOf(err error) *traits {
	typ := reflect.TypeOf(err)
	if typ == plain {
		return plainTraits
	}
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
		}
	}
	t.asked = sentinels
	if typ == numberType { // its Is method knows this one and no other of ours
		t.asked = []sentinel{permission}
	}
	return t
}
