package demo

import (
	"context"
	"errors"
	"net/http"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/gabionhttp"
	"github.com/gabion-go/gabion/policy"
)

const gabionName = "gabion"

// newPayments is gabion's dependency.
func newPayments(s Settings) *gabion.Dependency {
	return gabion.New(gabionName, s.Policy, gabion.WithSeed(s.Seed))
}

// newGabion is net/http with gabion under it: one dependency, by default with the
// policy that it has when nothing is written, and the order's own name as the
// idempotency key, which makes a POST safe to repeat.
func newGabion(url string, payments *gabion.Dependency) client {
	base := newTransport()
	transport := &gabionhttp.Transport{Dependency: payments, Base: base}
	web := &http.Client{Transport: transport}
	charge := func(ctx context.Context, o Order) result {
		req, err := newRequest(ctx, url, o, true)
		if err != nil {
			return result{reason: why(err)}
		}
		resp, err := web.Do(req)
		defer finish(resp)
		return gabionVerdict(resp, err) // before the body is closed
	}
	return client{
		name: gabionName, keyed: true, setup: "defaults", charge: charge, close: base.CloseIdleConnections, hidden: transport.Hidden,
		says: "http.Client{Transport: &gabionhttp.Transport{Dependency: payments}}, the order as Idempotency-Key, and the policy named below",
	}
}

// gabionVerdict reads what gabion says beside the answer: why the call ended, and
// whether it may have happened.
func gabionVerdict(resp *http.Response, err error) result {
	r := verdict(resp, err)
	var told *gabion.Error
	switch {
	case errors.As(err, &told):
		r.reason = told.Reason.String()
	case !r.ok:
		if told = gabionhttp.Verdict(resp); told != nil {
			r.reason = told.Reason.String() + ", " + r.reason
		}
	}
	r.denies = told != nil && told.Effect == policy.NoEffect
	return r
}
