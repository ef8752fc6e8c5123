package m12

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"time"
)

type Directory interface {
	Lookup(ctx context.Context, name string) (string, error)
}

func retryable(err error) bool {
	var ne net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &ne) && ne.Timeout()
}

func Lookup(ctx context.Context, d Directory, name string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	var err error
	for i := 0; i < 5; i++ {
		var v string
		if v, err = d.Lookup(ctx, name); err == nil || !retryable(err) {
			return v, err
		}
		time.Sleep(100*time.Millisecond + rand.N(100*time.Millisecond))
	}
	return "", err
}
