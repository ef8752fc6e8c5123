package m03

import (
	"context"
	"errors"
	"time"
)

type PayRequest struct {
	Key    string
	Amount int64
}

type Gateway interface {
	Capture(ctx context.Context, r *PayRequest) (string, error)
}

type Checkout struct {
	gw    Gateway
	newID func() string
}

func (c *Checkout) Pay(ctx context.Context, amount int64) (string, error) {
	for range 3 {
		id, err := c.capture(ctx, amount)
		if err == nil {
			return id, nil
		}
		if !errors.Is(err, context.DeadlineExceeded) {
			return "", err
		}
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
	return "", errors.New("capture timed out")
}

func (c *Checkout) capture(ctx context.Context, amount int64) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	return c.gw.Capture(ctx, &PayRequest{Key: c.newID(), Amount: amount})
}
