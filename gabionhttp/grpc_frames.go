package gabionhttp

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"io"
)

// frames watches the frames of a body go by: a byte of flags, four of length, and as many as
// that. The frame with the flag is the last one, and tells how the call ended.
type frames struct {
	flag    byte   // zero means that there is no such frame
	packing string // of frames that are packed
	end     func(payload []byte)

	message bool // a frame that is not the last has begun
	unread  bool // the last frame can't be read
	head    [5]byte
	have    int    // of head
	left    uint32 // of the frame's payload
	kept    []byte // of the last frame
}

// longestEnd is how much of a last frame is kept. It has a code, a text and details.
const longestEnd = 16 << 10

// packed is the flag of a frame that is compressed.
const packed = 0x01

// rewind forgets what went by.
func (s *frames) rewind() { *s = frames{flag: s.flag, packing: s.packing, end: s.end} }

// see parses the bytes that the reader got.
func (s *frames) see(b []byte) {
	for len(b) > 0 {
		if s.have < len(s.head) {
			n := copy(s.head[s.have:], b)
			if s.have, b = s.have+n, b[n:]; s.have == len(s.head) {
				s.left = binary.BigEndian.Uint32(s.head[1:])
				s.message = s.message || !s.last()
				s.finish()
			}
			continue
		}
		n := min(uint64(len(b)), uint64(s.left))
		if s.last() && uint64(len(s.kept))+uint64(s.left) <= longestEnd {
			s.kept = append(s.kept, b[:n]...)
		}
		s.left, b = s.left-uint32(n), b[n:]
		s.finish()
	}
}

func (s *frames) last() bool { return s.head[0]&s.flag != 0 }

// finish ends a frame of which nothing is left.
func (s *frames) finish() {
	if s.left > 0 {
		return
	}
	if s.last() {
		s.tell()
	}
	s.have, s.kept = 0, nil
}

// tell hands on the last frame.
func (s *frames) tell() {
	payload := s.kept
	size := binary.BigEndian.Uint32(s.head[1:])
	if s.unread = size > longestEnd; s.unread {
		return
	}
	if s.head[0]&packed != 0 && size > 0 {
		var err error
		if payload, err = s.unpack(); err != nil {
			s.unread = true
			return
		}
	}
	s.end(payload)
}

// unpack returns the last frame as it was before it was compressed.
func (s *frames) unpack() ([]byte, error) {
	if s.packing != "gzip" {
		return nil, gzip.ErrHeader
	}
	r, err := gzip.NewReader(bytes.NewReader(s.kept))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(r, longestEnd))
}
