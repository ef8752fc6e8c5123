package idempotency

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/gabion-go/gabion/internal/idemkey"
)

// An input is what a request says to the Handler.
type input struct {
	found  bool // there is a key
	claim  Claim
	body   []byte
	stream *streamedBody // the body, when it is too large to be read before the claim
}

// read reads key, scope and body. Nothing is stored until all are sound.
func (h *Handler) read(w http.ResponseWriter, r *http.Request) (in input, no *refusal) {
	key, found, err := h.key(r)
	switch {
	case err != nil:
		return in, &refusal{problem: problemMalformed, err: err}
	case !found && h.config.Optional:
		return in, nil
	case !found:
		return in, &refusal{problem: problemMissing}
	case h.config.RejectExpired && h.expired(key):
		return in, &refusal{problem: problemKeyExpired}
	}
	scope := h.scope(r)
	if scope == "" {
		return in, &refusal{problem: problemNoScope}
	}
	said, no := h.digest(r)
	if no != nil {
		return in, no
	}
	if in.body, in.stream, no = h.readBody(r, said); no != nil {
		return in, no
	}
	h.echo(w, r)
	in.found = true
	if in.stream != nil {
		in.claim = h.claimOf(IDOf(scope, key), h.prints.ofDigest(r, said))
	} else {
		in.claim = h.claimOf(IDOf(scope, key), h.prints.of(r, in.body))
	}
	return in, nil
}

var errTwoKeys = errors.New("idempotency: more than one key")

// key finds the key in the headers that may hold it. Two lines of one header are
// refused, as are two headers that differ.
func (h *Handler) key(r *http.Request) (key string, found bool, err error) {
	for _, name := range h.config.Headers {
		lines := r.Header[name]
		if len(lines) == 0 {
			continue
		}
		if len(lines) > 1 {
			return "", true, errTwoKeys
		}
		k, err := ParseKey(lines[0])
		if err != nil {
			return "", true, err
		}
		if found && k != key {
			return "", true, errTwoKeys
		}
		key, found = k, true
	}
	return key, found, nil
}

// echo puts the request's key into the response, as it came: it is well formed.
func (h *Handler) echo(w http.ResponseWriter, r *http.Request) {
	for _, name := range h.config.Headers {
		if lines := r.Header[name]; len(lines) > 0 {
			w.Header()[headerKey] = lines[:1:1]
			return
		}
	}
}

func (h *Handler) expired(key string) bool {
	made, ok := idemkey.MadeAt(key)
	return ok && time.Since(made) > h.config.Retention
}

// digest reads what the request says of its body, where that counts.
func (h *Handler) digest(r *http.Request) (d digest, no *refusal) {
	if h.config.MaxStreamedBody == 0 {
		return d, nil
	}
	d, err := parseDigest(r.Header[headerDigest])
	if err != nil {
		return d, &refusal{problem: problemDigestMalformed, err: err}
	}
	return d, nil
}

// readBody reads the body and verifies it. A larger one whose digest is said is left to
// be streamed.
func (h *Handler) readBody(r *http.Request, said digest) ([]byte, *streamedBody, *refusal) {
	most := h.config.MaxRequestBody
	var body []byte
	var err error
	switch {
	case r.Body == nil || r.Body == http.NoBody || r.ContentLength == 0:
	case r.ContentLength > most:
		return h.streamBody(nil, r, said)
	default:
		body, err = readAll(r.Body, r.ContentLength, most)
	}
	switch {
	case err == errShort && (len(body) == 0 || formRead(r)):
		return nil, nil, &refusal{problem: problemBodyConsumed, err: errConsumed}
	case err != nil:
		no := faultOf(err) // a layer outside may bound the body, too
		return nil, nil, &no
	case int64(len(body)) > most:
		return h.streamBody(body, r, said)
	case consumed(r, body):
		return nil, nil, &refusal{problem: problemBodyConsumed, err: errConsumed}
	case said.known() && !said.of(body):
		return nil, nil, &refusal{problem: problemDigestMismatch, err: ErrDigest}
	}
	return body, nil, nil
}

// streamBody leaves a body to be streamed, of which some was read to learn its length.
func (h *Handler) streamBody(read []byte, r *http.Request, said digest) ([]byte, *streamedBody, *refusal) {
	if !said.known() || r.ContentLength > h.config.MaxStreamedBody {
		return nil, nil, &refusal{problem: problemBodyTooLarge}
	}
	if formRead(r) {
		return nil, nil, &refusal{problem: problemBodyConsumed, err: errConsumed}
	}
	return nil, newStreamed(read, r, said, h.config.MaxStreamedBody), nil
}

// errShort ends a body that is shorter than its length, and did not break off: that
// the server tells with errors of its own.
var errShort = errors.New("idempotency: the request's body is shorter than its length")

// readAll reads up to one byte more than most. It reads the end itself even where the length
// says where it must be: over HTTP/2 the end brings the trailers, and a layer that unpacked the
// body may have left the length as it was.
func readAll(from io.Reader, length, most int64) ([]byte, error) {
	room := length + 1
	if length < 0 {
		room = bytes.MinRead
	}
	body := make([]byte, 0, room)
	for {
		n, err := from.Read(body[len(body):min(int64(cap(body)), most+1)])
		body = body[:len(body)+n]
		switch {
		case err == io.EOF && int64(len(body)) < length:
			return body, errShort
		case err == io.EOF:
			return body, nil
		case err != nil:
			return nil, err
		case int64(len(body)) > most:
			return body, nil
		case len(body) == cap(body):
			body = append(body, 0)[:len(body)]
		}
	}
}

// A replayedBody is a request body that was read before.
type replayedBody struct{ bytes.Reader }

// Close implements [io.Closer].
func (*replayedBody) Close() error { return nil }

// request returns the request for the handler, with its body to be read again, or for
// the first time if it is streamed.
func (in *input) request(ctx context.Context, r *http.Request, body *replayedBody) *http.Request {
	r = r.WithContext(ctx)
	if in.stream != nil {
		r.Body = in.stream
		return r
	}
	r.Body, r.ContentLength = http.NoBody, int64(len(in.body))
	if len(in.body) > 0 {
		body.Reset(in.body)
		r.Body = body
		r.TransferEncoding = nil
	}
	return r
}
