package price

import (
	"context"
	"math/rand/v2"
	"time"
)

type quoter interface {
	Quote(ctx context.Context, sku string) (int, error)
}

type Prices struct{ q quoter }

func (p *Prices) Get(ctx context.Context, sku string) (cents int, err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	for i := 0; i < 3; i++ {
		cents, err = p.q.Quote(ctx, sku)
		if err == nil {
			return cents, nil
		}
		time.Sleep(rand.N(100 * time.Millisecond << i))
	}
	return 0, err
}
