package gabionaws

import (
	"errors"
	"fmt"
	"io"
	"sync"

	smithyhttp "github.com/aws/smithy-go/transport/http"
)

var (
	errRewind = errors.New("the request's stream can't be rewound")
	errOver   = errors.New("gabionaws: stream read after its attempt was over")
)

// stream is what the request of a call sends, handed out once for each attempt. One that is
// an io.Seeker, as everything in memory is, is read by one attempt after the other: one whose
// connection is still being written when the next begins reads nothing more. Any other is
// sent once.
type stream struct {
	from  io.Reader
	fixed bool
	last  *turn
	sent  bool
}

func newStream(req *smithyhttp.Request) *stream {
	s := &stream{from: req.GetStream()}
	s.fixed = s.from != nil && !req.IsStreamSeekable()
	return s
}

// next is the request of an attempt, which the SDK clones.
func (s *stream) next(req *smithyhttp.Request) (*smithyhttp.Request, error) {
	if s.from == nil {
		return req, nil
	}
	if s.fixed {
		if s.sent {
			return nil, errRewind
		}
		s.sent = true
		return req, nil
	}
	if s.last != nil {
		s.last.end()
		if err := req.RewindStream(); err != nil {
			return nil, fmt.Errorf("%w: %w", errRewind, err)
		}
	}
	s.last = &turn{from: s.from.(io.ReadSeeker)}
	return req.SetStream(s.last)
}

// turn is a stream while one attempt has it.
type turn struct {
	mu   sync.Mutex
	from io.ReadSeeker
	over bool
}

// Read implements io.Reader.
func (t *turn) Read(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over {
		return 0, errOver
	}
	return t.from.Read(p)
}

// Seek implements io.Seeker.
func (t *turn) Seek(offset int64, whence int) (int64, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over {
		return 0, errOver
	}
	return t.from.Seek(offset, whence)
}

func (t *turn) end() { t.mu.Lock(); defer t.mu.Unlock(); t.over = true }
