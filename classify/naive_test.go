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
	"slices"

	"github.com/gabion-go/gabion/policy"
)

// naive is Rules as it reads best: each question is asked of the whole tree by
// errors.Is and errors.As, one after the other, until one has an answer. Rules
// must say the same.
type naive Rules

func (m meaning) outcome() policy.Outcome {
	return policy.Outcome{Class: m.class, Effect: m.effect, NeverSent: m.neverSent, Undone: m.undone, Busy: m.busy}
}

func maybe(c policy.Class) policy.Outcome   { return inDoubt(c).outcome() }
func unsent(c policy.Class) policy.Outcome  { return neverLeft(c).outcome() }
func undone(c policy.Class) policy.Outcome  { return takenBack(c).outcome() }
func refusal(c policy.Class) policy.Outcome { return refusedBy(c).outcome() }

// naive changes the meaning of the marked error as the mark's documentation says.
func (m *mark) naive(r naive) policy.Outcome {
	o := r.Error(m.err)
	switch {
	case m.says == isTransient && !o.Class.Transient():
		o.Class, o.Once = policy.ClassServer, false
	case m.says == isTransient:
		o.Once = false
	case m.says == isPermanent && o.Class != policy.ClassBusiness:
		o.Class = policy.ClassClient
	case m.says == isBusiness:
		o.Class, o.Effect = policy.ClassBusiness, policy.NoEffect
	case m.says == isThrottled:
		o.Class, o.Effect, o.HasAfter, o.After = policy.ClassThrottled, policy.NoEffect, m.after > 0, max(m.after, 0)
		o.Undone = true
	case m.says == isContention:
		o.Class, o.Effect, o.Undone, o.Once = policy.ClassContention, policy.NoEffect, true, false
	case m.says == isNotSent && o.Class == policy.ClassUnclassified:
		o.Class, o.NeverSent, o.Effect = policy.ClassNetwork, true, policy.NoEffect
	case m.says == isNotSent:
		o.NeverSent, o.Effect = true, policy.NoEffect
	case m.says == isFinal:
		o.Stop = true
	}
	return o
}

// Error decides what the error of an attempt means. A nil error is a success. A tree
// is asked way by way, and what the ways say is put together by what the package's
// documentation says of branches.
func (r naive) Error(err error) policy.Outcome {
	if err == nil {
		return policy.Succeeded()
	}
	var all []policy.Outcome
	for _, way := range waysDown(err) {
		all = append(all, r.way(way))
	}
	return naiveTogether(all)
}

// way decides of a tree that is only one way down. What tellers above the one that
// decides say beside a class that they leave open is added to that.
func (r naive) way(err error) policy.Outcome {
	var beside []policy.Outcome
	decided := func() policy.Outcome {
		for at := err; at != nil; at = errors.Unwrap(at) {
			t, ok := errors.AsType[teller](&step{at: at.(*step).at})
			if m, marked := t.(*mark); marked {
				return m.naive(r)
			}
			if !ok {
				continue
			}
			if said := t.Outcome(); said.Class != policy.ClassUndecided {
				return said
			} else {
				beside = append(beside, said)
			}
		}
		return r.listed(err)
	}
	o := decided()
	for _, said := range slices.Backward(beside) { // the outermost has the last word
		o = naiveAlso(o, said)
	}
	return o
}

// naiveAlso is o with what was said beside a class.
func naiveAlso(o, said policy.Outcome) policy.Outcome {
	if said.NeverSent || said.Undone {
		o.NeverSent, o.Undone, o.Effect = o.NeverSent || said.NeverSent, o.Undone || said.Undone, policy.NoEffect
	}
	if said.Effect == policy.UnknownEffect {
		o.NeverSent, o.Undone, o.Effect = false, false, policy.UnknownEffect
	}
	o.Once, o.Stop, o.Fixed = o.Once || said.Once, o.Stop || said.Stop, o.Fixed || said.Fixed
	if said.HasAfter {
		o.HasAfter, o.After, o.Alone, o.Exact = true, said.After, said.Alone, said.Exact
	}
	return o
}

// A step is an error on a way down, and the way from there. It stands for its error
// before errors.Is and errors.As.
type step struct {
	at   error
	rest error
}

func (s *step) Error() string { return s.at.Error() }
func (s *step) Unwrap() error { return s.rest }

func (s *step) Is(target error) bool {
	x, ok := s.at.(interface{ Is(error) bool })
	return reflect.TypeOf(target).Comparable() && s.at == target || ok && x.Is(target)
}

func (s *step) As(target any) bool {
	to := reflect.ValueOf(target).Elem()
	if at := reflect.ValueOf(s.at); at.Type().AssignableTo(to.Type()) {
		to.Set(at)
		return true
	}
	x, ok := s.at.(interface{ As(any) bool })
	return ok && x.As(target)
}

// waysDown are the ways from err to the errors that wrap nothing, or that tell by
// themselves what they mean.
func waysDown(err error) (all []error) {
	t, tells := errors.AsType[teller](&step{at: err})
	if _, marked := t.(*mark); tells && !marked {
		tells = t.Outcome().Class != policy.ClassUndecided
	}
	var below []error
	switch x := err.(type) {
	case interface{ Unwrap() error }:
		below = []error{x.Unwrap()}
	case interface{ Unwrap() []error }:
		below = x.Unwrap()
	}
	for _, e := range below {
		if e == nil || tells {
			continue
		}
		for _, way := range waysDown(e) {
			all = append(all, &step{err, way})
		}
	}
	if len(all) == 0 {
		all = []error{&step{at: err}}
	}
	return all
}

// leastRetried are the classes in the order in which they win.
var leastRetried = []policy.Class{
	policy.ClassIgnored, policy.ClassCrashed, policy.ClassRejected, policy.ClassClient, policy.ClassBusiness,
	policy.ClassTimeout, policy.ClassServer, policy.ClassNetwork, policy.ClassThrottled, policy.ClassContention,
	policy.ClassUnclassified, policy.ClassSuccess,
}

func naiveTogether(all []policy.Outcome) (o policy.Outcome) {
	if len(all) == 1 {
		return all[0]
	}
	every := func(is func(policy.Outcome) bool) bool {
		return !slices.ContainsFunc(all, func(o policy.Outcome) bool { return !is(o) })
	}
	some := func(is func(policy.Outcome) bool) bool { return slices.ContainsFunc(all, is) }
	for _, c := range slices.Backward(leastRetried) {
		if some(func(o policy.Outcome) bool { return o.Class == c }) {
			o.Class = c
		}
	}
	if some(func(o policy.Outcome) bool { return o.Effect == policy.UnknownEffect }) {
		o.Effect = policy.UnknownEffect
	}
	o.NeverSent = every(func(o policy.Outcome) bool { return o.NeverSent })
	o.Undone = !o.NeverSent && every(func(o policy.Outcome) bool { return o.NeverSent || o.Undone })
	o.Once = some(func(o policy.Outcome) bool { return o.Once })
	o.Stop = some(func(o policy.Outcome) bool { return o.Stop })
	o.Fixed = some(func(o policy.Outcome) bool { return o.Fixed })
	o.Busy = some(func(o policy.Outcome) bool { return o.Busy })
	o.Open = some(func(o policy.Outcome) bool { return o.Open })
	o.Alone = every(func(o policy.Outcome) bool { return o.Alone })
	o.Exact = every(func(o policy.Outcome) bool { return o.Exact })
	o.HasAfter = some(func(o policy.Outcome) bool { return o.HasAfter })
	for _, b := range all {
		if b.HasAfter {
			o.After = max(o.After, b.After)
		}
	}
	return o
}

// listed lets the lists of r change the class: an error that was never sent stays so.
func (r naive) listed(err error) policy.Outcome {
	o := r.known(err)
	if naiveIsAny(err, r.NotSent) {
		o.NeverSent, o.Effect = true, policy.NoEffect
		if o.Class == policy.ClassUnclassified {
			o.Class = policy.ClassNetwork
		}
	}
	switch {
	case naiveIsAny(err, r.Ignored):
		o.Class = policy.ClassIgnored
	case naiveIsAny(err, r.Permanent):
		o.Class = permanent(o.Class)
	case naiveIsAny(err, r.Business):
		o.Class, o.Effect = policy.ClassBusiness, policy.NoEffect
	case naiveIsAny(err, r.Transient):
		o.Class, o.Once = transient(o.Class), false
	}
	return o
}

func naiveIsAny(err error, list []error) bool {
	return slices.ContainsFunc(list, func(target error) bool { return errors.Is(err, target) })
}

// known asks everybody who knows a kind of error, and then whether the work was
// ever sent, which is a question of its own.
func (r naive) known(err error) policy.Outcome {
	o := r.ask(err)
	if !o.NeverSent && naiveNeverSent(err) {
		o.NeverSent, o.Undone, o.Effect = true, false, policy.NoEffect
	}
	return o
}

// ask goes from the surest knowledge to the vaguest: a context's end explains
// the network errors that it causes, a certificate explains a broken handshake.
func (r naive) ask(err error) policy.Outcome {
	if o, ok := naiveEnded(err); ok {
		return o
	}
	if o, ok := naiveDatabase(err); ok {
		return o
	}
	if o, ok := naiveCertificate(err); ok {
		return o
	}
	if o, ok := naiveMalformed(err); ok {
		return o
	}
	if o, ok := naiveStream(err); ok {
		return o
	}
	if o, ok := r.network(err); ok {
		return o
	}
	if o, ok := r.driver(err); ok {
		return o
	}
	return policy.Failed(policy.ClassUnclassified)
}

// database knows database/sql's own errors and SQLSTATE.
func naiveDatabase(err error) (policy.Outcome, bool) {
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return refusal(policy.ClassBusiness), true
	case errors.Is(err, sql.ErrTxDone): // committed or rolled back, we can't tell which
		return maybe(policy.ClassClient), true
	}
	s, ok := errors.AsType[interface {
		error
		SQLState() string // pgx and lib/pq
	}](err)
	if !ok {
		return policy.Outcome{}, false
	}
	m, ok := sqlstate(s.SQLState())
	return m.outcome(), ok
}

// ended knows errors that say whose patience ended. An attempt that ran into its
// deadline may have been carried out all the same.
func naiveEnded(err error) (policy.Outcome, bool) {
	switch {
	case errors.Is(err, context.Canceled):
		return maybe(policy.ClassIgnored), true
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return maybe(policy.ClassTimeout), true
	}
	return policy.Outcome{}, false
}

// certificate knows what stays wrong until a configuration changes.
// tls.CertificateVerificationError is made by the client's handshake alone, so
// nothing was sent; the errors of x509 could come from anywhere.
func naiveCertificate(err error) (policy.Outcome, bool) {
	switch {
	case naiveIs[*tls.CertificateVerificationError](err), naiveIs[tls.RecordHeaderError](err), naiveIs[*tls.ECHRejectionError](err):
		return unsent(policy.ClassClient), true
	case naiveIs[x509.UnknownAuthorityError](err), naiveIs[x509.HostnameError](err), naiveIs[x509.CertificateInvalidError](err),
		naiveIs[x509.SystemRootsError](err), naiveIs[x509.ConstraintViolationError](err),
		naiveIs[x509.UnhandledCriticalExtension](err), naiveIs[x509.InsecureAlgorithmError](err):
		return maybe(policy.ClassClient), true
	}
	return policy.Outcome{}, false
}

// malformed knows addresses that can't be called.
func naiveMalformed(err error) (policy.Outcome, bool) {
	if u, ok := errors.AsType[*url.Error](err); ok && u.Op == "parse" {
		return unsent(policy.ClassClient), true
	}
	if naiveIs[*net.AddrError](err) || naiveIs[*net.ParseError](err) || naiveIs[net.UnknownNetworkError](err) ||
		naiveIs[net.InvalidAddrError](err) || naiveIs[url.EscapeError](err) || naiveIs[url.InvalidHostError](err) {
		return unsent(policy.ClassClient), true
	}
	return policy.Outcome{}, false
}

// network knows the errors of names, dialling and connections.
func (r naive) network(err error) (policy.Outcome, bool) {
	if dns, ok := errors.AsType[*net.DNSError](err); ok {
		return unsent(r.lookup(dns)), true
	}
	if c, ok := r.errno(err); ok {
		return maybe(c), true
	}
	if o, ok := naiveAlert(err); ok {
		return o, true
	}
	if t, ok := errors.AsType[net.Error](err); ok && t.Timeout() {
		return maybe(policy.ClassTimeout), true
	}
	switch {
	case naiveDialed(err) && errors.Is(err, fs.ErrPermission): // a local firewall or socket mode
		return unsent(policy.ClassClient), true
	case naiveDialed(err): // the rest: out of ports, out of files, a socket that is not there yet
		return unsent(policy.ClassNetwork), true
	case errors.Is(err, net.ErrClosed), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, sql.ErrConnDone), errors.Is(err, driver.ErrBadConn):
		return maybe(policy.ClassNetwork), true
	}
	return policy.Outcome{}, false
}

// neverSent reports whether the work provably never left: it failed while
// dialling, or its driver says so.
func naiveNeverSent(err error) bool {
	if naiveDialed(err) || naiveIs[*net.DNSError](err) {
		return true
	}
	s, ok := errors.AsType[interface {
		error
		SafeToRetry() bool // pgx's promise that nothing was sent to the server
	}](err)
	return ok && s.SafeToRetry() && !closedBefore(s)
}

// dialed reports whether err came from making a connection, to the dependency or
// to a proxy before it.
func naiveDialed(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && (op.Op == "dial" || op.Op == "proxyconnect" || op.Op == "socks connect")
}

// alert knows TLS alerts. Their type is unexported, yet it is a number, and the
// error around it says that it is one.
func naiveAlert(err error) (policy.Outcome, bool) {
	op, ok := errors.AsType[*net.OpError](err)
	if !ok || op.Op != "remote error" && op.Op != "local error" {
		return policy.Outcome{}, false
	}
	v := reflect.ValueOf(op.Err)
	if v.Kind() != reflect.Uint8 {
		return policy.Outcome{}, false
	}
	if passing[v.Uint()] {
		return maybe(policy.ClassNetwork), true
	}
	return maybe(policy.ClassClient), true
}

func naiveIs[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

// stream knows HTTP/2 streams that were reset.
func naiveStream(err error) (policy.Outcome, bool) {
	s, ok := errors.AsType[streamError](err)
	if !ok {
		return policy.Outcome{}, false
	}
	m, ok := resets[s.Code]
	return m.outcome(), ok
}

// driver knows errors of drivers that we don't import, by the path and name of
// their types. It comes last, since reflection is slow.
func (r naive) driver(err error) (policy.Outcome, bool) {
	for err != nil {
		s := err.(*step)
		if o, ok := r.concrete(s.at); ok {
			return o, true
		}
		err = s.rest
	}
	return policy.Outcome{}, false
}

// concrete looks at one error, without looking into it.
func (r naive) concrete(err error) (policy.Outcome, bool) {
	v := reflect.ValueOf(err)
	if v.Kind() == reflect.Pointer && v.IsNil() {
		return policy.Outcome{}, false
	}
	if read, ok := drivers[nameOf(v.Type())]; ok {
		m, ok := read(v)
		return m.outcome(), ok
	}
	if x, ok := err.(interface {
		error
		RedisError()
	}); ok {
		m, ok := redis(x.Error())
		return m.outcome(), ok
	}
	if code, ok := grpcCode(v); ok {
		return r.grpc(code)
	}
	return policy.Outcome{}, false
}

func (r naive) errno(err error) (policy.Class, bool) {
	n, ok := errors.AsType[number](err)
	if !ok {
		return 0, false
	}
	c, ok := errnos[n]
	return c, ok
}

func (r naive) lookup(dns *net.DNSError) policy.Class { return (*Rules)(&r).lookup(dns) }

func (r naive) grpc(code uint64) (policy.Outcome, bool) {
	m, ok := (*Rules)(&r).grpc(code)
	return m.outcome(), ok
}
