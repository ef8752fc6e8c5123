package grpcconfig

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// methodConfig reads one method config.
func (r *reader) methodConfig(n *node) (m methodConfig, ok bool) {
	if n.kind == isNull {
		r.stricter(n, "null is no method config", "leave it out")
		return m, false
	}
	m.at = n
	m.fields, ok = r.fields(n, "methodConfig", "name", "timeout", "retryPolicy", "hedgingPolicy",
		"waitForReady", "maxRequestMessageBytes", "maxResponseMessageBytes")
	if !ok {
		return m, false
	}
	m.nameless = m.fields["name"] == nil
	if m.nameless {
		r.note(n.at, false, "methodConfig: without a name it is for no method", `write "name": [{}] for all methods`)
	} else {
		m.names = r.names(m.fields["name"])
	}
	r.timeout(&m)
	if at := m.fields["retryPolicy"]; at != nil {
		m.retry = r.retryPolicy(at, m.nameless)
	}
	if at := m.fields["hedgingPolicy"]; at != nil {
		m.hedge = r.hedgingPolicy(at)
		if m.fields["retryPolicy"] != nil {
			r.stricter(at, "methodConfig: hedgingPolicy and retryPolicy", "keep one of the two")
		}
	}
	if at := m.fields["waitForReady"]; at != nil && at.kind != isBool {
		r.wrong(at, "waitForReady wants true or false, not "+named(at), "write true or false")
	}
	for _, key := range []string{"maxRequestMessageBytes", "maxResponseMessageBytes"} {
		if at := m.fields[key]; at != nil {
			r.whole(at, key, 64)
		}
	}
	return m, true
}

func (r *reader) names(n *node) (names []string) {
	for _, item := range r.list(n, "name") {
		if item.kind == isNull {
			r.stricter(item, "null is no name", "write {} for all methods")
			continue
		}
		f, ok := r.fields(item, "name", "service", "method")
		if !ok {
			continue
		}
		service, ok := r.text(f["service"], "name.service")
		method, also := r.text(f["method"], "name.method")
		if !ok || !also {
			continue
		}
		if service == "" && method != "" {
			r.wrong(item, "name: a method without its service", `write {"service": "package.Service", "method": `+quoted(method)+"}")
			continue
		}
		path := ""
		if service != "" {
			path = "/" + service + "/" + method
		}
		if before, twice := r.paths[path]; twice {
			r.wrong(item, fmt.Sprintf("name: %s: named twice, first in %s", spoken(path), r.there(before)), "name a method once")
			continue
		}
		r.paths[path] = item.at
		names = append(names, path)
	}
	if n.kind == isList && len(n.items) == 0 {
		r.note(n.at, false, "methodConfig: without a name it is for no method", `write "name": [{}] for all methods`)
	}
	return names
}

// spoken says which methods a name is of.
func spoken(path string) string {
	switch {
	case path == "":
		return "all methods"
	case path[len(path)-1] == '/':
		return clip(path) + "*"
	}
	return clip(path)
}

// timeout reads that of the whole call. grpc-go takes one that lets no call succeed, and
// ignores a negative one.
func (r *reader) timeout(m *methodConfig) {
	at := m.fields["timeout"]
	if at == nil {
		return
	}
	d, ok := r.duration(at, "timeout")
	switch {
	case !ok:
	case d < 0:
		r.stricter(at, "timeout: "+quoted(at.text)+" is negative", "grpc-go ignores it: leave it out")
	case d == 0:
		r.stricter(at, "timeout: "+quoted(at.text)+" lets no call succeed", "write how long a call may take, or leave it out")
	default:
		m.timeout = &d
	}
}

func (r *reader) retryPolicy(n *node, nameless bool) *resending {
	f, ok := r.fields(n, "retryPolicy", "maxAttempts", "initialBackoff", "maxBackoff", "backoffMultiplier", "retryableStatusCodes")
	if !ok {
		return nil
	}
	p := &resending{at: n, fields: f}
	// grpc-go reads values of a nameless config and does not judge them.
	judge := func(do func()) {
		before := r.ours
		r.ours = before || nameless
		do()
		r.ours = before
	}
	p.attempts = r.attempts(n, f["maxAttempts"], "retryPolicy", nameless)
	wait := func(key, such string) (d time.Duration) {
		at := f[key]
		if at == nil {
			missing := func() { r.missing(n, "retryPolicy", key, `write one such as "`+key+`": "`+such+`"`) }
			if isNulled(n, key) { // grpc-go reads it, and null is no duration
				missing()
			} else {
				judge(missing)
			}
			return 0
		}
		d, ok := r.duration(at, "retryPolicy."+key)
		if ok && d <= 0 {
			judge(func() {
				r.wrong(at, "retryPolicy."+key+": "+quoted(at.text)+" is not above zero", `write one such as "`+such+`"`)
			})
		}
		return d
	}
	p.initial = wait("initialBackoff", "0.1s")
	p.max = wait("maxBackoff", "1s")
	judge(func() { p.multiplier = r.multiplier(n, f["backoffMultiplier"], nameless) })
	const key, what = "retryableStatusCodes", "retryPolicy.retryableStatusCodes"
	at := f[key]
	if at == nil {
		judge(func() { r.missing(n, "retryPolicy", key, `write one such as "`+key+`": ["UNAVAILABLE"]`) })
		return p
	}
	p.codes = r.codes(at, what)
	if at.kind == isList && len(at.items) == 0 {
		judge(func() { r.wrong(at, what+": no code is listed", `write ["UNAVAILABLE"]`) })
	}
	return p
}

// isNulled reports whether an object says null for a key.
func isNulled(n *node, key string) bool {
	return slices.ContainsFunc(n.members, func(m member) bool {
		return strings.EqualFold(m.key.text, key) && m.value.kind == isNull
	})
}

// attempts reads how often a call is sent at most, the first time included.
func (r *reader) attempts(n, at *node, what string, nameless bool) int {
	const proposal = "the first attempt counts too: write 2 to 5"
	if at == nil {
		r.fail(n.at, r.ours || nameless, what+": maxAttempts is missing", proposal)
		return 0
	}
	v, ok := r.whole(at, what+".maxAttempts", 0)
	if ok && v < 2 {
		r.fail(at.at, r.ours || nameless, fmt.Sprintf("%s.maxAttempts: %d is too few", what, v), proposal)
	}
	return int(v)
}

func (r *reader) multiplier(n, at *node, nameless bool) float64 {
	const key, such = "backoffMultiplier", "2"
	if at == nil {
		r.missing(n, "retryPolicy", key, `write one such as "`+key+`": `+such)
		return 0
	}
	before := r.ours
	r.ours = before && !nameless // a number that can't be read is refused there, too
	v, ok := r.float(at, "retryPolicy."+key, such)
	r.ours = before
	if ok && v <= 0 {
		r.wrong(at, "retryPolicy."+key+": "+clip(at.text)+" is not above zero", "write one such as "+such)
	}
	return v
}

// hedgingPolicy reads what grpc-go ignores.
func (r *reader) hedgingPolicy(n *node) *resending {
	r.ours = true
	defer func() { r.ours = false }()
	f, ok := r.fields(n, "hedgingPolicy", "maxAttempts", "hedgingDelay", "nonFatalStatusCodes")
	if !ok {
		return nil
	}
	p := &resending{at: n, fields: f}
	p.attempts = r.attempts(n, f["maxAttempts"], "hedgingPolicy", false)
	if at := f["hedgingDelay"]; at != nil {
		d, ok := r.duration(at, "hedgingPolicy.hedgingDelay")
		if ok && d < 0 {
			r.wrong(at, "hedgingPolicy.hedgingDelay: "+quoted(at.text)+" is negative", `write one such as "0.5s", or "0s" for all at once`)
		}
		p.delay = d
	}
	if at := f["nonFatalStatusCodes"]; at != nil {
		p.codes = r.codes(at, "hedgingPolicy.nonFatalStatusCodes")
	}
	return p
}
