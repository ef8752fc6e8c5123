package avast

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/avast/retry-go/v4"
)

func Register(ctx context.Context, hc *http.Client, url string) error {
	return retry.Do(
		func() error {
			req, err := http.NewRequestWithContext(ctx, http.MethodPut, url, nil)
			if err != nil {
				return err
			}
			resp, err := hc.Do(req)
			if err != nil {
				return err
			}
			defer resp.Body.Close()
			if resp.StatusCode >= 300 {
				return errors.New(resp.Status)
			}
			return nil
		},
		retry.Attempts(0),
		retry.Delay(time.Second),
	)
}
