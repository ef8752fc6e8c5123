// Package m01 makes thumbnails at an image server.
//
// Mistake: one goroutine for each image, with no bound. An album of 20,000
// images is 20,000 calls at once.
package m01

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"
)

type Images struct {
	client *http.Client
	base   string
}

func (s *Images) Album(ctx context.Context, ids []string) error {
	var wg sync.WaitGroup
	errs := make(chan error, len(ids))
	for _, id := range ids {
		wg.Add(1)
		go func() {
			defer wg.Done()
			if err := s.thumb(ctx, id); err != nil {
				errs <- err
			}
		}()
	}
	wg.Wait()
	close(errs)
	return <-errs
}

func (s *Images) thumb(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, s.base+"/thumbs/"+id, nil)
	if err != nil {
		return err
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode >= 300 {
		return fmt.Errorf("thumb %s: %s", id, resp.Status)
	}
	return nil
}
