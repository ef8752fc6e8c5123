package classify

import (
	"net"
	"reflect"

	"github.com/gabion-go/gabion/policy"
)

// patience knows errors that say whose patience ended. An attempt that ran into
// its deadline may have been carried out all the same.
func (f *facts) patience() (meaning, bool) {
	switch {
	case f.has(canceled):
		return inDoubt(policy.ClassIgnored), true
	case f.has(expired):
		return inDoubt(policy.ClassTimeout), true
	}
	return meaning{}, false
}

// certificate knows what stays wrong until a configuration changes. The errors of a handshake mean that
// nothing was sent; those of x509 could come from anywhere.
func (f *facts) certificate() (meaning, bool) {
	switch {
	case f.has(handshake):
		return neverLeft(policy.ClassClient), true
	case f.has(mistrusted):
		return inDoubt(policy.ClassClient), true
	}
	return meaning{}, false
}

// malformed knows addresses that can't be called.
func (f *facts) malformed() (meaning, bool) {
	if f.has(badAddress) || f.has(hasURL) && f.url.Op == "parse" {
		return neverLeft(policy.ClassClient), true
	}
	return meaning{}, false
}

// network knows the errors of names, dialling and connections.
func (f *facts) network(r *Rules) (meaning, bool) {
	if f.has(hasDNS) {
		return neverLeft(r.lookup(f.dns)), true
	}
	if f.has(hasNumber) {
		if c, ok := errnos[f.number]; ok {
			return inDoubt(c), true
		}
	}
	if o, ok := f.alert(); ok {
		return o, true
	}
	if f.has(hasNet) && f.net.Timeout() {
		return inDoubt(policy.ClassTimeout), true
	}
	switch {
	case f.dialed() && f.has(denied): // a local firewall or socket mode
		return neverLeft(policy.ClassClient), true
	case f.dialed(): // the rest: out of ports, out of files, a socket that is not there yet
		return neverLeft(policy.ClassNetwork), true
	case f.has(cutOff):
		return inDoubt(policy.ClassNetwork), true
	}
	return meaning{}, false
}

// lookup says what a failed name lookup is. "No such host" comes first, since it
// is an answer and the others are the lack of one.
func (r *Rules) lookup(dns *net.DNSError) policy.Class {
	switch {
	case dns.IsNotFound && r.HostNotFound:
		return policy.ClassNetwork
	case dns.IsNotFound:
		return policy.ClassClient
	case dns.IsTimeout:
		return policy.ClassTimeout
	case dns.IsTemporary:
		return policy.ClassNetwork
	}
	return vague
}

// neverSent reports whether the work provably never left: it failed while
// dialling, or its driver says so. It is not believed of a connection that was closed
// already: pgx says so too when the answer to this very statement was lost and the
// statement went by its simple protocol, as COMMIT does. Its database/sql driver makes
// driver.ErrBadConn of that, which is no proof for the same reason.
func (f *facts) neverSent() bool {
	return f.dialed() || f.has(hasDNS) || f.has(hasSafe) && f.safe.SafeToRetry() && !closedBefore(f.safe)
}

// dialed reports whether the error came from making a connection, to the dependency or
// to a proxy before it.
func (f *facts) dialed() bool {
	return f.has(hasOp) && (f.op.Op == "dial" || f.op.Op == "proxyconnect" || f.op.Op == "socks connect")
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
func (f *facts) alert() (meaning, bool) {
	if !f.has(hasOp) || f.op.Op != "remote error" && f.op.Op != "local error" {
		return meaning{}, false
	}
	v := reflect.ValueOf(f.op.Err)
	if v.Kind() != reflect.Uint8 {
		return meaning{}, false
	}
	if passing[v.Uint()] {
		return inDoubt(policy.ClassNetwork), true
	}
	return inDoubt(policy.ClassClient), true
}
