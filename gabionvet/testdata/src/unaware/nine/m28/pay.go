package pay

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"
)

type Params struct {
	Key    string
	Amount int64
}

type Payer interface {
	Pay(ctx context.Context, p Params) (string, error)
}

type Order struct {
	ID    string
	Cents int64
}

func Settle(ctx context.Context, p Payer, o Order) (id string, err error) {
	for attempt := 1; attempt <= 3; attempt++ {
		id, err = p.Pay(ctx, Params{
			Key:    fmt.Sprintf("%s-%d", o.ID, attempt),
			Amount: o.Cents,
		})
		if err == nil {
			return id, nil
		}
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case <-time.After(rand.N(time.Duration(attempt) * time.Second)):
		}
	}
	return "", err
}
