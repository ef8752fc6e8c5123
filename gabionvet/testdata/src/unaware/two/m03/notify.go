package m03

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"
)

func Notify(ctx context.Context, hc *http.Client, hook, message string) error {
	tries := 0
again:
	tries++
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, hook, strings.NewReader(message))
	if err != nil {
		return err
	}
	resp, err := hc.Do(req)
	if err != nil {
		if tries < 5 {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(rand.N(2 * time.Second)):
			}
			goto again
		}
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("hook answered %s", resp.Status)
	}
	return nil
}
