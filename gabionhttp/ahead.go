package gabionhttp

import (
	"context"
	"io"
	"net/http"
	"time"

	"github.com/gabion-go/gabion/policy"
)

// readAhead keeps all of a body of known length before anything is sent. A reader that is no
// memory may block for as long as it likes, so it has a goroutine of its own. When its time
// is over or the caller gives up, it is closed, which frees most readers, and left behind.
func (b *body) readAhead(req *http.Request) error {
	n := req.ContentLength
	b.begun, b.ended = true, true
	if _, ok := inHand(b.orig); ok {
		all, err := readAll(b.orig, n)
		b.kept = all
		return err
	}
	began := time.Now()
	b.reads++ // close must not wait for this read
	var all []byte
	var err error
	r := aside(func() {
		defer b.wasRead()
		all, err = readAll(b.orig, n)
	})
	var late <-chan time.Time
	if b.most > 0 {
		timer := time.NewTimer(b.most)
		defer timer.Stop()
		late = timer.C
	}
	select {
	case <-r.done:
		r.landed()
		b.kept, b.waited = all, time.Since(began)
		return err
	case <-req.Context().Done():
		return context.Cause(req.Context())
	case <-req.Cancel:
		return context.Canceled
	case <-late:
		return policy.CallTimeout
	}
}

func (b *body) wasRead() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.reads--
}

// readAll reads a body of n bytes to its end. That it is shorter or longer is noticed here.
func readAll(r io.Reader, n int64) ([]byte, error) {
	all := make([]byte, n)
	for at := 0; at < len(all); {
		m, err := r.Read(all[at:])
		switch at += m; {
		case err == io.EOF && at < len(all):
			return nil, errBodyShort
		case err != nil && err != io.EOF:
			return nil, err
		case err == io.EOF:
			return all, nil
		}
	}
	switch m, err := io.ReadFull(r, make([]byte, 1)); {
	case m > 0:
		return nil, errBodyLong
	case err != io.EOF:
		return nil, err
	}
	return all, nil
}
