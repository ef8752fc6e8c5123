package m13

import (
	"fmt"
	"net/http"
	"net/url"
	"time"
)

func Subscribe(endpoint, email string) error {
	form := url.Values{"email": {email}}
	var lastErr error
	for i := 0; i < 3; i++ {
		resp, err := http.PostForm(endpoint, form)
		if err != nil {
			lastErr = err
			time.Sleep(time.Second)
			continue
		}
		defer resp.Body.Close()
		if resp.StatusCode == http.StatusOK {
			return nil
		}
		lastErr = fmt.Errorf("unexpected status: %s", resp.Status)
		time.Sleep(time.Second)
	}
	return lastErr
}
