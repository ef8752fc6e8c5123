package idempotency

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

var errConsumed = errors.New("idempotency: a layer outside has read the request's body (ParseForm, ParseMultipartForm, io.ReadAll): put the Handler outside of it, or give the body back")

// consumed reports whether another layer has read some of the request's body before, so
// that a fingerprint of the rest would not tell requests apart. A body of known length was
// read to that length. Of any other body it depends on its type and on what was parsed.
func consumed(r *http.Request, body []byte) bool {
	switch {
	case len(body) == 0 && hasForm(r):
		return true
	case r.ContentLength >= 0:
		return false
	}
	switch kind, params, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); {
	case kind == "application/x-www-form-urlencoded" && r.PostForm != nil:
		form, _ := url.ParseQuery(string(body)) // as ParseForm, which keeps what it understands
		return !maps.EqualFunc(form, r.PostForm, slices.Equal[[]string])
	case isMultipart(kind) && r.MultipartForm != nil:
		return !bytes.HasPrefix(body, []byte("--"+params["boundary"]))
	}
	// A client without a body sends no type of it.
	return len(body) == 0 && r.Header.Get("Content-Type") != ""
}

// hasForm reports whether a form was found in the request's body.
func hasForm(r *http.Request) bool {
	return len(r.PostForm) > 0 || r.MultipartForm != nil && len(r.MultipartForm.Value)+len(r.MultipartForm.File) > 0
}

// formRead reports whether a form was parsed from a body that can have one.
func formRead(r *http.Request) bool {
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	return kind == "application/x-www-form-urlencoded" && r.PostForm != nil || isMultipart(kind) && r.MultipartForm != nil
}

func isMultipart(kind string) bool { return strings.HasPrefix(kind, "multipart/") }

// tellConsumed logs once if there is no observer: a service that is put together like
// that refuses all of its requests.
func (h *Handler) tellConsumed(ctx context.Context, id ID) {
	if h.terms.Observer != nil {
		return
	}
	h.consumed.Do(func() {
		h.tellTo(ctx, LogTo(slog.Default()), Event{Kind: eventRefused, ID: id, Problem: problemBodyConsumed, Err: errConsumed})
	})
}
