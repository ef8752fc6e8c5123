package hystrix

import (
	"context"
	"net/http"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/examples/migrate/shop"
	"github.com/gabion-go/gabion/gabionhttp"
	"github.com/gabion-go/gabion/policy"
)

// Policy says what Before's command says: one attempt, its timeout, ten at a time. What it
// leaves out are gabion's defaults.
var Policy = policy.Policy{
	Timeout:  policy.Timeout{Call: time.Second, Attempt: time.Second},
	Retry:    policy.Retry{Attempts: 1},
	Bulkhead: policy.Bulkhead{Limit: 10, Queue: policy.Off},
}

type after struct{ shop.HTTP }

// After is the client with gabion.
func After(base string, wire http.RoundTripper, options ...gabion.Option) shop.Client {
	dependency := gabion.New("shop", Policy, options...)
	client := &http.Client{Transport: &gabionhttp.Transport{Dependency: dependency, Base: wire}}
	return after{shop.HTTP{Base: base, Doer: client}}
}

// Price implements shop.Client. A price that is read may be replaced, whatever came of the
// reading.
func (a after) Price(ctx context.Context, item string) (string, error) {
	price, err := a.HTTP.Price(ctx, item)
	if err != nil && ctx.Err() == nil {
		return shop.OnRequest, nil
	}
	return price, err
}
