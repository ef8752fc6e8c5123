package gabionhttp

import (
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/internal/adapter"
	"github.com/gabion-go/gabion/policy"
)

// This file sends requests to the endpoints of a policy. The URL that the caller wrote has the path and the query;
// scheme, host and the beginning of the path are the endpoint's.

// aim makes a copy of the caller's request one for an endpoint. A request that a redirect led on is sent where that points.
func (c *exchange) aim(out *http.Request, to gabion.Endpoint) error {
	if to.URL == "" || out.URL == nil || c.req.Response != nil {
		return nil
	}
	base, err := url.Parse(to.URL)
	if err != nil {
		return err
	}
	if was := out.URL.Host; out.Host == "" || hostOf(out.URL.Scheme, out.Host) == hostOf(out.URL.Scheme, was) { // else the caller wants it like that
		out.Host = base.Host
		if _, err := netip.ParseAddr(base.Hostname()); err == nil { // an address has no name of its own
			out.Host = was
		}
	}
	u := *out.URL
	u.Scheme, u.Host = base.Scheme, base.Host
	if base.Path != "" && base.Path != "/" {
		u.Path, u.RawPath = joined(base, out.URL)
	}
	out.URL = &u
	return nil
}

// joined is a path after that of an endpoint.
func joined(base, of *url.URL) (path, raw string) {
	join := func(a, b string) string { return strings.TrimSuffix(a, "/") + "/" + strings.TrimPrefix(b, "/") }
	path = join(base.Path, of.Path)
	if base.RawPath != "" || of.RawPath != "" {
		raw = join(base.EscapedPath(), of.EscapedPath())
	}
	if of.Path == "" {
		path, raw = base.Path, base.RawPath
	}
	return path, raw
}

// endpoint is the option for a request that a redirect led on: it goes where the redirect points, which may be an
// endpoint or not.
func (c *exchange) endpoint(list []policy.Endpoint) gabion.CallOption {
	for _, e := range list {
		if u, err := url.Parse(e.URL); err == nil && c.req.URL != nil && e.URL != "" && hostOf(u.Scheme, u.Host) == hostOf(c.req.URL.Scheme, c.req.URL.Host) {
			return gabion.WithEndpoint(e.Name)
		}
	}
	return adapter.NoEndpoint.(gabion.CallOption)
}

// located makes an answer that redirects say where it was asked: its Location is against the endpoint's URL, and
// net/http would take it to be against the caller's.
func (f *httpAttempt) located(resp *http.Response) {
	sent := f.out.URL
	if f.of.from.URL == nil || sent == nil || sent.Host == f.of.from.URL.Host && sent.Path == f.of.from.URL.Path {
		return
	}
	if to := resp.Header.Get("Location"); to != "" && resp.StatusCode/100 == 3 {
		if u, err := sent.Parse(to); err == nil {
			resp.Header.Set("Location", u.String())
			from := *f.of.req
			from.URL = sent
			resp.Request = &from
		}
	}
}
