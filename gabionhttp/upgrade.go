package gabionhttp

import "io"

// upgradedBody is the body of 101 Switching Protocols: a connection, which can be
// written to. What is spoken on it gabion does not know, so that it has no limits and
// its end is no failure. Its attempt lasts until it is closed or ends, without a slot.
type upgradedBody struct {
	*responseBody
	rw io.ReadWriteCloser
}

// Read receives from the other side of an upgraded connection.
func (b *upgradedBody) Read(p []byte) (int, error) {
	n, err := b.rw.Read(p)
	if err != nil {
		b.end(nil)
	}
	return n, err
}

// Write sends to the other side of an upgraded connection.
func (b *upgradedBody) Write(p []byte) (int, error) { return b.rw.Write(p) }

// halfCloser is an upgradedBody of a connection whose one direction can be closed.
type halfCloser struct {
	*upgradedBody
	half interface{ CloseWrite() error }
}

// CloseWrite says to the other side that no more will be sent.
func (b *halfCloser) CloseWrite() error { return b.half.CloseWrite() }

func upgrade(b *responseBody, rw io.ReadWriteCloser) io.ReadWriteCloser {
	up := &upgradedBody{b, rw}
	if half, ok := rw.(interface{ CloseWrite() error }); ok {
		return &halfCloser{up, half}
	}
	return up
}
