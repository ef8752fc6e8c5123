package retryablehttp

import (
	"net/http"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/examples/migrate/shop"
	"github.com/gabion-go/gabion/gabionhttp"
	"github.com/gabion-go/gabion/policy"
)

// Policy says what Before's settings say. What it leaves out are gabion's defaults.
var Policy = policy.Policy{
	Timeout: policy.Timeout{Call: 5 * time.Second, Attempt: time.Second},
	Retry: policy.Retry{
		Attempts: 3,
		Backoff:  backoff.Full(200*time.Millisecond, time.Second),
		Budget:   policy.Budget{Start: 2, Reserve: 2},
	},
}

// After is the client with gabion.
func After(base string, wire http.RoundTripper, options ...gabion.Option) shop.Client {
	dependency := gabion.New("shop", Policy, options...)

	client := &http.Client{Transport: &gabionhttp.Transport{Dependency: dependency, Base: wire}}
	return shop.HTTP{Base: base, Doer: client}
}
