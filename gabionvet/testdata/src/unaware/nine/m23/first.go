package first

import (
	"context"
	"errors"
	"io"
	"net/http"
)

type answer struct {
	b   []byte
	err error
}

func get(ctx context.Context, hc *http.Client, url string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, "GET", url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := hc.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	return io.ReadAll(resp.Body)
}

func First(ctx context.Context, hc *http.Client, mirrors []string) ([]byte, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	out := make(chan answer)
	for _, m := range mirrors {
		go func() {
			v, err := get(ctx, hc, m)
			out <- answer{v, err}
		}()
	}
	err := errors.New("no mirrors")
	for range mirrors {
		a := <-out
		if a.err == nil {
			return a.b, nil
		}
		err = a.err
	}
	return nil, err
}
