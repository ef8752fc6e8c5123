package m10

import (
	"context"
	"errors"
	"time"
)

type Quote struct{ Price float64 }

func First(fetch func() (Quote, error), limit time.Duration) (Quote, error) {
	done := make(chan Quote)
	fail := make(chan error)
	go func() {
		q, err := fetch()
		if err != nil {
			fail <- err
			return
		}
		done <- q
	}()
	select {
	case q := <-done:
		return q, nil
	case err := <-fail:
		return Quote{}, err
	case <-time.After(limit):
		return Quote{}, errors.Join(context.DeadlineExceeded)
	}
}
