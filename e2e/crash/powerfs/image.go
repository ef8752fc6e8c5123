package powerfs

import "math/rand/v2"

// An Image is what a disk holds: file contents by name. The zero value is empty.
type Image map[string][]byte

// sector is what a disk writes as a whole.
const sector = 512

// A write is a change of a file that was not synced: bytes at an offset, or a new
// size if there are none.
type write struct {
	at   int64
	data []byte
}

// A content is a file's bytes, as readers see them and as the disk has them.
type content struct {
	live    []byte
	durable []byte
	pending []write // not synced, in their order
}

func (c *content) change(w write) {
	c.live = w.apply(c.live)
	c.pending = append(c.pending, w)
}

func (w write) apply(to []byte) []byte {
	if w.data == nil {
		return resized(to, w.at)
	}
	if end := w.at + int64(len(w.data)); end > int64(len(to)) {
		to = resized(to, end)
	}
	copy(to[w.at:], w.data)
	return to
}

func resized(b []byte, size int64) []byte {
	if size <= int64(len(b)) {
		return b[:size:size]
	}
	return append(b, make([]byte, size-int64(len(b)))...)
}

// sync brings everything to the disk.
func (c *content) sync() {
	for _, w := range c.pending {
		c.durable = w.apply(c.durable)
	}
	c.pending = nil
}

// forget is a sync that failed: the writes count as written and are not.
func (c *content) forget() { c.pending = nil }

// after returns what a power cut leaves.
func (c *content) after(draw *rand.Rand) []byte {
	left := append([]byte(nil), c.durable...)
	for _, w := range c.pending {
		if w.data == nil {
			if draw.IntN(2) == 0 {
				left = w.apply(left)
			}
			continue
		}
		for len(w.data) > 0 {
			n := min(int64(len(w.data)), sector-w.at%sector)
			if draw.IntN(2) == 0 {
				left = write{w.at, w.data[:n]}.apply(left)
			}
			w = write{w.at + n, w.data[n:]}
		}
	}
	return left
}
