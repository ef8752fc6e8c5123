package gabionhttp

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptrace"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/internal/grpccode"
	"github.com/gabion-go/gabion/internal/outcome"
	"github.com/gabion-go/gabion/policy"
)

// httpAttempt is one attempt: what came of it, and what net/http was seen to do. It is the context of its request.
type httpAttempt struct {
	context.Context // the attempt's, as gabion made it

	of     *exchange
	out    http.Request // what is sent: a copy of the caller's
	resp   *http.Response
	said   *KeyError   // what the answer says of the key; nil if nothing
	unread bool        // the answer broke off before that was known
	rpc    *rpcEnd     // nil for plain HTTP
	google *googleSaid // nil if the answer says nothing of quotas in its body
	seen   sights
	sole   body // the call's, in its first attempt

	theirs   *httptrace.ClientTrace // the caller's
	harmless bool                   // a second one does no harm
}

func (c *exchange) nextAttempt() *httpAttempt {
	f := &c.first
	if c.begun.Swap(true) {
		f = new(httpAttempt)
	}
	f.of = c
	return f
}

// answered says what an attempt's answer means.
func (f *httpAttempt) answered(now func() time.Time) policy.Outcome {
	if f.rpc != nil && f.rpc.judged && f.rpc.code != grpccode.OK {
		return f.rpcFailure()
	}
	var said gabion.KeyProblem
	if f.said != nil {
		said = f.said.Problem
	}
	o := outcomeOf(f.resp, said, f.of.rules, now)
	if !f.of.ours && unbegun(f.resp) { // a third party's gateway may have done work and be relaying another server's refusal
		o.Effect, o.Undone = policy.UnknownEffect, false
	}
	if g := f.google; g != nil && g.after > 0 && !o.HasAfter && o.Class.Transient() {
		o.After, o.HasAfter = g.after, true
	}
	if o.Empty && f.of.meter.quotas != nil { // those that the policy has count words by themselves
		o.After, o.HasAfter = emptied(f.resp.Header, now, f.of.meter.quotas...)
		o.Empty = o.HasAfter
	}
	o.Code = outcome.StatusText(f.resp.StatusCode)
	if f.unread {
		o.Effect = policy.UnknownEffect
	}
	if f.seen.now().wrote > 1 && o.Class != policy.ClassSuccess { // the answer speaks of the last sending only
		o.Effect, o.Undone = policy.UnknownEffect, false
	}
	return o
}

// outcome says what an attempt's error means.
func (f *httpAttempt) outcome(err error) policy.Outcome {
	o, saw := outcomeOfError(f.of.from, err), f.seen.now()
	switch {
	case saw.wrote == 1 && refusedByHTTP2(err):
		o = policy.Unsent(policy.ClassNetwork)
	case saw.unsent():
		o.NeverSent, o.Effect = true, policy.NoEffect
	case o.NeverSent && saw.repeated():
		o.NeverSent, o.Effect = false, policy.UnknownEffect
	case o.Class == policy.ClassUnclassified && saw.wrote > 0:
		// The request was fit to be sent, and then its connection or stream ended. Most of
		// what net/http says of that over HTTP/2 has no type: "client connection force
		// closed" when another stream's write failed, "client connection lost".
		o.Class = policy.ClassNetwork
	}
	if f.of.body.broken() { // the caller's reader failed, and not the dependency
		o = policy.Outcome{Class: policy.ClassIgnored}
		if saw.wrote > 0 {
			o.Effect = policy.UnknownEffect
		}
	}
	return o
}

// timedOut makes a deadline of gabion's, which net/http reports by its cause, the
// deadline error that callers ask for. ctx is the attempt's.
func timedOut(ctx context.Context, err error) error {
	if anothers(ctx, err) {
		return broken("gabionhttp: the connection was given up with another request: " + err.Error())
	}
	if why, ok := err.(policy.Reason); ok {
		return fmt.Errorf("%w (%w)", context.DeadlineExceeded, why)
	}
	return err
}

// anothers reports whether err is the cancellation of another request. A request that ends while
// its answer arrives takes the connection along. If net/http has lent that connection to the
// next request by then, the next one gets the error of the first.
func anothers(ctx context.Context, err error) bool {
	var below *gabion.Error
	if ctx.Err() != nil || errors.As(err, &below) {
		return false
	}
	_, ours := err.(policy.Reason)
	return ours || errors.Is(err, context.Canceled)
}
