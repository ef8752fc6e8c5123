package gabionhttp

import (
	"errors"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/classify"
	"github.com/gabion-go/gabion/internal/adapter"
	"github.com/gabion-go/gabion/policy"
)

// This file sends requests to the endpoints of a policy. The URL that the caller wrote has the path and the query;
// scheme, host and the beginning of the path are the endpoint's.

// aim makes a copy of the caller's request one for an endpoint. A request that a redirect led on is sent where that points.
func (c *exchange) aim(out *http.Request, to policy.Endpoint) error {
	if to.URL == "" || out.URL == nil || c.req.Response != nil {
		return nil
	}
	base, err := url.Parse(to.URL)
	if err != nil {
		return err
	}
	if out.URL.Opaque != "" || climbs(out.URL) {
		return errOutside
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

// errOutside says that a request would leave the path of an endpoint. No endpoint gets it, also not one whose path is
// empty, so that a request does not fail only while a backup is in use.
var errOutside = classify.Permanent(classify.NotSent(
	errors.New("gabionhttp: the request's path leads above its beginning by its \"..\", or its URL is opaque; it is for no endpoint")))

// joined is a path after that of an endpoint.
func joined(base, of *url.URL) (path, raw string) {
	if of.Path == "" {
		return base.Path, base.RawPath
	}
	raw = strings.TrimSuffix(base.EscapedPath(), "/") + "/" + strings.TrimPrefix(of.EscapedPath(), "/")
	path, _ = url.PathUnescape(raw) // which it can be, as both parts can
	return path, raw
}

// climbs reports whether a path leads above where it begins. Servers differ in how they read one: some decode %2f before they
// look for "..", merge slashes, take a backslash for a slash, or drop what follows a semicolon. It is enough that it
// climbs by one of these readings.
func climbs(u *url.URL) bool {
	if !strings.Contains(u.Path, "..") {
		return false
	}
	depth := 0
	for segment := range strings.SplitSeq(u.EscapedPath(), "/") {
		plain, _ := url.PathUnescape(segment)
		parts := strings.FieldsFunc(plain, func(r rune) bool { return r == '/' || r == '\\' })
		down := 0
		for _, part := range parts {
			switch part, _, _ = strings.Cut(part, ";"); {
			case part == ".." && len(parts) > 1:
				return true
			case part == "..":
				depth--
			case part != "." && part != "":
				down = 1
			}
		}
		if depth += down; depth < 0 {
			return true
		}
	}
	return false
}

// owner is the place in the list of the endpoint that a URL lies at: of several at one host the one with the longest path. It is
// -1 if it lies at no endpoint, or if servers may differ about that. Several says that the host has more than one.
func owner(list []policy.Endpoint, of *url.URL) (at int, several bool) {
	at, several = liesAt(list, of, (*url.URL).EscapedPath)
	if other, _ := liesAt(list, of, merged); other != at || strings.Contains(of.Path, "..") {
		at = -1
	}
	return at, several
}

// liesAt is owner by one reading of a path.
func liesAt(list []policy.Endpoint, of *url.URL, reading func(*url.URL) string) (at int, several bool) {
	at, longest, here, path := -1, -1, 0, reading(of)
	for i, e := range list {
		u, err := url.Parse(e.URL)
		if err != nil || e.URL == "" || hostOf(u.Scheme, u.Host) != hostOf(of.Scheme, of.Host) {
			continue
		}
		here++
		prefix := strings.TrimSuffix(reading(u), "/")
		if rest, ok := strings.CutPrefix(path, prefix); ok && (rest == "" || rest[0] == '/') && len(prefix) > longest {
			at, longest = i, len(prefix)
		}
	}
	return at, here > 1
}

// merged is a path as servers read it that decode it first, merge slashes, take a backslash for one, and drop what follows a
// semicolon.
func merged(u *url.URL) string {
	var b strings.Builder
	for _, part := range strings.FieldsFunc(u.Path, func(r rune) bool { return r == '/' || r == '\\' }) {
		if part, _, _ = strings.Cut(part, ";"); part != "" && part != "." {
			b.WriteString("/" + part)
		}
	}
	return b.String()
}

// astray reports whether a redirect led the request to another endpoint of the host, or to a place there that can't be told to be the
// same one's. Endpoints of one host may be different providers, whose keys know nothing of each other.
func astray(req *http.Request, list []policy.Endpoint) bool {
	for at := req; len(list) > 0 && at.Response != nil; {
		if at = at.Response.Request; at == nil || at.URL == nil || req.URL == nil || !sameProvider(list, at.URL, req.URL) {
			return true
		}
	}
	return false
}

// sameProvider reports whether a key for one URL means the same at another of the same host, by the endpoints of the policy. Of
// different hosts [strayed] judges.
func sameProvider(list []policy.Endpoint, from, to *url.URL) bool {
	if hostOf(from.Scheme, from.Host) != hostOf(to.Scheme, to.Host) {
		return true
	}
	a, _ := owner(list, from)
	b, several := owner(list, to)
	return !several || a == b && a >= 0
}

// endpoint is the option for a request that a redirect led on: it goes where the redirect points, which may be an
// endpoint or not.
func (c *exchange) endpoint(list []policy.Endpoint) gabion.CallOption {
	if c.req.URL != nil {
		if i, _ := owner(list, c.req.URL); i >= 0 {
			return gabion.WithEndpoint(list[i].Name)
		}
	}
	return adapter.NoEndpoint.(gabion.CallOption)
}

// located makes an answer that redirects say where it was asked: its Location is against the endpoint's URL, and
// net/http would take it to be against the caller's.
func (f *httpAttempt) located(resp *http.Response) {
	sent := f.out.URL
	if f.of.from.URL == nil || sent == nil || sent.Scheme == f.of.from.URL.Scheme && sent.Host == f.of.from.URL.Host && sent.Path == f.of.from.URL.Path {
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
