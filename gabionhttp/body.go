package gabionhttp

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/gabion-go/gabion/internal/adapter"
	"github.com/gabion-go/gabion/policy"
)

// defaultReplay is the most bytes of a body without GetBody that are kept.
const defaultReplay = 64 << 10

var (
	errBodyOver  = adapter.ErrBodyOver
	errBodyFixed = errors.New("gabionhttp: request body can't be sent again")
	errBodyLong  = errors.New("gabionhttp: request body is longer than its ContentLength")
	errBodyShort = errors.New("gabionhttp: request body is shorter than its ContentLength")
	errNoBody    = errors.New("gabionhttp: the request's GetBody returned neither a body nor an error")
)

// A body is the body of one call's request, handed out once per attempt. A nil or
// zero body is that of a request without one.
//
// Four kinds of body can be sent again: none at all; one with GetBody; one that is no
// longer than the limit; and one that is an io.Seeker, by one attempt after the other.
// Of those within the limit, a body of known length is read before the first attempt.
// One of unknown length may be a live stream, and reading ahead would hold it up, so it
// is copied while it is sent and can be sent again once its end was seen within the
// limit, or if none of it was read. Never more than the limit is kept.
//
// The original is closed exactly once, at the latest by close.
type body struct {
	get    func() (io.ReadCloser, error) // nil if the caller gave none
	limit  int
	size   int64          // as the caller declares it; less than 1 means that it is unknown
	many   bool           // attempts may be out at once, and outlive the call
	use    sync.Mutex     // held while the caller's GetBody runs or its bytes are read, if many
	plain  bool           // it is of net/http's own making, which sends it with the headers in one write
	owned  bool           // the original reads bytes of the caller's
	most   time.Duration  // how long a body may take that is read before anything is sent; zero means as long as the caller waits
	waited time.Duration  // for that
	replay adapter.Replay // nil unless get may come to give no more
	seek   io.Seeker
	start  int64 // where the body begins

	mu     sync.Mutex // guards all below; not held while the original is read
	orig   io.ReadCloser
	out    *original // the attempt that has the original, if any
	first  original
	begun  bool // some of the original was read
	closed bool // the original
	ended  bool // the original came to its end, so that kept is all of it
	over   bool // the original need not be kept, or is longer than the limit
	kept   []byte
	broke  bool // the caller's reader or GetBody failed
	reads  int  // how many are inside the original's Read
	done   bool // the call is over
}

// replayLimit returns the bytes that p allows to keep.
func replayLimit(p *policy.HTTP) int {
	switch {
	case p.ReplayLimit == 0:
		return defaultReplay
	case p.ReplayLimit < 0:
		return 0
	}
	return p.ReplayLimit
}

// hold takes over req's body, without changing req. A short body of known length
// is read now; the error is its reader's, and the body is closed then. It waits for that
// until the caller gives up, or for no longer than most: then the error is a policy.Reason.
func (b *body) hold(req *http.Request, limit int, many bool) error {
	if !hasBody(req) {
		return nil
	}
	b.orig, b.get, b.limit, b.size, b.many = req.Body, req.GetBody, limit, req.ContentLength, many
	if b.get != nil {
		b.replay, _ = req.Body.(adapter.Replay)
	}
	b.over = b.get != nil || req.ContentLength > int64(limit)
	b.owned = many && inMemory(req.Body)
	if size, ok := inHand(req.Body); ok && b.get != nil {
		switch b.plain = !many; {
		case req.ContentLength > int64(size):
			return errBodyShort
		case req.ContentLength > 0 && req.ContentLength < int64(size):
			return errBodyLong
		}
	}
	if b.get == nil && (b.over || req.ContentLength <= 0) {
		b.rewindable()
	}
	if b.over || req.ContentLength <= 0 {
		return nil
	}
	err := b.readAhead(req)
	b.close()
	return err
}

func hasBody(req *http.Request) bool { return req.Body != nil && req.Body != http.NoBody }

// attach gives req, which must be the attempt's own copy, a body of its own.
// GetBody stays set where the body can be sent again: net/http needs it to repeat
// what provably never left. It also repeats keyed requests on connections that
// died idle, which httpAttempt counts.
func (b *body) attach(req *http.Request) error {
	if b == nil || b.orig == nil {
		return nil
	}
	rc, err := b.next()
	if err != nil {
		return err
	}
	req.Body, req.GetBody = rc, nil
	if b.seek != nil || b.get != nil || b.repeatable() {
		req.GetBody = b.next
	}
	return nil
}

// next returns a body for one attempt, or errBodyFixed.
func (b *body) next() (io.ReadCloser, error) {
	if rc, err := b.mine(); rc != nil || err != nil {
		return rc, err
	}
	return b.another()
}

// mine returns a body without asking the caller for another copy, which is what it
// wants if it returns neither body nor error.
func (b *body) mine() (io.ReadCloser, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	used := b.begun || b.closed
	switch {
	case b.ended:
		return io.NopCloser(bytes.NewReader(b.kept)), nil // attempts share the bytes, which do not change
	case b.plain && !used:
		b.begun = true
		return b.orig, nil
	case b.get != nil && (b.out != nil || used):
		return nil, nil
	case used && !b.rewind():
		return nil, errBodyFixed
	}
	// An attempt that has not read yet, and may still try, comes too late now.
	if b.out = &b.first; b.first.b != nil {
		b.out = new(original)
	}
	b.out.b = b
	return b.out, nil
}

// fail remembers that the caller's reader failed, or its GetBody.
func (b *body) fail() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.broke = true
}

// broken reports whether the caller's reader failed, so that what came of the
// attempt says nothing about the dependency.
func (b *body) broken() bool {
	if b == nil {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.broke
}

// repeatable reports whether the body can be sent again whatever becomes of the
// attempt that has it. A hedge needs that.
func (b *body) repeatable() bool {
	if b == nil {
		return true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.replay != nil { // the next reader ends the one before
		return b.replay.Whole() && b.replay.Fixed() == nil
	}
	return b.orig == nil || b.get != nil || b.ended
}

// fixed reports whether the body can't be sent again now, after an attempt.
func (b *body) fixed() bool {
	if b == nil {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.replay != nil {
		return b.replay.Fixed() != nil
	}
	return b.orig != nil && b.get == nil && !b.ended && (b.begun || b.closed) && !b.canRewind()
}

// close closes the original if it is still open. The call is over.
func (b *body) close() {
	if b == nil {
		return
	}
	b.seal()
	b.mu.Lock()
	defer b.mu.Unlock()
	_ = b.closeLocked()
}

func (b *body) closeLocked() error {
	if b.orig == nil || b.closed {
		return nil
	}
	b.closed = true
	if b.reads > 0 {
		go b.free()
		return nil
	}
	return b.orig.Close()
}

// free closes the original while an attempt may still be reading it, which frees most readers,
// such as a pipe's. But closing the body of a server's request waits for its reader, and so for
// a client that may have stopped in the middle of its upload. No attempt holds its slot for
// that.
func (b *body) free() {
	defer func() { _ = recover() }() // of the caller's code, on a goroutine that is not the caller's
	b.orig.Close()
}

// An original hands the caller's own reader to one attempt, copying what goes
// by. An attempt that closes it unread leaves it for the next.
type original struct {
	b    *body
	size int64 // how much went by
}

func (o *original) Read(p []byte) (int, error) {
	if err := o.begin(); err != nil {
		return 0, err
	}
	n, err := 0, errBodyOver
	defer func() { o.keep(p[:n], err) }() // also when the reader panics
	if o.b.owned {
		n, err = o.b.readShared(o.b.orig, p)
	} else {
		n, err = o.b.orig.Read(p)
	}
	return n, err
}

// begin marks the original as used, before the first byte is asked for: a reader
// that is blocked must be freed by Close.
func (o *original) begin() error {
	o.b.mu.Lock()
	defer o.b.mu.Unlock()
	if o.b.out != o || o.b.closed {
		return errBodyOver
	}
	o.b.begun = true
	o.b.reads++
	return nil
}

// keep remembers what was read, unless that is needless or too much, in which
// case all of it is forgotten. A reader that fails because its attempt closed it
// did not fail by itself.
func (o *original) keep(p []byte, err error) {
	b := o.b
	b.mu.Lock()
	defer b.mu.Unlock()
	b.reads--
	o.size += int64(len(p))
	b.broke = b.broke || !b.closed && !b.done && err != errBodyOver && (err != nil && err != io.EOF || b.differs(o.size, err))
	if b.over || len(b.kept)+len(p) > b.limit {
		b.over, b.kept = true, nil
		return
	}
	b.kept = append(b.kept, p...)
	b.ended = b.ended || err == io.EOF
}

// Whole reports whether no Read waits. Only bodies that are remembered elsewhere can say so.
func (o *original) Whole() bool { return o.b.replay != nil && o.b.replay.Whole() }

func (o *original) Close() error {
	o.b.mu.Lock()
	defer o.b.mu.Unlock()
	if o.b.out != o {
		return nil
	}
	o.b.out = nil
	if !o.b.begun || o.b.seek != nil {
		return nil
	}
	return o.b.closeLocked()
}
