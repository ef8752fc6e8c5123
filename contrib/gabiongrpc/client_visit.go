package gabiongrpc

import (
	"sync"

	"github.com/gabion-go/gabion/internal/adapter"
	"github.com/gabion-go/gabion/policy"
)

// attemptKey finds the attempt in the context that grpc-go gives to a balancer.
type attemptKey struct{}

// Value implements context.Context.
func (a *attempt) Value(key any) any {
	if _, ok := key.(attemptKey); ok {
		return a
	}
	return a.Context.Value(key)
}

// isFor reports whether the attempt is a call of that method on a connection to that target.
// An interceptor can use an attempt's context for calls of its own.
func (a *attempt) isFor(target, method string) bool {
	return a.of.method == method && a.conn != nil && a.conn.Target() == target
}

// visit is where a balancer has sent an attempt.
type visit struct {
	among   *picker // that chose; nil if none of ours did
	at      *backend
	address adapter.Address // of at; nil if the attempt was let in nowhere
	permit  adapter.Visit
	known   *knowing // of at; nil for a stream
	over    bool     // the attempt has ended, and what grpc-go does with its stream is its own
}

// begin readies it for a choice. Grpc-go chooses again if it sends an attempt again by itself.
func (v *visit) begin(p *picker) bool {
	if v.over {
		return false
	}
	v.leave(policy.ClassIgnored)
	v.among = p
	return true
}

// leave gives the permit back.
func (v *visit) leave(class policy.Class) {
	if v.address != nil {
		v.address.Leave(v.permit, class)
		v.address = nil
	}
}

// enter asks whether the attempt may go to b.
func (a *attempt) enter(b *backend) bool {
	k := b.of(a.of.client.Dependency)
	permit, ok := k.address.Enter()
	if ok {
		a.visit.at, a.visit.address, a.visit.permit = b, k.address, permit
		if a.stream == nil {
			a.visit.known = k
			a.visit.among.fleet.entered(k, a.began)
		}
		a.of.noteAt(b)
	}
	return ok
}

// visited tells the address what the attempt brought, and adds to it whether another would go
// elsewhere. A stream of many requests is open before the server has answered: that says
// nothing.
func (a *attempt) visited(o *policy.Outcome) {
	v := &a.visit
	if v.among == nil || v.over {
		return
	}
	v.over = true
	class := o.Class
	if class == policy.ClassSuccess && a.stream != nil && a.stream.desc.ClientStreams ||
		o.NeverSent && !class.Transient() { // as a request that could not be encoded
		class = policy.ClassIgnored
	}
	v.leave(class)
	if v.known != nil {
		v.left(a, class)
	}
	o.Elsewhere = o.Class.Transient() && a.elsewhere()
}

// crashed gives back what an attempt holds that an interceptor's panic has left.
func (a *attempt) crashed() {
	if !a.back {
		a.visit.leave(policy.ClassIgnored)
	}
}

// elsewhere reports whether there is an address that works, as far as is known, and that no
// attempt of the call was sent to.
func (a *attempt) elsewhere() bool {
	for _, b := range a.visit.among.ready {
		if !a.of.wasAt(b) && !b.of(a.of.client.Dependency).address.Shut() {
			return true
		}
	}
	return false
}

// endsAt tells the address how a stream has ended that was open.
func (a *attempt) endsAt(broke bool) {
	if a.visit.at == nil || !broke && !a.stream.desc.ClientStreams {
		return
	}
	class := policy.ClassSuccess
	if broke {
		class = policy.ClassServer
	}
	address := a.visit.at.of(a.of.client.Dependency).address
	if permit, ok := address.Enter(); ok {
		address.Leave(permit, class)
	}
}

// places are where the attempts of a call were sent. If there are too many, the oldest are
// forgotten.
type places struct {
	mu sync.Mutex // hedges are sent from other goroutines
	at [4]*backend
	n  int
}

// noteAt keeps where an attempt of the call was sent.
func (c *call) noteAt(b *backend) {
	c.places.mu.Lock()
	defer c.places.mu.Unlock()
	c.places.at[c.places.n%len(c.places.at)] = b
	c.places.n++
}

// wasAt reports whether an attempt of the call was sent to b.
func (c *call) wasAt(b *backend) bool {
	c.places.mu.Lock()
	defer c.places.mu.Unlock()
	for _, p := range c.places.at {
		if p == b {
			return true
		}
	}
	return false
}

// SpreadToAll returns how many attempts went to an address that was left out, because each
// of them was: where all fail, none is better than the others.
func (c *Client) SpreadToAll() int64 { return c.spread.Load() }
