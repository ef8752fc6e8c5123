package m11

import (
	"context"
	"errors"
	"time"
)

type issuer interface {
	Token(ctx context.Context, audience string) (string, error)
}

func Fetch(ctx context.Context, i issuer, audience string) (string, error) {
	for n := 0; n < 6; n++ {
		tok, err := i.Token(ctx, audience)
		if err == nil {
			return tok, nil
		}
		time.Sleep(time.Duration(1<<n) * time.Second)
	}
	return "", errors.New("no token")
}
