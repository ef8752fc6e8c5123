package classify

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/url"
)

// asker is an error with an As method of its own, as errors.As knows it. It is asked for every type
// that no error before it was. That allocates, and is rare.
type asker interface{ As(any) bool }

func (f *facts) fill(x asker) (teller, bool) {
	var told teller
	if as(x, &told) {
		return told, true
	}
	fill(f, x, hasURL, &f.url)
	fill(f, x, hasOp, &f.op)
	fill(f, x, hasDNS, &f.dns)
	fill(f, x, hasNumber, &f.number)
	fill(f, x, hasStream, &f.stream)
	fill(f, x, hasNet, &f.net)
	fill(f, x, hasState, &f.state)
	fill(f, x, hasSafe, &f.safe)
	if !f.has(handshake) && asHandshake(x) {
		f.seen |= handshake
	}
	if !f.has(mistrusted) && asMistrusted(x) {
		f.seen |= mistrusted
	}
	if !f.has(badAddress) && asBadAddress(x) {
		f.seen |= badAddress
	}
	return nil, false
}

func fill[E error](f *facts, x asker, fresh fact, to *E) {
	if !f.has(fresh) && as(x, to) {
		f.seen |= fresh
	}
}

// as lets x fill a variable of its own, so that facts stay on the stack.
func as[E error](x asker, to *E) bool {
	e := new(E)
	if !x.As(e) {
		return false
	}
	*to = *e
	return true
}

func asHandshake(x asker) bool {
	return x.As(new(*tls.CertificateVerificationError)) || x.As(new(tls.RecordHeaderError)) || x.As(new(*tls.ECHRejectionError))
}

func asMistrusted(x asker) bool {
	return x.As(new(x509.UnknownAuthorityError)) || x.As(new(x509.HostnameError)) || x.As(new(x509.CertificateInvalidError)) ||
		x.As(new(x509.SystemRootsError)) || x.As(new(x509.ConstraintViolationError)) ||
		x.As(new(x509.UnhandledCriticalExtension)) || x.As(new(x509.InsecureAlgorithmError))
}

func asBadAddress(x asker) bool {
	return x.As(new(*net.AddrError)) || x.As(new(*net.ParseError)) || x.As(new(net.UnknownNetworkError)) ||
		x.As(new(net.InvalidAddrError)) || x.As(new(url.EscapeError)) || x.As(new(url.InvalidHostError))
}
