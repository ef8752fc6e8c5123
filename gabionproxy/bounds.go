package gabionproxy

import (
	"cmp"
	"io"
	"math"
	"net/http"
	"sync"
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
	kept    bool          // something was written and not flushed, so that the end has to wait for room at the client
	waits   waits         // of HTTP/2
	silence time.Duration // of an upgraded connection
	unread  atomic.Bool   // what is left of a body over HTTP/1 has no use any more
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
	w.kept = true
	w.expects()
	defer w.moved()
	return w.ResponseWriter.Write(p)
}

// FlushError implements what [http.ResponseController] looks for. It takes as long as a Write: the client has to take what was kept.
func (w *patient) FlushError() error {
	w.kept = false
	w.expects()
	defer w.moved()
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// expects bounds what is written until moved is called.
func (w *patient) expects() {
	if !w.streams {
		w.last()
		return
	}
	w.begun.Store(true)
	w.waits.begin(&w.waits.writing, w)
}

func (w *patient) moved() { w.waits.writing.Store(0) }

// end bounds what net/http writes once the answer is whole.
func (w *patient) end() {
	if w.streams {
		w.waits.end()
	}
	if w.kept || !w.streams { // over HTTP/2 headers and trailers wait for no client, and bytes wait for room
		w.last()
	}
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

// waits are those of a request over HTTP/2: for its client to take bytes, and to send some. They have one timer, which is not put off with
// each byte: when it rings it looks how long the wait has lasted.
type waits struct {
	writing, reading atomic.Int64 // since when, after epoch; zero means no wait
	set              atomic.Bool  // the timer

	mu    sync.Mutex // guards what follows
	timer *time.Timer
	due   time.Duration // when it rings, after epoch; zero means not at all
	over  bool          // the response writer must not be used any more
}

func (a *waits) begin(since *atomic.Int64, w *patient) {
	since.Store(int64(time.Since(epoch)))
	if !a.set.Swap(true) {
		a.ringIn(w.stall, w)
	}
}

// ringIn sets the timer, unless it rings sooner.
func (a *waits) ringIn(d time.Duration, w *patient) {
	a.mu.Lock()
	defer a.mu.Unlock()
	at := time.Since(epoch) + d
	if a.over || a.due != 0 && a.due <= at {
		return
	}
	if a.due = at; a.timer == nil {
		a.timer = time.AfterFunc(d, func() { a.ring(w) })
	} else {
		a.timer.Reset(d)
	}
}

// ring ends waits that are too long, and sets the timer for those that are not.
func (a *waits) ring(w *patient) {
	a.mu.Lock()
	a.due = 0
	a.mu.Unlock()
	a.set.Store(false) // before it looks: who begins to wait from now on sets the timer
	writes, reads := a.left(&a.writing, w), a.left(&a.reading, w)
	a.mu.Lock()
	if !a.over && writes <= 0 {
		_ = w.control.SetWriteDeadline(time.Unix(1, 0))
	}
	if !a.over && reads <= 0 && !w.begun.Load() {
		_ = w.control.SetReadDeadline(time.Unix(1, 0))
	}
	a.mu.Unlock()
	next := never
	for _, left := range [...]time.Duration{writes, reads} {
		if left > 0 {
			next = min(next, left)
		}
	}
	if next < never {
		a.set.Store(true)
		a.ringIn(next, w)
	}
}

const never = time.Duration(math.MaxInt64)

// left is for how long a wait may still last.
func (a *waits) left(since *atomic.Int64, w *patient) time.Duration {
	began := time.Duration(since.Load())
	if began == 0 {
		return never
	}
	return began + w.stall - time.Since(epoch)
}

// end is called when the request's handler has come to its end.
func (a *waits) end() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.over = true; a.timer != nil {
		a.timer.Stop()
	}
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
	switch {
	case b.done:
		return b.ReadCloser.Read(p)
	case b.w.streams:
		return b.readStream(p)
	}
	b.w.last() // net/http may have to say 100 Continue
	_ = b.w.control.SetReadDeadline(time.Now().Add(b.w.stall))
	if b.w.unread.Load() {
		_ = b.w.control.SetReadDeadline(time.Unix(1, 0))
	}
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF {
		b.done = true
		_ = b.w.control.SetReadDeadline(time.Time{})
	}
	return n, err
}

func (b *patientBody) readStream(p []byte) (int, error) {
	b.w.waits.begin(&b.w.waits.reading, b.w)
	defer b.w.waits.reading.Store(0)
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
