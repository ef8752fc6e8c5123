package gabionproxy

import (
	"errors"
	"io"
	"maps"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/gabion-go/gabion/internal/adapter"
)

// What a proxy remembers of request bodies.
const (
	defaultReplayAll = 64 << 20 // of all requests together
	firstReplay      = 4 << 10  // what a body of unknown length begins with
)

// Why a body can't be sent again.
var (
	errReplayOff      = errors.New("nothing is remembered of requests")
	errReplayOver     = errors.New("the body is over the limit of what is remembered of a request")
	errReplayFull     = errors.New("what is remembered of all requests together is at its limit")
	errReplayAccepted = errors.New("an answer was accepted")
)

// replays are the bodies that a process remembers. The zero value remembers nothing.
type replays struct {
	most     atomic.Int64 // bytes of all bodies together
	used     atomic.Int64
	over     atomic.Int64 // bodies that were over their limit
	full     atomic.Int64 // bodies for which there was no room
	repeated atomic.Int64 // bodies that were handed out again
}

// bound sets how many bytes may be kept of all bodies together. Zero means the default.
func (p *replays) bound(most int) {
	if most == 0 {
		most = defaultReplayAll
	}
	p.most.Store(int64(most))
}

// take reserves n bytes, or none.
func (p *replays) take(n int) bool {
	if p.used.Add(int64(n)) <= p.most.Load() {
		return true
	}
	p.used.Add(-int64(n))
	return false
}

// A replay is a request's body that is remembered while it streams, so that it can be sent
// again. The first attempt does not wait for that and does not fail for it: when more went
// by than may be kept, the body streams on and can't be sent again.
//
// Attempts follow each other. Each has a reader of its own, that begins at the body's
// first byte, and with the next reader the one before is over. Whichever reader needs
// bytes that were not read yet reads them for all: one that is over by then leaves them to
// its successor. So no two attempts read the client's bytes at once, and none is lost.
type replay struct {
	from io.Reader
	pool *replays
	most int // bytes to keep: the limit, or what the client says that there are

	mu      sync.Mutex // guards all below; not held while from is read
	come    sync.Cond  // a read of from ended, or a reader did
	kept    []byte     // what was read, from base on
	base    int64
	taken   int   // of the pool
	err     error // with which the body ended
	reading bool  // one reader reads from
	now     *replayReader
	first   replayReader
	lost    error // why there is no further reader
	ended   bool

	trailer http.Header // of the request to the server
	filled  bool        // with what the client sent
	said    http.Header // of the client's request: net/http fills it when from comes to its end
}

// remember returns the body of a request to a server, to be sent up to limit bytes again.
// It must be ended.
func (p *replays) remember(r *http.Request, limit int) *replay {
	a, _ := r.Body.(*atHand)
	var b *replay
	if a != nil && a.again.pool == nil {
		b = &a.again
	} else {
		b = new(replay)
	}
	b.from, b.pool, b.most = r.Body, p, limit
	b.come.L = &b.mu
	size := r.ContentLength
	here := a != nil && a.whole(size)
	switch {
	case limit <= 0:
		b.lost = errReplayOff
	case size > int64(limit):
		b.lose(errReplayOver)
	case size < 0:
	case here && p.take(int(size)):
		b.taken = int(size)
	default:
		if b.most = int(size); !b.grow(b.most + 1) {
			b.lose(errReplayFull)
		}
	}
	if here && (b.lost != nil || b.taken == int(size)) { // in memory with the request, whether it may be sent again or not
		b.kept, b.err = a.bytes, a.err
	}
	return b
}

// attach makes b the body of a request that goes out.
func (b *replay) attach(out *http.Request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	out.Body, out.GetBody = b.next(), b.again
	if len(out.Trailer) == 0 {
		return
	}
	b.said, b.trailer = out.Trailer, make(http.Header, len(out.Trailer))
	for name := range b.said {
		b.trailer[name] = nil
	}
	out.Trailer = b.trailer
}

// fill completes the trailers, when a reader has come to the body's end that is not over. So they are the same while the headers of an
// attempt are written: an attempt that is over may read the client's last bytes just then.
func (b *replay) fill() {
	if b.trailer != nil && !b.filled {
		b.filled = true
		maps.Copy(b.trailer, b.said)
	}
}

// again is the request's GetBody.
func (b *replay) again() (io.ReadCloser, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.lost != nil {
		return nil, b.lost
	}
	b.pool.repeated.Add(1)
	return b.next(), nil
}

// next is called with the lock.
func (b *replay) next() *replayReader {
	if b.now = &b.first; b.first.b != nil {
		b.now = new(replayReader)
	}
	b.now.b = b
	b.come.Broadcast()
	return b.now
}

// accept frees what is kept: an answer goes to the client, and nothing is sent again. It
// reports whether the body has come to its end.
func (b *replay) accept() (whole bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.lost == nil {
		b.lost = errReplayAccepted
	}
	b.trim()
	return b.err == io.EOF
}

// end frees everything. It reports whether a reader is still waiting for the client, whose
// connection would then not be done with.
func (b *replay) end() (waits bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.lost == nil {
		b.lost = errReplayAccepted
	}
	b.ended, b.now = true, nil
	b.free()
	b.come.Broadcast()
	return b.reading
}

// lose ends the remembering. It is called with the lock, or before there are readers.
func (b *replay) lose(why error) {
	b.lost = why
	if why == errReplayFull {
		b.pool.full.Add(1)
	} else {
		b.pool.over.Add(1)
	}
}

// trim frees what is kept when the reader has had it and no other will want it.
func (b *replay) trim() {
	if b.lost != nil && (b.now == nil || b.now.at == b.base+int64(len(b.kept))) {
		b.free()
	}
}

func (b *replay) free() {
	b.base += int64(len(b.kept))
	b.kept = nil
	b.pool.used.Add(-int64(b.taken))
	b.taken = 0
}

// grow makes room for n bytes in all.
func (b *replay) grow(n int) bool {
	if !b.pool.take(n - b.taken) {
		return false
	}
	b.taken = n
	kept := make([]byte, len(b.kept), n)
	copy(kept, b.kept)
	b.kept = kept
	return true
}

// room is where to read the next bytes to. None means that they are not remembered. There is
// room for one byte more than is kept: only that shows that a body is longer.
func (b *replay) room() []byte {
	if b.lost == nil && len(b.kept) == cap(b.kept) && !b.grow(min(max(2*cap(b.kept), firstReplay), b.most+1)) {
		b.lose(errReplayFull)
	}
	if b.lost != nil {
		return nil
	}
	return b.kept[len(b.kept):cap(b.kept)]
}

// broken returns the error with which the client's body broke off, if it did.
func (b *replay) broken() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err == io.EOF || b.err == adapter.ErrBodyOver {
		return nil
	}
	return b.err
}

// Fixed implements [adapter.Replay].
func (b *replay) Fixed() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.lost
}

// Whole implements [adapter.Replay].
func (b *replay) Whole() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.err == io.EOF
}

// A replayReader is the body of one attempt.
type replayReader struct {
	b  *replay
	at int64
}

var _ adapter.Replay = (*replayReader)(nil)

// Fixed implements [adapter.Replay].
func (r *replayReader) Fixed() error { return r.b.Fixed() }

// Whole implements [adapter.Replay].
func (r *replayReader) Whole() bool { return r.b.Whole() }

// Read hands out what is kept, and then what comes.
func (r *replayReader) Read(p []byte) (int, error) {
	b := r.b
	b.mu.Lock()
	defer b.mu.Unlock()
	for {
		switch behind := b.base + int64(len(b.kept)) - r.at; {
		case b.now != r:
			return 0, adapter.ErrBodyOver
		case len(p) == 0:
			return 0, nil
		case behind > 0:
			n := copy(p, b.kept[r.at-b.base:])
			r.at += int64(n)
			b.trim()
			return n, nil
		case b.err != nil:
			if b.err == io.EOF {
				b.fill()
			}
			return 0, b.err
		case b.reading:
			b.come.Wait()
			continue
		}
		room := b.room()
		if room == nil {
			b.trim()
			n, err := b.read(p)
			r.at += int64(n)
			b.base += int64(n)
			if err == io.EOF && b.now == r {
				b.fill()
			}
			return n, err
		}
		n, _ := b.read(room[:min(len(room), len(p))])
		b.put(room[:n])
	}
}

// read reads once, without the lock.
func (b *replay) read(p []byte) (n int, err error) {
	b.reading = true
	b.mu.Unlock()
	err = adapter.ErrBodyOver // unless the source says otherwise, and does not panic
	defer func() {
		b.mu.Lock()
		b.reading, b.err = false, err
		b.come.Broadcast()
	}()
	n, err = b.from.Read(p)
	return n, err
}

// put keeps what was read into the room behind kept, which may have been freed since.
func (b *replay) put(p []byte) {
	if b.ended {
		return
	}
	b.kept = append(b.kept, p...) // onto itself where nothing was freed
	if b.lost == nil && len(b.kept) > b.most {
		b.lose(errReplayOver)
	}
}

// Close ends the reader, and a Read that waits in it for another's.
func (r *replayReader) Close() error {
	r.b.mu.Lock()
	defer r.b.mu.Unlock()
	if r.b.now == r {
		r.b.now = nil
		r.b.trim()
		r.b.come.Broadcast()
	}
	return nil
}
