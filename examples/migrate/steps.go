package main

import (
	"net/http"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/gabionhttp"
	"github.com/gabion-go/gabion/policy"
)

// watching is the first step: gabion under the old library, where it only looks on.
func watching(wire http.RoundTripper) http.RoundTripper {
	dependency := gabion.New("shop", policy.Policy{
		Timeout:  policy.Timeout{Call: 5 * time.Second, Attempt: policy.Off},
		Retry:    policy.Retry{Attempts: 1},
		Breaker:  policy.Breaker{Observe: true},
		Bulkhead: policy.Bulkhead{Off: true},
		Pace:     policy.Pace{Off: true},
	})
	return &gabionhttp.Transport{Dependency: dependency, Base: wire}
}
