package m04

import (
	"context"
	"database/sql"
	"errors"
	"time"
)

type Price struct {
	SKU   string
	Cents int64
}

type Cache interface {
	Get(ctx context.Context, key string) (int64, bool)
	Set(ctx context.Context, key string, v int64, ttl time.Duration)
}

type Prices struct {
	db    *sql.DB
	cache Cache
}

var ErrUnknown = errors.New("prices: no such SKU")

func (p *Prices) Of(ctx context.Context, sku string) (Price, error) {
	if cents, ok := p.cache.Get(ctx, sku); ok {
		return Price{sku, cents}, nil
	}
	return p.load(ctx, sku)
}

func (p *Prices) load(ctx context.Context, sku string) (Price, error) {
	qctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	pr := Price{SKU: sku}
	err := p.db.QueryRowContext(qctx, `SELECT cents FROM prices WHERE sku = $1`, sku).Scan(&pr.Cents)
	if errors.Is(err, sql.ErrNoRows) {
		return pr, ErrUnknown
	}
	if err != nil {
		return pr, err
	}
	p.cache.Set(ctx, sku, pr.Cents, time.Minute)
	return pr, nil
}
