package h1

import (
	"crypto/tls"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// hostKey names a host as URLs do.
type hostKey struct{ scheme, host string }

// host is what a Transport knows of a host.
type host struct {
	key     hostKey
	address string
	secure  *tls.Config // nil without TLS
	until   time.Time   // from when on it is asked again whether it speaks HTTP/2; zero means never
	used    time.Time
	idle    []*conn // the last one used is the last
}

const (
	mostHosts = 1000             // to all others requests go another way
	relearn   = 10 * time.Minute // a host may come to speak HTTP/2
)

// host returns what is known of a URL's host, nil if requests to it go another way.
func (t *Transport) host(u *url.URL) *host {
	key := hostKey{u.Scheme, u.Host}
	t.mu.Lock()
	defer t.mu.Unlock()
	h := t.hosts[key]
	switch {
	case h == nil && u.Scheme == "http":
		h = t.add(key, u)
	case h != nil && !h.until.IsZero() && time.Now().After(h.until):
		return nil
	}
	return h
}

// learn notes which protocol a host of https speaks.
func (t *Transport) learn(u *url.URL, major int) {
	key := hostKey{u.Scheme, u.Host}
	t.mu.Lock()
	defer t.mu.Unlock()
	h := t.hosts[key]
	switch {
	case h == nil && major == 1:
		if h = t.add(key, u); h == nil {
			return
		}
		h.secure = t.config(u)
	case h == nil:
		return
	case major != 1:
		return // it is asked at each request, by the way that speaks both
	}
	h.until = time.Now().Add(relearn)
}

func (t *Transport) config(u *url.URL) *tls.Config {
	c := new(tls.Config)
	if t.TLS != nil {
		c = t.TLS.Clone()
	}
	if c.ServerName == "" {
		c.ServerName = u.Hostname()
	}
	c.NextProtos = []string{"http/1.1"}
	return c
}

// add is called with the lock.
func (t *Transport) add(key hostKey, u *url.URL) *host {
	if len(t.hosts) >= mostHosts || u.Hostname() == "" {
		return nil
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	if t.hosts == nil {
		t.hosts = map[hostKey]*host{}
	}
	h := &host{key: key, address: net.JoinHostPort(u.Hostname(), port), used: time.Now()}
	t.hosts[key] = h
	t.arm()
	return h
}

// take returns the idle connection that was used last, or nil.
func (t *Transport) take(h *host) *conn {
	t.mu.Lock()
	defer t.mu.Unlock()
	last := len(h.idle) - 1
	if last < 0 {
		return nil
	}
	c := h.idle[last]
	h.idle[last] = nil
	h.idle = h.idle[:last]
	return c
}

// put keeps a connection for the next request, or closes it.
func (t *Transport) put(c *conn) {
	c.since, c.busy = time.Now(), nil
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(c.home.idle) >= t.MostIdle || t.hosts[c.home.key] != c.home {
		c.Conn.Close()
		return
	}
	c.home.used = c.since
	c.home.idle = append(c.home.idle, c)
	t.arm()
}

// CloseIdleConnections closes those of Next, too.
func (t *Transport) CloseIdleConnections() {
	t.clear(func(*conn) bool { return true })
	if next, ok := t.Next.(interface{ CloseIdleConnections() }); ok {
		next.CloseIdleConnections()
	}
}

// clear closes idle connections and returns how many are left.
func (t *Transport) clear(closes func(*conn) bool) (left int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, h := range t.hosts {
		h.idle = slices.DeleteFunc(h.idle, func(c *conn) bool {
			if !closes(c) {
				return false
			}
			c.Conn.Close()
			return true
		})
		left += len(h.idle)
	}
	return left
}

// sweepEvery is how often idle connections are looked at: whether they were idle for too long, or their servers have
// closed them.
const sweepEvery = 5 * time.Second

// arm is called with the lock.
func (t *Transport) arm() {
	if t.sweep == nil {
		t.sweep = time.AfterFunc(sweepEvery, t.swept)
	}
}

func (t *Transport) swept() {
	now := time.Now()
	t.clear(func(c *conn) bool { return t.IdleTime > 0 && now.Sub(c.since) >= t.IdleTime || !c.alive() })
	t.mu.Lock()
	defer t.mu.Unlock()
	for key, h := range t.hosts {
		if len(h.idle) == 0 && now.Sub(h.used) > max(t.IdleTime, sweepEvery) {
			delete(t.hosts, key) // a request that has it still may use it
		}
	}
	if t.sweep = nil; len(t.hosts) > 0 {
		t.arm()
	}
}

// plain reports whether a request is one for this package.
func plain(req *http.Request) bool {
	u := req.URL
	switch {
	case u == nil || u.Scheme != "http" && u.Scheme != "https" || req.Method == http.MethodConnect || req.Header == nil || req.Cancel != nil:
		return false
	case req.Header["Upgrade"] != nil || req.Header["Expect"] != nil || req.Method != "" && !token(req.Method):
		return false
	case strings.ContainsFunc(u.Host, func(r rune) bool { return r <= ' ' || r >= 0x7f }):
		return false
	}
	return sound(req.Header) && sound(req.Trailer)
}

// sound reports whether all of h can be written as it is.
func sound(h http.Header) bool {
	for name, lines := range h {
		if !token(name) {
			return false
		}
		for _, line := range lines {
			for i := range len(line) {
				if b := line[i]; b < ' ' && b != '\t' || b == 0x7f {
					return false
				}
			}
		}
	}
	return true
}

func token(s string) bool {
	for i := range len(s) {
		if !tokenBytes[s[i]] {
			return false
		}
	}
	return s != ""
}

// tokenBytes are those of RFC 9110, 5.6.2.
var tokenBytes = func() (all [256]bool) {
	for _, b := range []byte("!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") {
		all[b] = true
	}
	return all
}()
