package gabionproxy

import (
	"bufio"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// followed serves a request, writes a line about it where lines is set, and tells the telemetry. Queries, headers and bodies may
// hold secrets and are not in the line.
func (p *Proxy) followed(w http.ResponseWriter, r *http.Request, l *listener, lines bool) {
	seen := &counted{ResponseWriter: w, asked: r.Method}
	begun := time.Now()
	method, host, path := r.Method, r.Host, r.URL.Path
	told := func(Answer) {}
	if t := p.options.Telemetry; t != nil {
		ctx, end := t.Serving(r)
		r, told = r.WithContext(ctx), end
	}
	done := false
	defer func() {
		h := w.Header()
		a := Answer{Status: seen.status, Bytes: seen.bytes, Attempts: h.Get(HeaderAttempts), Reason: h.Get(HeaderReason), Cut: !done}
		if lines {
			p.options.Log.LogAttrs(r.Context(), slog.LevelInfo, "request",
				slog.String("listener", l.config.Address), slog.String("client", r.RemoteAddr), slog.String("method", method), slog.String("host", host),
				slog.String("path", path), slog.String("proto", r.Proto), slog.Int("status", a.Status), slog.Int64("bytes", a.Bytes),
				slog.Float64("took_ms", float64(time.Since(begun).Microseconds())/1000), slog.String("attempts", a.Attempts), slog.String("reason", a.Reason), slog.Bool("cut", a.Cut))
		}
		told(a)
	}()
	p.serve(seen, r, l)
	done = true
}

// counted notes what was answered.
type counted struct {
	http.ResponseWriter
	status int
	bytes  int64
	asked  string // the method
}

// Unwrap lets http.ResponseController flush and set deadlines.
func (c *counted) Unwrap() http.ResponseWriter { return c.ResponseWriter }

// Hijack implements [http.Hijacker]. What takes the connection writes the status itself.
func (c *counted) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := http.NewResponseController(c.ResponseWriter).Hijack()
	if err == nil && c.status == 0 {
		if c.status = http.StatusSwitchingProtocols; c.asked == http.MethodConnect {
			c.status = http.StatusOK
		}
	}
	return conn, buffered, err
}

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
