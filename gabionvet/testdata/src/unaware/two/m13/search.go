package m13

import (
	"context"
	"io"

	"github.com/gabion-go/gabion"
	"github.com/hashicorp/go-retryablehttp"
)

type Search struct {
	dep *gabion.Dependency
	rc  *retryablehttp.Client
}

func New(dep *gabion.Dependency) *Search {
	rc := retryablehttp.NewClient()
	rc.RetryMax = 5
	return &Search{dep: dep, rc: rc}
}

func (s *Search) Query(ctx context.Context, q string) ([]byte, error) {
	return gabion.Do(ctx, s.dep, func(ctx context.Context) ([]byte, error) {
		return s.query(ctx, q)
	})
}

func (s *Search) query(_ context.Context, q string) ([]byte, error) {
	resp, err := s.rc.Get("https://search.internal/?q=" + q)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	return io.ReadAll(resp.Body)
}
