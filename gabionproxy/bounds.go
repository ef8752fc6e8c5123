package gabionproxy

import (
	"cmp"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/gabion-go/gabion/config"
)

// patient is a client's side of an exchange that is given up when no byte moves for too long. It bounds silence, and not the
// whole: streams last as long as they like.
type patient struct {
	http.ResponseWriter
	control http.ResponseController
	stall   time.Duration
	streams bool          // HTTP/2, where a deadline that passes ends the stream also when nothing waits for it
	until   atomic.Int64  // the deadline of a write, since epoch; zero means that this request has not set one
	begun   atomic.Bool   // the answer; from then on a client of HTTP/2 may be silent, as in calls of both directions
	writing *time.Timer   // of HTTP/2
	silence time.Duration // of an upgraded connection
}

// Unwrap lets http.ResponseController set deadlines.
func (w *patient) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader implements [http.ResponseWriter].
func (w *patient) WriteHeader(status int) {
	switch {
	case status >= http.StatusOK:
		w.begun.Store(true)
	case w.streams:
		w.early(status)
		return
	default: // it is written at once, and not kept as the last answer's are
		w.last()
	}
	w.ResponseWriter.WriteHeader(status)
}

// early writes an answer of 1xx to a client of HTTP/2. When the connection ends while it is written, net/http goes on reading its headers
// after WriteHeader has returned, and what is written into them next ends the process. Headers with a length it copies first,
// since early answers have none.
func (w *patient) early(status int) {
	h := w.Header()
	h["Content-Length"] = nil
	w.ResponseWriter.WriteHeader(status)
	delete(h, "Content-Length")
}

// Write gives the client time for these bytes.
func (w *patient) Write(p []byte) (int, error) {
	defer w.within()()
	return w.ResponseWriter.Write(p)
}

// FlushError implements what [http.ResponseController] looks for. It takes as long as a Write: the client has to take what was kept.
func (w *patient) FlushError() error {
	defer w.within()()
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// within bounds what is written until the function is called.
func (w *patient) within() (done func()) {
	if !w.streams {
		w.last()
		return func() {}
	}
	w.begun.Store(true)
	if w.writing == nil {
		w.writing = time.AfterFunc(w.stall, func() { _ = w.control.SetWriteDeadline(time.Unix(1, 0)) })
	} else {
		w.writing.Reset(w.stall)
	}
	return func() { w.writing.Stop() }
}

// epoch is any moment before the first request.
var epoch = time.Now()

// last gives the client time for what net/http writes by itself: early answers, and the end once the answer is whole. A deadline
// costs as much as a short answer's bytes, so it is set an eighth later, and stays for that time.
func (w *patient) last() {
	now := time.Since(epoch)
	if w.until.Load() >= int64(now+w.stall) {
		return
	}
	until := now + w.stall + w.stall/8
	w.until.Store(int64(until))
	_ = w.control.SetWriteDeadline(epoch.Add(until))
}

// broken sends what there is of an answer that breaks off. A client that sees nothing of it takes its connection for one that
// was idle for too long, and many then send the request again by themselves.
func (w *patient) broken() {
	if w.begun.Load() {
		_ = w.FlushError()
	}
}

// patientBody is a client's body.
type patientBody struct {
	io.ReadCloser
	w       *patient
	done    bool
	reading *time.Timer // of HTTP/2
}

// Read gives the client time for the next bytes. At the end the deadline goes, because from then on net/http reads
// to learn whether the client is still there.
func (b *patientBody) Read(p []byte) (int, error) {
	switch {
	case b.done:
		return b.ReadCloser.Read(p)
	case b.w.streams:
		return b.readStream(p)
	}
	b.w.last() // net/http may have to say 100 Continue
	_ = b.w.control.SetReadDeadline(time.Now().Add(b.w.stall))
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF {
		b.done = true
		_ = b.w.control.SetReadDeadline(time.Time{})
	}
	return n, err
}

func (b *patientBody) readStream(p []byte) (int, error) {
	if b.reading == nil {
		b.reading = time.AfterFunc(b.w.stall, func() {
			if !b.w.begun.Load() {
				_ = b.w.control.SetReadDeadline(time.Unix(1, 0))
			}
		})
	} else {
		b.reading.Reset(b.w.stall)
	}
	defer b.reading.Stop()
	return b.ReadCloser.Read(p)
}

// bound makes out the client's side of an exchange, and returns the request, with a listener's bounds. Nil means that its
// body is too large.
func bound(out *patient, w http.ResponseWriter, r *http.Request, l *config.ProxyListener) *http.Request {
	out.ResponseWriter, out.control, out.stall, out.streams = w, *http.NewResponseController(w), cmp.Or(l.StallTimeout, defaultStall), r.ProtoMajor == 2
	out.silence = cmp.Or(l.UpgradedTimeout, defaultUpgraded)
	if r.Body == nil || r.Body == http.NoBody {
		return r
	}
	over := l.MaxBody > 0 && r.ContentLength > int64(l.MaxBody)
	if !over && readAtOnce(r) {
		return r
	}
	if !out.streams {
		_ = out.control.SetReadDeadline(time.Now().Add(out.stall)) // net/http reads what a refusal leaves
	}
	if over {
		return nil
	}
	if l.MaxBody > 0 {
		r.Body = http.MaxBytesReader(w, r.Body, int64(l.MaxBody))
	}
	r.Body = &patientBody{ReadCloser: r.Body, w: out}
	return r
}
