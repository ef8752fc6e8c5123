package gabionproxy

import (
	"net/http"
	"net/url"
	"path"
	"strings"
)

// readings are the ways in which a server may read a path: with the escapes undone, as Go does; with those of slashes
// left, as the path is cut into parts; and as the name of something, where .. leads up. All are the same for nearly all paths.
func readings(u *url.URL) (undone, cut, name string) {
	if u.RawPath == "" && !strings.ContainsAny(u.Path, `%\;`) && !strings.Contains(u.Path, "//") && !strings.Contains(u.Path, "/.") {
		return u.Path, u.Path, u.Path
	}
	cut = u.Path
	if whole, err := url.PathUnescape(strings.NewReplacer("%2F", "%252F", "%2f", "%252F").Replace(u.EscapedPath())); err == nil {
		cut = whole
	}
	return u.Path, cut, named(u.Path)
}

// named reads a path as the most lenient servers do: escapes may be undone twice, a backslash is a slash, and what
// follows a semicolon is a parameter.
func named(p string) string {
	if again, err := url.PathUnescape(p); err == nil {
		p = again
	}
	parts := strings.Split(strings.ReplaceAll(p, `\`, "/"), "/")
	for i, part := range parts {
		parts[i], _, _ = strings.Cut(part, ";")
	}
	p = strings.Join(parts, "/")
	clean := path.Clean("/" + p)
	if strings.HasSuffix(p, "/") && clean != "/" {
		clean += "/"
	}
	return clean
}

// leaves reports whether a path below a base URL may lead out of that.
func leaves(base, u *url.URL) bool {
	if base == nil || base.Path == "" || base.Path == "/" {
		return false
	}
	_, _, name := readings(base.JoinPath()) // of a path without parts such as ..
	_, _, got := readings(&url.URL{Path: strings.TrimSuffix(base.Path, "/") + "/" + strings.TrimPrefix(u.Path, "/")})
	below := row{path: name}
	return !below.covers(got)
}

// ambiguous refuses a path for which the proxy and a server could disagree.
func (p *Proxy) ambiguous(w http.ResponseWriter, r *http.Request) {
	p.refuse(w, r, &refusal{status: http.StatusBadRequest, reason: "path_ambiguous", title: "The path can be read in more than one way",
		detail: "write it without .., backslashes, empty parts and escaped slashes", unsent: true})
}
