package demo

import (
	"context"
	"net/http"
	"runtime/debug"

	"github.com/hashicorp/go-retryablehttp"
)

const libraryPath = "github.com/hashicorp/go-retryablehttp"

// newLibrary is go-retryablehttp as its README configures it: NewClient, RetryMax
// 10, StandardClient. The README sets no timeout, and the library repeats a POST like
// any other request; so it gets the key that makes that safe. Its log is off, and ctx
// ends its calls when the run is over; nothing else is changed.
func newLibrary(url string) client {
	retryClient := retryablehttp.NewClient()
	retryClient.RetryMax = 10
	retryClient.Logger = nil
	roads.lead(retryClient.HTTPClient.Transport.(*http.Transport))
	web := retryClient.StandardClient()
	charge := func(ctx context.Context, o Order) result {
		req, err := newRequest(ctx, url, o, true)
		if err != nil {
			return result{reason: why(err)}
		}
		resp, err := web.Do(req)
		defer finish(resp)
		return verdict(resp, err)
	}
	return client{
		name: "library", keyed: true, setup: "its README", charge: charge, close: retryClient.HTTPClient.CloseIdleConnections,
		says: "go-retryablehttp " + versionOf(libraryPath) + " as in its README: c := retryablehttp.NewClient(); c.RetryMax = 10; c.StandardClient(), and the order as Idempotency-Key",
	}
}

// versionOf returns the version of a module that this binary is built with.
func versionOf(path string) string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, dep := range info.Deps {
		if dep.Path == path {
			return dep.Version
		}
	}
	return ""
}
