package classify

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/url"
	"os"
	"reflect"

	"github.com/gabion-go/gabion/policy"
)

// ended knows errors that say whose patience ended. An attempt that ran into its
// deadline may have been carried out all the same.
func ended(err error) (policy.Outcome, bool) {
	switch {
	case errors.Is(err, context.Canceled):
		return maybe(policy.Ignored), true
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return maybe(policy.TimedOut), true
	}
	return policy.Outcome{}, false
}

// certificate knows what stays wrong until somebody changes a configuration.
// tls.CertificateVerificationError is made by the client's handshake alone, so
// nothing was sent; the errors of x509 could come from anywhere.
func certificate(err error) (policy.Outcome, bool) {
	switch {
	case is[*tls.CertificateVerificationError](err), is[tls.RecordHeaderError](err), is[*tls.ECHRejectionError](err):
		return unsent(policy.ClientError), true
	case is[x509.UnknownAuthorityError](err), is[x509.HostnameError](err), is[x509.CertificateInvalidError](err),
		is[x509.SystemRootsError](err), is[x509.ConstraintViolationError](err),
		is[x509.UnhandledCriticalExtension](err), is[x509.InsecureAlgorithmError](err):
		return maybe(policy.ClientError), true
	}
	return policy.Outcome{}, false
}

// malformed knows addresses that can't be called.
func malformed(err error) (policy.Outcome, bool) {
	if u, ok := errors.AsType[*url.Error](err); ok && u.Op == "parse" {
		return unsent(policy.ClientError), true
	}
	if is[*net.AddrError](err) || is[*net.ParseError](err) || is[net.UnknownNetworkError](err) ||
		is[net.InvalidAddrError](err) || is[url.EscapeError](err) || is[url.InvalidHostError](err) {
		return unsent(policy.ClientError), true
	}
	return policy.Outcome{}, false
}

// network knows the errors of names, dialling and connections.
func (r Rules) network(err error) (policy.Outcome, bool) {
	if dns, ok := errors.AsType[*net.DNSError](err); ok {
		return unsent(r.lookup(dns)), true
	}
	if c, ok := errno(err); ok {
		return maybe(c), true
	}
	if o, ok := alert(err); ok {
		return o, true
	}
	if t, ok := errors.AsType[net.Error](err); ok && t.Timeout() {
		return maybe(policy.TimedOut), true
	}
	switch {
	case dialed(err) && errors.Is(err, fs.ErrPermission): // a local firewall or socket mode
		return unsent(policy.ClientError), true
	case dialed(err): // the rest: out of ports, out of files, a socket that is not there yet
		return unsent(policy.Network), true
	case errors.Is(err, net.ErrClosed), errors.Is(err, io.ErrUnexpectedEOF), brokenOff(err):
		return maybe(policy.Network), true
	}
	return policy.Outcome{}, false
}

// lookup says what a failed name lookup is. "No such host" comes first, since it
// is an answer and the others are the lack of one.
func (r Rules) lookup(dns *net.DNSError) policy.Class {
	switch {
	case dns.IsNotFound && r.HostNotFound:
		return policy.Network
	case dns.IsNotFound:
		return policy.ClientError
	case dns.IsTimeout:
		return policy.TimedOut
	case dns.IsTemporary:
		return policy.Network
	}
	return policy.Unclassified
}

// brokenOff reports whether err is an io.EOF that a connection came to. A bare
// io.EOF is how readers end well, and says nothing.
func brokenOff(err error) bool {
	return errors.Is(err, io.EOF) && (is[*url.Error](err) || is[*net.OpError](err))
}

// neverSent reports whether the work provably never left: it failed while
// dialling, or its driver says so.
func neverSent(err error) bool {
	if dialed(err) || is[*net.DNSError](err) {
		return true
	}
	s, ok := errors.AsType[interface {
		error
		SafeToRetry() bool // pgx's promise that nothing was sent to the server
	}](err)
	return ok && s.SafeToRetry()
}

// dialed reports whether err came from making a connection, to the dependency or
// to a proxy before it.
func dialed(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && (op.Op == "dial" || op.Op == "proxyconnect" || op.Op == "socks connect")
}

// passing are the TLS alerts that need not come again (RFC 8446, section 6). All
// others complain of a version, a cipher or a certificate.
var passing = [256]bool{
	0:  true, // close_notify
	20: true, // bad_record_mac: the bytes were damaged on the way
	80: true, // internal_error
	90: true, // user_canceled
}

// alert knows TLS alerts. Their type is unexported, yet it is a number, and the
// error around it says that it is one.
func alert(err error) (policy.Outcome, bool) {
	op, ok := errors.AsType[*net.OpError](err)
	if !ok || op.Op != "remote error" && op.Op != "local error" {
		return policy.Outcome{}, false
	}
	v := reflect.ValueOf(op.Err)
	if v.Kind() != reflect.Uint8 {
		return policy.Outcome{}, false
	}
	if passing[v.Uint()] {
		return maybe(policy.Network), true
	}
	return maybe(policy.ClientError), true
}

func is[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}
