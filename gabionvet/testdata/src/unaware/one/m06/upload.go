package m06

import (
	"context"
	"fmt"
	"io"
	"math/rand"
	"net/http"
	"time"
)

func Upload(ctx context.Context, hc *http.Client, url string, src io.Reader) error {
	body := io.NopCloser(src)
	var err error
	for i := 0; i < 3; i++ {
		var req *http.Request
		req, err = http.NewRequestWithContext(ctx, http.MethodPut, url, body)
		if err != nil {
			return err
		}
		var resp *http.Response
		resp, err = hc.Do(req)
		if err == nil {
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
			if resp.StatusCode < 300 {
				return nil
			}
			if resp.StatusCode < 500 {
				return fmt.Errorf("upload refused: %s", resp.Status)
			}
			err = fmt.Errorf("upload: %s", resp.Status)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Second + time.Duration(rand.Int63n(int64(time.Second)))):
		}
	}
	return err
}
