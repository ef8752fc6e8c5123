package gabion

import (
	"context"
	"time"

	"github.com/gabion-go/gabion/internal/idemkey"
	"github.com/gabion-go/gabion/internal/machine"
	"github.com/gabion-go/gabion/policy"
)

// NewKey makes an idempotency key: a UUID of version 7 (RFC 9562), whose first 48
// bits are the time in milliseconds, so that a store's index stays clustered, and
// whose other 74 are random. Make one per intent, above every retry, and store it
// with the intent if that is to survive a restart.
func NewKey() string { return idemkey.New(time.Now()) }

// DeriveKey returns the idempotency key of one step of an operation, such as the
// capture that follows an authorisation: the same whenever it is derived again,
// another for each step, parent and tenant. It is 64 hex digits, and an HMAC-SHA-256,
// so that tenant and parent can't be read from it. Within a run of package
// idempotency's Handler, that package's StepKey returns the same for the scope and
// key of the request.
//
// Parent is the key or the lasting name of the operation, such as an order number; it
// need not have the form of a key. Nothing that changes from one attempt to the next
// belongs in parent or step: no time, no token, no attempt number. Tenant may be empty
// where there is one alone. From an empty parent nothing is derived: the result is "",
// which [WithKey] refuses.
func DeriveKey(tenant, parent, step string) string {
	if parent == "" {
		return ""
	}
	if bare, ok := idemkey.Parse(parent); ok {
		parent = bare // one key, quoted or not
	}
	return idemkey.Derive(idemkey.ID(tenant, parent), step)
}

// settleKey gives the call the key that the policy asks for, and refuses one that
// can't be meant. Calls declared idempotent need none.
func (c *callOptions) settleKey(d *Dependency) error {
	use := machine.UseKey(d.state.Rules().Policy.Key, c.Safe, c.key != "")
	if use == machine.KeyNone {
		return nil
	}
	return c.haveKey(d, use)
}

func (c *callOptions) haveKey(d *Dependency, use machine.KeyUse) error {
	switch use {
	case machine.KeyLacking:
		return &Error{Dependency: d.name, Reason: policy.KeyMissing, Err: errNoKey}
	case machine.KeyFresh:
		c.key = NewKey()
	}
	return c.checkKey(d)
}

func (c *callOptions) checkKey(d *Dependency) error {
	if _, ok := idemkey.Parse(c.key); !ok {
		return &Error{Dependency: d.name, Reason: policy.Invalid, Err: KeyMalformed}
	}
	p := &d.state.Rules().Policy
	if c.retention <= 0 || c.Safe || p.Safe {
		return nil
	}
	made, ok := c.keyTime()
	if !ok {
		return nil
	}
	left := time.Until(made.Add(useful(c.retention)))
	if left <= 0 {
		// An earlier run may have sent it, and the dependency may have forgotten.
		return &Error{Dependency: d.name, Reason: policy.OutcomeUnknown, Effect: policy.UnknownEffect, Err: KeyExpired}
	}
	call := c.Timeout
	if call <= 0 {
		call = p.Timeout.Call
	}
	if call <= 0 || left < call {
		c.Timeout = left // no retry comes later either
	}
	return nil
}

// useful is how much of a retention a client relies on: nine tenths, since clocks
// differ, and a request takes time to arrive.
func useful(retention time.Duration) time.Duration { return retention - retention/10 }

// keyTime is when the key was made, as far as that is known.
func (c *callOptions) keyTime() (time.Time, bool) {
	if c.madeAt != 0 {
		return time.UnixMilli(c.madeAt), true
	}
	key, _ := idemkey.Parse(c.key)
	return idemkey.MadeAt(key)
}

// forFallback is ctx for what answers in place of a call with this key. It does a
// different thing at a different place, so it has a key of its own: derived, for a
// run that comes back must find the same one.
func forFallback(ctx context.Context, key string) context.Context {
	if key == "" {
		return ctx
	}
	return context.WithValue(ctx, callKey{}, &keyedContext{key: DeriveKey("", key, "gabion fallback")})
}
