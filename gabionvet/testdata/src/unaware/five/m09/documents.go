// Package m09 reads documents.
//
// Mistake: get gives the answer to its caller and cancels the context of the
// request in the same moment. The body of a larger document is cut off with
// "context canceled".
package m09

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"
)

type Store struct {
	client *http.Client
	base   string
}

func (s *Store) get(ctx context.Context, path string) (*http.Response, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.base+path, nil)
	if err != nil {
		return nil, err
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		resp.Body.Close()
		return nil, fmt.Errorf("get %s: %s", path, resp.Status)
	}
	return resp, nil
}

func (s *Store) Document(ctx context.Context, id string, to io.Writer) error {
	resp, err := s.get(ctx, "/documents/"+id)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, err = io.Copy(to, resp.Body)
	return err
}
