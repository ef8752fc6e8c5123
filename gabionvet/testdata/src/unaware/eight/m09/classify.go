package m09

import (
	"context"
	"math/rand/v2"
	"strings"
	"time"
)

type Call func(ctx context.Context) error

func isRetryable(err error) bool {
	return strings.Contains(err.Error(), "timeout") ||
		strings.Contains(err.Error(), "canceled")
}

func Retry(ctx context.Context, f Call) error {
	delay := 50 * time.Millisecond
	for i := 0; ; i++ {
		err := f(ctx)
		if err == nil || !isRetryable(err) || i == 7 {
			return err
		}
		time.Sleep(delay + rand.N(delay))
		delay *= 2
	}
}
