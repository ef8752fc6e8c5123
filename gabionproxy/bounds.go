package gabionproxy

import (
	"cmp"
	"io"
	"net/http"
	"time"

	"github.com/gabion-go/gabion/config"
)

// patient is a client's side of an exchange that is given up when no byte moves for too long. It bounds silence, and not the
// whole: streams last as long as they like.
type patient struct {
	http.ResponseWriter
	control *http.ResponseController
	stall   time.Duration
}

// Unwrap lets http.ResponseController flush and hijack.
func (w *patient) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Write gives the client time for these bytes, and for the last ones that net/http writes by itself.
func (w *patient) Write(p []byte) (int, error) {
	_ = w.control.SetWriteDeadline(time.Now().Add(w.stall))
	return w.ResponseWriter.Write(p)
}

// patientBody is a client's body.
type patientBody struct {
	io.ReadCloser
	w    *patient
	done bool
}

// Read gives the client time for the next bytes. At the end the deadline goes, because from then on net/http reads
// to learn whether the client is still there.
func (b *patientBody) Read(p []byte) (int, error) {
	if b.done {
		return b.ReadCloser.Read(p)
	}
	_ = b.w.control.SetReadDeadline(time.Now().Add(b.w.stall))
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF {
		b.done = true
		_ = b.w.control.SetReadDeadline(time.Time{})
	}
	return n, err
}

// bound returns the two sides of an exchange with a listener's bounds. A nil request means that its body is too large.
func bound(w http.ResponseWriter, r *http.Request, l *config.ProxyListener) (http.ResponseWriter, *http.Request) {
	if l.MaxBody > 0 && r.ContentLength > int64(l.MaxBody) {
		return w, nil
	}
	out := &patient{w, http.NewResponseController(w), cmp.Or(l.StallTimeout, defaultStall)}
	_ = out.control.SetWriteDeadline(time.Time{}) // that of the connection's last request
	if r.Body != nil && r.Body != http.NoBody {
		if l.MaxBody > 0 {
			r.Body = http.MaxBytesReader(w, r.Body, int64(l.MaxBody))
		}
		r.Body = &patientBody{ReadCloser: r.Body, w: out}
	}
	return out, r
}
