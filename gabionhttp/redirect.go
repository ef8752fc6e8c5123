package gabionhttp

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/gabion-go/gabion"
)

// ErrKeyRedirected is in the error of a request with an idempotency key that a redirect
// leads to another host, or to another endpoint of the policy at the same host, where that key means
// nothing. Nothing was sent there. Hosts that share their keys are named in [Transport.KeyHosts].
var ErrKeyRedirected = errors.New("gabionhttp: a redirect leads a request with an idempotency key to a host that does not know the key")

// redirected finds out whether redirects led the request away from its key's host. A
// request that changes something is not sent there: without its key, or with another,
// it would be carried out once more when the operation is repeated.
func (c *exchange) redirected() error {
	away := strayed(c.req, c.t.KeyHosts)
	c.strayed = away || !c.shared && astray(c.req, c.ways)
	if !c.strayed || reads(c.req.Method) || gabion.Key(c.req.Context()) == "" && !keyedBefore(c.req) {
		return nil
	}
	from := "an unknown host"
	if r := c.req.Response.Request; r != nil && r.URL != nil {
		from = r.URL.Host
	}
	if !away {
		return fmt.Errorf("%w: %s to another endpoint of %s, or past its endpoints; nothing was sent to it. If all endpoints know the same keys, write shared_keys",
			ErrKeyRedirected, c.req.Method, c.req.URL.Host)
	}
	return fmt.Errorf("%w: %s to %s, by way of %s; nothing was sent to it. If both share their keys, name both in Transport.KeyHosts",
		ErrKeyRedirected, c.req.Method, c.req.URL.Host, from)
}

// reads reports whether a method changes nothing (RFC 9110, 9.2.1).
func reads(method string) bool {
	switch method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return true
	}
	return false
}

// keyedBefore reports whether a request, or one that was redirected to it, has a key.
func keyedBefore(req *http.Request) bool {
	for ; req != nil; req = req.Response.Request {
		if keyed(req.Header) || req.Response == nil {
			return keyed(req.Header)
		}
	}
	return false
}

// strayed reports whether a redirect led the request away, be it for one hop, from the hosts
// that its key was meant for. http.Client copies headers wherever a redirect points, and a
// server that knows the key may be shown what is stored under it.
func strayed(req *http.Request, shared []string) bool {
	for at := req; at.Response != nil; {
		at = at.Response.Request
		if at == nil || at.URL == nil || req.URL == nil || !sameKeys(at.URL, req.URL, shared) {
			return true
		}
	}
	return false
}

// sameKeys reports whether a key for one URL may go to another: to the same host and
// port, or to one that shares its keys; from http to https, and never back.
func sameKeys(from, to *url.URL, shared []string) bool {
	if from.Scheme == "https" && to.Scheme != "https" {
		return false
	}
	a, b := hostOf(from.Scheme, from.Host), hostOf(to.Scheme, to.Host)
	return a == b || listedHost(from.Scheme, a, shared) && listedHost(to.Scheme, b, shared)
}

func listedHost(scheme, host string, names []string) bool {
	for _, name := range names {
		if hostOf(scheme, name) == host {
			return true
		}
	}
	return false
}

// hostOf is a URL's host as all its spellings have it: in lower case, without the dot
// at the end, and without the port if that is the scheme's own.
func hostOf(scheme, host string) string {
	if plainHost(host) {
		return host
	}
	name, port := host, ""
	if i := strings.LastIndexByte(host, ':'); i > strings.LastIndexByte(host, ']') && (host[0] == '[' || strings.IndexByte(host, ':') == i) {
		name, port = host[:i], host[i+1:]
	}
	name = strings.TrimSuffix(strings.ToLower(name), ".") // which return what needs no change as it is
	if port == "" || scheme == "http" && port == "80" || scheme == "https" && port == "443" {
		return name
	}
	if strings.HasPrefix(host, name+":") {
		return host
	}
	return name + ":" + port
}

// plainHost reports whether a host is as all its spellings have it, as nearly all are: it has neither a port nor a letter
// that would be written otherwise.
func plainHost(host string) bool {
	for i := range len(host) {
		switch c := host[i]; {
		case 'A' <= c && c <= 'Z' || c == ':' || c >= utf8.RuneSelf:
			return false
		}
	}
	return !strings.HasSuffix(host, ".")
}
