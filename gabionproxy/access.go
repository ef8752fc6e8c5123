package gabionproxy

import (
	"log/slog"
	"net/http"
	"time"
)

// logged serves a request and writes a line about it: where it went and what became of it. Queries, headers and bodies may
// hold secrets and are not in it.
func (p *Proxy) logged(w http.ResponseWriter, r *http.Request, l *listener) {
	seen := &counted{ResponseWriter: w}
	begun := time.Now()
	method, host, path := r.Method, r.Host, r.URL.Path
	done := false
	defer func() {
		h := w.Header()
		p.options.Log.LogAttrs(r.Context(), slog.LevelInfo, "request",
			slog.String("listener", l.config.Address), slog.String("client", r.RemoteAddr), slog.String("method", method), slog.String("host", host),
			slog.String("path", path), slog.String("proto", r.Proto), slog.Int("status", seen.status), slog.Int64("bytes", seen.bytes),
			slog.Float64("took_ms", float64(time.Since(begun).Microseconds())/1000), slog.String("attempts", h.Get(HeaderAttempts)), slog.String("reason", h.Get(HeaderReason)), slog.Bool("cut", !done))
	}()
	p.serve(seen, r, l)
	done = true
}

// counted notes what was answered.
type counted struct {
	http.ResponseWriter
	status int
	bytes  int64
}

// Unwrap lets http.ResponseController flush and hijack.
func (c *counted) Unwrap() http.ResponseWriter { return c.ResponseWriter }

// WriteHeader notes the last status: those before are informational.
func (c *counted) WriteHeader(status int) {
	c.status = status
	c.ResponseWriter.WriteHeader(status)
}

// Write implements [http.ResponseWriter].
func (c *counted) Write(b []byte) (int, error) {
	if c.status == 0 {
		c.status = http.StatusOK
	}
	n, err := c.ResponseWriter.Write(b)
	c.bytes += int64(n)
	return n, err
}
