package gabionproxy

import (
	"cmp"
	"net/http"
	"net/url"
	"strings"
)

// routed sends requests of some routes through a handler, and all others past it.
type routed struct {
	match  *http.ServeMux   // knows patterns, and serves nothing
	low    []*http.ServeMux // the same patterns in lower case; several where two are then the same
	keyed  http.Handler
	others http.Handler
	proxy  *Proxy
}

// add adds a route, such as POST /orders.
func (k *routed) add(route string) error {
	if err := handle(k.match, route); err != nil {
		return err
	}
	method, path, _ := strings.Cut(route, " ")
	low := method + " " + strings.ToLower(path)
	for _, m := range k.low {
		if handle(m, low) == nil {
			return nil
		}
	}
	k.low = append(k.low, http.NewServeMux())
	return handle(k.low[len(k.low)-1], low)
}

// ServeHTTP implements [http.Handler].
func (k *routed) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case k.covers(r.Method, r):
		k.keyed.ServeHTTP(w, r)
	case k.disguised(r):
		k.proxy.refuse(w, r, &refusal{status: http.StatusBadRequest, reason: "method_ambiguous", title: "The method can be read in more than one way",
			detail: "send the method that is meant in capital letters, and no header that overrides it", unsent: true})
	default:
		k.others.ServeHTTP(w, r)
	}
}

// covers reports whether a request with that method is one of the routes', as any program may read its path. A program that
// tells such paths apart asks for a key too often, and one that does not is never reached around the keys.
func (k *routed) covers(method string, r *http.Request) bool {
	if _, pattern := k.match.Handler(&http.Request{Method: method, Host: r.Host, URL: r.URL}); pattern != "" {
		return true
	}
	whole, short := loosely(r.URL.Path)
	for _, path := range []string{whole, whole + "/", short, short + "/"} {
		for _, m := range k.low {
			if _, pattern := m.Handler(&http.Request{Method: method, Host: r.Host, URL: &url.URL{Path: cmp.Or(path, "/")}}); pattern != "" {
				return true
			}
		}
	}
	return false
}

// overrides are headers by which frameworks take another method than that of the request.
var overrides = []string{"X-Http-Method-Override", "X-Http-Method", "X-Method-Override"}

// disguised reports whether a program may read one of the routes' methods out of a request that has another.
func (k *routed) disguised(r *http.Request) bool {
	if upper := strings.ToUpper(r.Method); upper != r.Method && k.covers(upper, r) {
		return true
	}
	for _, name := range overrides {
		for _, method := range r.Header[name] {
			if k.covers(strings.ToUpper(strings.TrimSpace(method)), r) {
				return true
			}
		}
	}
	return false
}

// loosely is a path in lower case as the most lenient programs read it, and the same without what looks like the format of the answer. They
// undo escapes twice; leave out parameters, empty parts, and dots and spaces at the end of a part; and end at a zero byte.
func loosely(path string) (whole, short string) {
	path, _, _ = strings.Cut(named(path), "\x00")
	parts := strings.Split(strings.ToLower(path), "/")
	for i, part := range parts {
		parts[i] = strings.TrimRight(part, ". \t\r\n")
	}
	whole = strings.TrimSuffix(strings.Join(parts, "/"), "/")
	if dot := strings.LastIndexByte(whole, '.'); dot > strings.LastIndexByte(whole, '/')+1 {
		return whole, whole[:dot]
	}
	return whole, whole
}
