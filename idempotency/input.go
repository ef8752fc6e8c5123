package idempotency

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"time"
)

// An input is what a request says to the Handler.
type input struct {
	found bool // there is a key
	claim Claim
	body  []byte
}

// read reads key, scope and body. Nothing is stored until all are sound.
func (h *Handler) read(w http.ResponseWriter, r *http.Request) (in input, no *refusal) {
	key, found, err := h.key(r)
	switch {
	case err != nil:
		return in, &refusal{problem: Malformed, err: err}
	case !found && h.config.Optional:
		return in, nil
	case !found:
		return in, &refusal{problem: Missing}
	case h.config.RejectExpired && h.expired(key):
		return in, &refusal{problem: KeyExpired}
	}
	scope := h.scope(r)
	if scope == "" {
		return in, &refusal{problem: NoScope}
	}
	if in.body, no = h.readBody(r); no != nil {
		return in, no
	}
	h.echo(w, r)
	in.found = true
	in.claim = h.claimOf(IDOf(scope, key), h.prints.of(r, in.body))
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
			w.Header()[HeaderKey] = lines[:1:1]
			return
		}
	}
}

func (h *Handler) expired(key string) bool {
	made, ok := madeAt(key)
	return ok && time.Since(made) > h.config.Retention
}

func (h *Handler) readBody(r *http.Request) ([]byte, *refusal) {
	most := h.config.MaxRequestBody
	switch {
	case r.ContentLength > most:
		return nil, &refusal{problem: BodyTooLarge}
	case r.Body == nil || r.Body == http.NoBody || r.ContentLength == 0:
		return nil, nil
	}
	body, err := readAll(r.Body, r.ContentLength, most)
	switch {
	case err != nil:
		return nil, &refusal{problem: Unread, err: err}
	case int64(len(body)) > most:
		return nil, &refusal{problem: BodyTooLarge}
	}
	return body, nil
}

// readAll reads up to one byte more than most.
func readAll(from io.Reader, length, most int64) ([]byte, error) {
	if length < 0 {
		return io.ReadAll(io.LimitReader(from, most+1))
	}
	body := make([]byte, length)
	_, err := io.ReadFull(from, body)
	return body, err
}

// A replayedBody is a request body that was read before.
type replayedBody struct{ bytes.Reader }

// Close implements [io.Closer].
func (*replayedBody) Close() error { return nil }

// request returns the request for the handler, with its body to be read again.
func (in *input) request(ctx context.Context, r *http.Request, body *replayedBody) *http.Request {
	r = r.WithContext(ctx)
	r.Body, r.ContentLength = http.NoBody, int64(len(in.body))
	if len(in.body) > 0 {
		body.Reset(in.body)
		r.Body = body
		r.TransferEncoding = nil
	}
	return r
}
