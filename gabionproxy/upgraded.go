package gabionproxy

import (
	"bufio"
	"cmp"
	"net"
	"net/http"
	"strings"
	"time"
)

// upgrades reports whether a request may become a tunnel or an upgraded connection.
func upgrades(r *http.Request) bool {
	return r.Method == http.MethodConnect || r.ProtoMajor == 1 && len(r.Header["Upgrade"]) > 0 && !strings.EqualFold(strings.TrimSpace(r.Header.Get("Upgrade")), "h2c")
}

// upgrading takes one of the places for upgraded connections, or refuses.
func upgrading(p *Proxy, w http.ResponseWriter, r *http.Request, next http.Handler) {
	defer p.tally.upgraded.Add(-1)
	if most := cmp.Or(p.inForce.Load().config.MaxUpgraded, defaultMaxUpgraded); p.tally.upgraded.Add(1) > int64(most) {
		w.Header().Set("Retry-After", "1")
		p.refuse(w, r, &refusal{status: http.StatusServiceUnavailable, reason: "too_many_upgraded", title: "The proxy has as many upgraded connections as it may",
			detail: "come back later; proxy.max_upgraded is the bound", unsent: true})
		return
	}
	next.ServeHTTP(w, r)
}

// Hijack implements [http.Hijacker]. The connection is closed when it is silent in both directions for too long.
func (w *patient) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	c, buffered, err := w.control.Hijack()
	if err != nil {
		return nil, nil, err
	}
	_ = c.SetDeadline(time.Time{}) // those of the request that it was
	own := &upgraded{Conn: c, silence: w.silence}
	own.idle = time.AfterFunc(w.silence, func() { _ = c.Close() })
	return own, buffered, nil
}

// upgraded is a client's connection that has become something else than HTTP.
type upgraded struct {
	net.Conn
	silence time.Duration
	idle    *time.Timer
}

// Read puts off the end.
func (u *upgraded) Read(p []byte) (int, error) {
	n, err := u.Conn.Read(p)
	u.moved(n)
	return n, err
}

// Write puts off the end.
func (u *upgraded) Write(p []byte) (int, error) {
	n, err := u.Conn.Write(p)
	u.moved(n)
	return n, err
}

// moved never starts a timer that has run off.
func (u *upgraded) moved(n int) {
	if n > 0 && u.idle.Stop() {
		u.idle.Reset(u.silence)
	}
}

// Close implements [net.Conn].
func (u *upgraded) Close() error {
	u.idle.Stop()
	return u.Conn.Close()
}

// CloseWrite closes one direction.
func (u *upgraded) CloseWrite() error { return closeWrite(u.Conn) }
