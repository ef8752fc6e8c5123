package classify

import (
	"net"
	"net/url"

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
	foreign                     // of a driver that we don't import, perhaps

	// These have more to tell, in the field of facts beside them.
	hasURL
	hasOp
	hasDNS
	hasNumber
	hasStream
	hasNet
	hasState
	hasSafe

	telling = hasURL | hasOp | hasDNS | hasNumber | hasNet | hasState | hasSafe
)

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
	spoke  bool    // driver is known
	driver meaning // of the outermost foreign error that means something
	left   int     // how many errors may still be looked at
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
// said. The word of a teller counts alone for all that is below it.
func (f *facts) judge(r *Rules, err error, o *policy.Outcome) {
	for err != nil && f.left > 0 {
		f.left--
		t := traitsOf(err)
		if t.ways&speaks != 0 {
			f.told(r, err.(teller), o)
			return
		}
		f.note(err, t)
		f.in |= r.listing(err)
		if t.facts&foreign != 0 && !f.spoke {
			f.driver, f.spoke = r.concrete(err)
		}
		if t.ways&answersAs != 0 {
			if told, ok := f.fill(err.(asker)); ok {
				f.told(r, told, o)
				return
			}
		}
		switch {
		case t.ways&wrapsOne != 0:
			err = err.(interface{ Unwrap() error }).Unwrap()
		case t.ways&wrapsMany != 0:
			if f.judgeAll(r, err.(interface{ Unwrap() []error }).Unwrap(), o) {
				return
			}
			err = nil
		default:
			err = nil
		}
	}
	r.listed(f.in, r.known(f), o)
}

func (f *facts) told(r *Rules, t teller, o *policy.Outcome) {
	if m, ok := t.(*mark); ok {
		m.outcome(r, f.left, o)
		return
	}
	*o = t.Outcome()
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

// note takes down what one error says by its type, its value and its Is method.
func (f *facts) note(err error, t *traits) {
	fresh := t.facts &^ f.seen
	f.seen |= t.facts
	for i := range t.values {
		if err == t.values[i].err {
			f.seen |= t.values[i].fact
			break
		}
	}
	if fresh&telling != 0 {
		f.keep(err, fresh)
	}
	if t.ways&answersIs != 0 {
		x := err.(interface{ Is(error) bool })
		for _, s := range t.asked {
			if !f.has(s.fact) && x.Is(s.err) {
				f.seen |= s.fact
			}
		}
	}
}

// keep keeps err where it is the first of its kind.
func (f *facts) keep(err error, fresh fact) {
	if fresh&hasURL != 0 {
		f.url = err.(*url.Error)
	}
	if fresh&hasOp != 0 {
		f.op = err.(*net.OpError)
	}
	if fresh&hasDNS != 0 {
		f.dns = err.(*net.DNSError)
	}
	if fresh&hasNumber != 0 {
		f.number = err.(number)
	}
	if fresh&hasNet != 0 {
		f.net = err.(net.Error)
	}
	if fresh&hasState != 0 {
		f.state = err.(stater)
	}
	if fresh&hasSafe != 0 {
		f.safe = err.(vower)
	}
}
