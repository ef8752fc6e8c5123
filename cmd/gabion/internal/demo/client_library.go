package demo

import (
	"context"
	"net/http"
	"runtime/debug"

	"github.com/gabion-go/gabion"
	"github.com/hashicorp/go-retryablehttp"
)

const libraryPath = "github.com/hashicorp/go-retryablehttp"

// newLibrary is go-retryablehttp as its README configures it: NewClient, RetryMax
// 10, StandardClient. The README sets no timeout, and the library repeats a POST like
// any other request; so it gets the key that makes that safe. Its log is off, ctx
// ends its calls when the run is over, and its transport is counted for the live page;
// nothing else is changed.
func newLibrary(url string, seen gabion.Observer) client {
	retryClient := retryablehttp.NewClient()
	retryClient.RetryMax = 10
	retryClient.Logger = nil
	counts := count("library", retryClient.HTTPClient.Transport, seen)
	closeIdle := retryClient.HTTPClient.CloseIdleConnections
	if seen != nil {
		idle := retryClient.HTTPClient.Transport.(*http.Transport)
		retryClient.HTTPClient.Transport, closeIdle = counts, idle.CloseIdleConnections
	}
	web := retryClient.StandardClient()
	once := func(ctx context.Context, o Order) result {
		req, err := newRequest(ctx, url, o, true)
		if err != nil {
			return result{reason: why(err)}
		}
		resp, err := web.Do(req)
		defer finish(resp)
		return verdict(resp, err)
	}
	charge := func(ctx context.Context, o Order) result {
		return counts.call(ctx, func(ctx context.Context) result { return once(ctx, o) })
	}
	return client{
		name: "library", keyed: true, setup: "its README", charge: charge, close: closeIdle,
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
