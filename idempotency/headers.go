package idempotency

import (
	"net/http"
	"slices"
	"strings"
)

// Headers of the HTTP surface.
const (
	headerKey      = "Idempotency-Key"     // the request's key, echoed in the response
	headerReplayed = "Idempotent-Replayed" // "true" on a stored response
	headerStatus   = "Idempotency-Status"  // "ignored": the method takes no key; "not-recorded": a retry may not find this response
	headerTrailer  = "Trailer"
)

var (
	yes         = []string{"true"}
	ignored     = []string{"ignored"}
	notRecorded = []string{"not-recorded"}
)

// kept are the headers that belong to the stored answer and not to the moment, the
// connection or the caller it was given to.
var kept = headerSet("Content-Type", "Content-Encoding", "Content-Language", "Content-Disposition",
	"Content-Location", "Location", "ETag", "Last-Modified", "Link", "Vary", "Cache-Control", "Allow", "X-Content-Type-Options")

// never are not kept, whatever the configuration says.
var never = headerSet("Age", "Alt-Svc", "Connection", "Keep-Alive", "Te", "Trailer", "Transfer-Encoding", "Upgrade", "Content-Length",
	"Set-Cookie", "Set-Cookie2", "WWW-Authenticate", "Authorization", "Authentication-Info", "Date", "Server-Timing",
	"Traceparent", "Tracestate", "X-Request-Id", "X-Correlation-Id", "Request-Id", "Retry-After",
	headerKey, headerReplayed, headerStatus)

// neverPrefix are families of headers that are not kept.
var neverPrefix = []string{"Proxy-", "Access-Control-", "Ratelimit", "X-Ratelimit-", http.TrailerPrefix}

func headerSet(names ...string) map[string]bool {
	set := map[string]bool{}
	for _, name := range names {
		set[http.CanonicalHeaderKey(name)] = true
	}
	return set
}

func forbidden(name string) bool {
	if never[name] {
		return true
	}
	return slices.ContainsFunc(neverPrefix, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}

// lines are a header as it was at some moment. There are few: a search is fine, and
// a map would cost more than all else that a response does.
type lines []line

type line struct {
	name   string
	values []string
}

// linesOf returns the header as it is now. Set, Add and Del leave a line's old values
// alone, so it stays what it is.
func linesOf(h http.Header) lines {
	all := make(lines, 0, len(h)+1) // with room for a type, which net/http would add too
	for name, values := range h {
		all = append(all, line{name, values})
	}
	return all
}

func (l lines) get(name string) []string {
	for i := range l {
		if l[i].name == name {
			return l[i].values
		}
	}
	return nil
}

// has reports whether there is such a line, even an empty one.
func (l lines) has(name string) bool {
	return slices.ContainsFunc(l, func(one line) bool { return one.name == name })
}

func (l *lines) set(name string, values []string) {
	l.drop(func(other string) bool { return other == name })
	*l = append(*l, line{name, values})
}

func (l *lines) drop(which func(name string) bool) {
	*l = slices.DeleteFunc(*l, func(one line) bool { return which(one.name) })
}

// restore makes live what the lines say. Most often it is: nothing was changed.
func (l lines) restore(live http.Header) {
	same := len(l) == len(live)
	for _, one := range l {
		now, there := live[one.name]
		same = same && there && len(now) == len(one.values) && (len(now) == 0 || &now[0] == &one.values[0])
	}
	if same {
		return
	}
	clear(live)
	for _, one := range l {
		live[one.name] = one.values
	}
}

// first returns the first of a header's values, or nothing.
func first(values []string) string {
	if len(values) == 0 {
		return ""
	}
	return values[0]
}

// named reports whether a Connection header names the other: it is for the next
// hop alone (RFC 9110, section 7.6.1).
func named(h lines, name string) bool {
	for _, text := range h.get("Connection") {
		for word := range strings.SplitSeq(text, ",") {
			if strings.EqualFold(strings.TrimSpace(word), name) {
				return true
			}
		}
	}
	return false
}

// keptFields returns the lines of h that are stored. Lines are neither split nor
// joined.
func keptFields(h lines, extra map[string]bool) (fields []Field) {
	for _, one := range h {
		if !kept[one.name] && !extra[one.name] || forbidden(one.name) || named(h, one.name) {
			continue
		}
		for _, v := range one.values {
			fields = append(fields, Field{one.name, v})
		}
	}
	return sorted(fields)
}

// trailerFields returns the trailers that the handler set: those it declared in
// sent, the headers as they were sent, and those it marked with a prefix.
func trailerFields(sent lines, now http.Header) (fields []Field) {
	for _, text := range sent.get(headerTrailer) {
		for word := range strings.SplitSeq(text, ",") {
			name := http.CanonicalHeaderKey(strings.TrimSpace(word))
			fields = appendTrailer(fields, name, now[name])
		}
	}
	for name, values := range now {
		if bare, ok := strings.CutPrefix(name, http.TrailerPrefix); ok {
			fields = appendTrailer(fields, http.CanonicalHeaderKey(bare), values)
		}
	}
	return sorted(fields)
}

func appendTrailer(fields []Field, name string, values []string) []Field {
	for _, v := range values {
		fields = append(fields, Field{name, v})
	}
	return fields
}

// sorted sorts by name and keeps the lines of a name in order, so that a result
// that is stored twice is the same. There are few: insertion is fine.
func sorted(fields []Field) []Field {
	for i := range fields {
		for j := i; j > 0 && fields[j].Name < fields[j-1].Name; j-- {
			fields[j], fields[j-1] = fields[j-1], fields[j]
		}
	}
	return fields
}

// put writes stored lines into h, in place of what is there. A recorder puts the lines of one
// name side by side; another source may not.
func put(h http.Header, fields []Field) {
	values := make([]string, len(fields))
	for i := 0; i < len(fields); {
		j := i
		for ; j < len(fields) && fields[j].Name == fields[i].Name; j++ {
			values[j] = fields[j].Value
		}
		name := fields[i].Name
		if slices.ContainsFunc(fields[:i], func(f Field) bool { return f.Name == name }) {
			h[name] = append(h[name], values[i:j]...)
		} else {
			h[name] = values[i:j:j]
		}
		i = j
	}
}
