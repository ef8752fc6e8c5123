package h1

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
)

// deliver makes the exchange the body of its answer, where that has one.
func (x *exchange) deliver(resp *http.Response, req *http.Request) *http.Response {
	resp.TLS = x.c.tls
	x.keep = !resp.Close && !req.Close && resp.StatusCode > 199
	switch {
	case resp.StatusCode == http.StatusSwitchingProtocols:
		if x.stop == nil {
			x.watch()
		}
		resp.Body = &switched{x, x.c}
	case resp.Body == http.NoBody:
		x.letGo(x.r.Buffered() == 0)
		x.free()
	default:
		x.in, resp.Body = resp.Body, x
		if n := resp.ContentLength; x.stop == nil && n <= readAhead {
			x.brief = true
			_, _ = x.r.Peek(int(max(n, 0))) // the rest of a short body, in what is left of the time without a watch
			x.brief = false
		}
		if n := resp.ContentLength; n >= 0 && int64(x.r.Buffered()) >= n && x.written(0) {
			x.letGo(int64(x.r.Buffered()) == n)
		} else if x.t.Whole != nil && n < 0 && len(resp.TransferEncoding) == 1 && resp.Trailer == nil {
			if all, _ := x.r.Peek(x.r.Buffered()); chunked(all) >= 0 {
				x.t.Whole(resp)
			}
		}
	}
	return resp
}

// chunked is the length of a body that is in memory to its end and no further, as chunks without extensions and trailers. It is -1 for all others.
func chunked(b []byte) (all int64) {
	for {
		line, rest, _ := bytes.Cut(b, crlf)
		switch size, err := strconv.ParseUint(string(line), 16, 16); {
		case err != nil:
			return -1
		case size == 0 && bytes.Equal(rest, crlf):
			return all
		case size == 0 || uint64(len(rest)) < size || !bytes.HasPrefix(rest[size:], crlf):
			return -1
		default:
			all += int64(size)
			b = rest[size+2:]
		}
	}
}

var crlf = []byte("\r\n")

// letGo gives the connection to the next request, if the exchange came to its end and both sides wish to.
func (x *exchange) letGo(whole bool) {
	c, fit := x.c, x.unwatch()
	x.c = nil
	if fit && whole && x.keep && x.written(afterAnswer) && x.wrong == nil {
		x.t.put(c)
		return
	}
	c.abort()
}

// free gives the reader back.
func (x *exchange) free() {
	x.r.Reset(nil)
	readers.Put(x.r)
	x.r = nil
}

var errClosed = errors.New("h1: read on closed response body")

// Read implements [io.Reader].
func (x *exchange) Read(p []byte) (int, error) {
	if err := x.begin(); err != nil {
		return 0, err
	}
	n, err := x.in.Read(p)
	x.mu.Lock()
	defer x.mu.Unlock()
	x.reading = false
	if err == nil {
		return n, nil
	}
	if err != io.EOF && x.ctx.Err() != nil {
		err = context.Cause(x.ctx)
	}
	if x.over { // closed under the reader's feet
		return n, err
	}
	x.over, x.end = true, err
	if x.c != nil {
		x.letGo(err == io.EOF && x.r.Buffered() == 0)
	}
	x.free()
	return n, err
}

func (x *exchange) begin() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.over {
		return x.end
	}
	x.reading = true
	return nil
}

// Close ends a Read. It does not read the rest of the body.
func (x *exchange) Close() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.over {
		x.end = errClosed
		return nil
	}
	x.over, x.end = true, errClosed
	if x.c != nil {
		x.letGo(false)
	}
	if !x.reading {
		x.free()
	}
	return nil
}

// switched is a connection whose server has left HTTP.
type switched struct {
	x *exchange
	c *conn
}

// Read implements [io.Reader].
func (s *switched) Read(p []byte) (int, error) { return s.x.r.Read(p) }

// Write implements [io.Writer].
func (s *switched) Write(p []byte) (int, error) { return s.c.Conn.Write(p) }

// Close implements [io.Closer].
func (s *switched) Close() error {
	s.x.stop()
	return s.c.Conn.Close()
}
