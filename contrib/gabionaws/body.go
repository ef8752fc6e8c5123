package gabionaws

import (
	"io"
	"sync"

	"github.com/gabion-go/gabion"
)

// body is an answer's body. Most operations read and close theirs before the SDK returns;
// one that the caller reads keeps its attempt until then.
type body struct {
	io.ReadCloser

	mu sync.Mutex // guards what follows, and is not held while anything is read
	a  *gabion.Attempt
	at end
	by error
}

type end uint8

const (
	open end = iota
	over
)

// live gives the body the attempt that it belongs to.
func (b *body) live(a *gabion.Attempt) {
	b.mu.Lock()
	ended, by := b.at == over, b.by
	if !ended {
		b.a = a
	}
	b.mu.Unlock()
	if ended {
		a.Close(by)
	}
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	b.mu.Lock()
	a := b.a
	b.mu.Unlock()
	if a != nil {
		a.Expect()
		defer a.Arrived()
	}
	n, err := b.ReadCloser.Read(p)
	switch {
	case err == io.EOF:
		b.end(nil)
	case err != nil:
		b.end(err)
	}
	return n, err
}

// Close implements io.Closer.
func (b *body) Close() error {
	err := b.ReadCloser.Close()
	b.end(nil)
	return err
}

func (b *body) end(by error) {
	b.mu.Lock()
	a := b.a
	if b.at == open {
		b.at, b.by = over, by
	}
	b.a = nil
	b.mu.Unlock()
	if a != nil {
		a.Close(by)
	}
}
