package gabionproxy

import (
	"cmp"
	"iter"
	"net/http"
	"net/url"
	"path"
	"slices"
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
	method, where, _ := strings.Cut(route, " ")
	parts := strings.Split(where, "/")
	for i, part := range parts {
		if !strings.HasPrefix(part, "{") { // a name is no part of what is matched
			parts[i] = folded(part)
		}
	}
	low := method + " " + strings.Join(parts, "/")
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
	case r.Method != http.MethodHead && k.covers(r.Method, r):
		k.keyed.ServeHTTP(w, r)
	case k.disguised(r):
		k.proxy.refuse(w, r, &refusal{status: http.StatusBadRequest, reason: "method_ambiguous", title: "The method can be read in more than one way",
			detail: "send the method that is meant in capital letters, and no header or parameter _method that overrides it", unsent: true})
	case k.covers(r.Method, r): // HEAD, which routes of GET cover and which may need no key
		k.keyed.ServeHTTP(w, r)
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
	for _, one := range spellings(r.URL) {
		for _, m := range k.low {
			if _, pattern := m.Handler(&http.Request{Method: method, Host: r.Host, URL: &url.URL{Path: one}}); pattern != "" {
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
	for name, lines := range r.Header {
		if !slices.Contains(overrides, noUnderscores(name)) {
			continue
		}
		for _, method := range strings.Split(strings.Join(lines, ","), ",") { // some take the first, some the last
			if k.covers(strings.ToUpper(strings.TrimSpace(method)), r) {
				return true
			}
		}
	}
	for method := range queried(r.URL.RawQuery) {
		if k.covers(strings.ToUpper(method), r) {
			return true
		}
	}
	return false
}

// queried are the methods that frameworks take out of a query. PHP reads a dot or a bracket in a name as an underscore, and some
// programs end a pair at a semicolon.
func queried(query string) iter.Seq[string] {
	return func(yield func(string) bool) {
		if !strings.Contains(query, "method") && !strings.Contains(query, "%") {
			return
		}
		for pair := range strings.FieldsFuncSeq(query, func(r rune) bool { return r == '&' || r == ';' }) {
			name, method, _ := strings.Cut(pair, "=")
			name, _ = url.QueryUnescape(name)
			method, _ = url.QueryUnescape(method)
			if strings.NewReplacer(".", "_", "[", "_").Replace(strings.TrimSpace(name)) == "_method" && !yield(strings.TrimSpace(method)) {
				return
			}
		}
	}
}

// spellings are a path in lower case as the most lenient programs read it: they undo escapes twice; leave out parameters, empty parts, and
// dots and spaces at the end of a part; and end at a zero byte. Some cut it into parts before they undo escapes, and some keep ".." as
// a part; in those a part that is not plain is "_", since it can only be a wildcard's.
func spellings(u *url.URL) (all []string) {
	parts := strings.Split(u.EscapedPath(), "/")
	for i, part := range parts {
		parts[i] = piece(part)
	}
	resolved := path.Clean("/" + strings.Join(parts, "/"))
	for i, part := range parts {
		if part == "." || part == ".." {
			parts[i] = "_"
		}
	}
	name, _, _ := strings.Cut(named(u.Path), "\x00")
	whole := strings.Split(folded(name), "/")
	for i, part := range whole {
		whole[i] = strings.TrimRight(part, unseen)
	}
	for _, one := range []string{strings.Join(whole, "/"), resolved, path.Clean("/" + strings.Join(parts, "/"))} {
		one = strings.TrimSuffix(one, "/")
		all = withFormats(all, one)
		if at := strings.LastIndex(one, ".php/"); at >= 0 {
			all = withFormats(all, one[at+len(".php"):]) // the program is found by a name of its own
		}
	}
	return all
}

// unseen is what file systems leave out at the end of a name.
const unseen = ". \t\r\n"

// folded is a text without case, as programs compare it that go by capital letters, and others.
func folded(text string) string { return strings.ToLower(strings.ToUpper(text)) }

// piece reads one part of a path that was cut before its escapes are undone.
func piece(part string) string {
	if part == "" {
		return ""
	}
	for range 2 {
		if again, err := url.PathUnescape(part); err == nil {
			part = again
		}
	}
	if at := strings.IndexAny(part, ";?#\x00"); at >= 0 {
		part = part[:at]
	}
	if part != "." && part != ".." {
		part = strings.TrimRight(part, unseen)
	}
	if part == "" || strings.ContainsAny(part, `/\`) {
		return "_"
	}
	return folded(part)
}

// withFormats adds a path, and the same without what looks like the format of the answer, each also with a slash at its end.
func withFormats(all []string, p string) []string {
	last := strings.LastIndexByte(p, '/') + 1
	for _, at := range []int{len(p), last + strings.LastIndexByte(p[last:], '.'), last + strings.IndexByte(p[last:], '.')} {
		if at > last || at == len(p) {
			if one := cmp.Or(p[:at], "/"); !slices.Contains(all, one) {
				all = append(all, one, p[:at]+"/")
			}
		}
	}
	return all
}
