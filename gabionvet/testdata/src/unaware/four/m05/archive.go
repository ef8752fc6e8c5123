// Package p05 reads signed contracts from the document archive.
package m05

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"
)

var ErrNotFound = errors.New("no such document")

// Document is a document of the archive. Its body has to be closed.
type Document struct {
	Type string
	Size int64
	Body io.ReadCloser
}

type Archive struct {
	base  string
	limit time.Duration
	http  *http.Client
}

func New(base string) *Archive {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.ResponseHeaderTimeout = 5 * time.Second
	return &Archive{base: base, limit: 30 * time.Second, http: &http.Client{Transport: t}}
}

// Open returns a document for a download by the customer.
func (a *Archive) Open(ctx context.Context, id string) (*Document, error) {
	ctx, cancel := context.WithTimeout(ctx, a.limit)
	defer cancel()

	resp, err := a.get(ctx, "/documents/"+url.PathEscape(id))
	if err != nil {
		return nil, fmt.Errorf("document %s: %w", id, err)
	}
	return &Document{
		Type: resp.Header.Get("Content-Type"),
		Size: resp.ContentLength,
		Body: resp.Body,
	}, nil
}

// Bundle returns all documents of a case as one archive file, which may take minutes.
func (a *Archive) Bundle(ctx context.Context, caseID string) (io.ReadCloser, error) {
	ctx, cancel := context.WithTimeout(ctx, 4*a.limit)
	resp, err := a.get(ctx, "/cases/"+url.PathEscape(caseID)+"/bundle")
	if err != nil {
		cancel()
		return nil, fmt.Errorf("case %s: %w", caseID, err)
	}
	return &bounded{resp.Body, cancel}, nil
}

// Digest returns the checksum of a document as the archive delivers it.
func (a *Archive) Digest(ctx context.Context, id string) (sum [sha256.Size]byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, a.limit)
	defer cancel()

	resp, err := a.get(ctx, "/documents/"+url.PathEscape(id))
	if err != nil {
		return sum, fmt.Errorf("document %s: %w", id, err)
	}
	defer resp.Body.Close()
	h := sha256.New()
	if _, err := io.Copy(h, resp.Body); err != nil {
		return sum, fmt.Errorf("document %s: %w", id, err)
	}
	return [sha256.Size]byte(h.Sum(nil)), nil
}

// get returns an answer whose body is the caller's to close.
func (a *Archive) get(ctx context.Context, path string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, a.base+path, nil)
	if err != nil {
		return nil, err
	}
	resp, err := a.http.Do(req)
	if err != nil {
		return nil, err
	}
	switch resp.StatusCode {
	case http.StatusOK:
		return resp, nil
	case http.StatusNotFound:
		err = ErrNotFound
	default:
		err = errors.New(resp.Status)
	}
	resp.Body.Close()
	return nil, err
}

// bounded is a body whose time is over when it is closed.
type bounded struct {
	io.ReadCloser
	cancel context.CancelFunc
}

func (b *bounded) Close() error {
	defer b.cancel()
	return b.ReadCloser.Close()
}
