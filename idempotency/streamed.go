package idempotency

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// ErrDigest ends the reading of a streamed request body that is not what its
// Content-Digest says, in place of io.EOF: see [Config].MaxStreamedBody. What was
// read before is not to be trusted, and nothing that comes of it is kept as a success.
var ErrDigest = errors.New("idempotency: the body is not what its Content-Digest says")

var (
	errUnread = errors.New("idempotency: the handler did not read the body to its end")
	errReread = errors.New("idempotency: a streamed body can't be read again")
)

// The room of a streamed body, in bytes. The tail is held back until the whole is
// verified: a reader that stops before io.EOF, at a last bracket or boundary, must not
// take an altered body for whole either.
const (
	streamRoom = 32 << 10
	streamTail = 4 << 10
)

// A streamedBody is a request body that the handler reads as it comes. It is verified
// when its end is seen, which is before its tail is handed out.
type streamedBody struct {
	closed   atomic.Bool // by the handler, or it has returned
	verified atomic.Bool // all of it came, and is what its digest says

	mu   sync.Mutex // guards all below; held while the client is waited for, as net/http's own body does
	from io.Reader
	in   *bufio.Reader // nil until the first Read
	sums verifier
	end  error // io.EOF when it is verified, or what is wrong; nil while unknown
}

// newStreamed returns a body that is the rest of r's after what was read of it.
func newStreamed(read []byte, r *http.Request, d digest, most int64) *streamedBody {
	whole := io.NopCloser(io.MultiReader(bytes.NewReader(read), r.Body))
	return &streamedBody{from: http.MaxBytesReader(nil, whole, most), sums: d.verifier()}
}

// open makes the body readable for another run, and reports whether it is still unread.
func (b *streamedBody) open() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed.Store(false)
	return b.in == nil
}

// Read implements [io.Reader].
func (b *streamedBody) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed.Load() {
		return 0, http.ErrBodyReadAfterClose
	}
	b.look()
	ready := b.in.Buffered()
	switch {
	case b.end == nil:
		ready -= streamTail
	case b.end != io.EOF:
		return 0, b.end
	case ready == 0:
		return 0, io.EOF
	}
	return b.in.Read(p[:min(ready, len(p))])
}

// look reads more than a tail ahead, or to the end. The caller holds mu.
func (b *streamedBody) look() {
	if b.end != nil {
		return
	}
	if b.in == nil {
		b.in = bufio.NewReaderSize(io.TeeReader(b.from, b.sums), streamRoom)
	}
	_, b.end = b.in.Peek(streamTail + 1)
	switch {
	case b.end != io.EOF:
	case b.sums.ok():
		b.verified.Store(true)
	default:
		b.end = ErrDigest
	}
}

// Close implements [io.Closer]. The server's own body stays open for finish.
func (b *streamedBody) Close() error {
	b.closed.Store(true)
	return nil
}

// finish ends the handler's reading, with rest reads on to the end in its place, and
// returns nil if the body is verified.
func (b *streamedBody) finish(rest bool) error {
	b.closed.Store(true)
	b.mu.Lock()
	defer b.mu.Unlock()
	for rest && b.end == nil {
		b.look()
		_, _ = b.in.Discard(b.in.Buffered()) // never fails: so much is there
	}
	switch b.end {
	case nil:
		return errUnread
	case io.EOF:
		return nil
	}
	return b.end
}

// endWith makes reading fail when the run is over, so that a client that sends nothing
// more can't hold it for ever. It is in force until stop is called.
func (b *streamedBody) endWith(ctx context.Context, w http.ResponseWriter) (stop func()) {
	done := make(chan struct{})
	cancel := context.AfterFunc(ctx, func() {
		defer close(done)
		_ = http.NewResponseController(w).SetReadDeadline(time.Now()) // not every server can
	})
	return func() {
		if !cancel() {
			<-done // the connection's next request must not meet it
		}
	}
}

// finish ends the handler's reading of a streamed body and returns what is wrong with
// it. Where the answer is of the whole, what was left unread is read.
func (h *Handler) finish(ctx context.Context, id ID, b *streamedBody, whole bool) error {
	err := b.finish(whole)
	if err != nil && err != errUnread {
		h.tell(ctx, Event{Kind: eventBodyFailed, ID: id, Err: err})
	}
	return err
}

// faultOf is the problem with a body that could not be verified.
func faultOf(err error) refusal {
	var tooLarge *http.MaxBytesError
	switch {
	case errors.Is(err, ErrDigest):
		return refusal{problem: problemDigestMismatch, err: err}
	case errors.As(err, &tooLarge):
		return refusal{problem: problemBodyTooLarge, err: err}
	}
	return refusal{problem: problemBodyUnread, err: err}
}
