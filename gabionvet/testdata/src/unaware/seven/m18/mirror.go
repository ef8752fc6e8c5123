package m18

import (
	"context"
	"io"
	"net/http"
	"os"
	"path"
)

func Mirror(ctx context.Context, hc *http.Client, urls []string, dir string) error {
	for _, u := range urls {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, u, nil)
		if err != nil {
			return err
		}
		resp, err := hc.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		f, err := os.Create(path.Join(dir, path.Base(u)))
		if err != nil {
			return err
		}
		if _, err := io.Copy(f, resp.Body); err != nil {
			f.Close()
			return err
		}
		if err := f.Close(); err != nil {
			return err
		}
	}
	return nil
}
