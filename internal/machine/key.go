package machine

import "github.com/gabion-go/gabion/policy"

// KeyUse says what becomes of a call's idempotency key before anything is sent.
type KeyUse uint8

// What can become of it.
const (
	KeyNone    KeyUse = iota // the call has no key and needs none
	KeySent                  // the caller's key goes along with every attempt
	KeyFresh                 // the caller gave none: one is made, the same for every attempt
	KeyLacking               // the caller gave none and must: the call ends with KeyMissing, and nothing is sent
)

// UseKey decides about the key of one call. Idempotent says that the work may be repeated
// without a key, because the caller declares it or because of its method. Keyed says that
// the caller gave a key. What only the policy declares safe still needs a key where the
// mode asks for one.
func UseKey(m policy.KeyMode, idempotent, keyed bool) KeyUse {
	switch {
	case keyed:
		return KeySent
	case m == policy.KeyDeclared || idempotent:
		return KeyNone
	case m == policy.KeyMade:
		return KeyFresh
	}
	return KeyLacking
}

// Carried reports whether the attempts carry a key, which makes them safe to repeat.
func (u KeyUse) Carried() bool { return u == KeySent || u == KeyFresh }

// Keyed reports whether the key is all that makes the call safe to repeat.
func (c *Call) Keyed() bool { return c.keyed }

// Unkeyed says that an attempt did not use the key of its call, and may have had an effect.
// Where the key was all that made the call safe to repeat, it is not any more.
func (c *Call) Unkeyed() {
	if c.keyed {
		c.safe, c.hedge.on = false, false
	}
}

// DropHedges says that no hedge may be sent any more.
func (c *Call) DropHedges() { c.hedge.on = false }

// IdempotentMethod reports whether requests of an HTTP method may be repeated by what
// the method means (RFC 9110, 9.2.2). Names are in capitals; an empty one is none.
func IdempotentMethod(method string) bool {
	switch method {
	case "GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE":
		return true
	}
	return false
}

// HedgeableMethod reports whether two requests of an HTTP method may be under way at
// once: because of what the method means, or because the policy declares all work safe. A
// key alone is not enough: few servers let the second of two requests wait for the first.
func HedgeableMethod(method string, safe bool) bool { return safe || IdempotentMethod(method) }
