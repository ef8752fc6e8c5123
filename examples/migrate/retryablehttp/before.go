// Package retryablehttp is docs/migrate/go-retryablehttp.md: the same client with
// hashicorp/go-retryablehttp and with gabion.
package retryablehttp

import (
	"net/http"
	"time"

	"github.com/hashicorp/go-retryablehttp"

	"github.com/gabion-go/gabion/examples/migrate/shop"
)

// Before is the client with go-retryablehttp.
func Before(base string, wire http.RoundTripper) shop.Client {
	retrying := retryablehttp.NewClient()
	retrying.RetryMax = 2
	retrying.RetryWaitMin = 100 * time.Millisecond
	retrying.RetryWaitMax = time.Second
	retrying.Logger = nil
	retrying.HTTPClient = &http.Client{Transport: wire, Timeout: time.Second}

	return shop.HTTP{Base: base, Doer: retrying.StandardClient()}
}
