// Package hystrix is docs/migrate/hystrix.md: the same client with afex/hystrix-go and with
// gabion.
package hystrix

import (
	"context"
	"net/http"

	"github.com/afex/hystrix-go/hystrix"

	"github.com/gabion-go/gabion/examples/migrate/shop"
)

type before struct {
	shop shop.HTTP
	name string // hystrix knows circuits by a name, for the whole process
}

// Before is the client with hystrix-go.
func Before(name, base string, wire http.RoundTripper) shop.Client {
	hystrix.ConfigureCommand(name, hystrix.CommandConfig{
		Timeout:                1000, // milliseconds
		MaxConcurrentRequests:  10,
		RequestVolumeThreshold: 20,
		SleepWindow:            5000,
		ErrorPercentThreshold:  50,
	})
	return &before{name: name, shop: shop.HTTP{Base: base, Doer: &http.Client{Transport: wire}}}
}

// Price implements shop.Client.
func (b *before) Price(ctx context.Context, item string) (string, error) {
	prices := make(chan string, 2) // the work may go on when DoC has returned
	err := hystrix.DoC(ctx, b.name, func(ctx context.Context) error {
		price, err := b.shop.Price(ctx, item)
		if err == nil {
			prices <- price
		}
		return err
	}, func(context.Context, error) error {
		prices <- shop.OnRequest
		return nil
	})
	if err != nil {
		return "", err
	}
	return <-prices, nil
}

// Charge implements shop.Client.
func (b *before) Charge(ctx context.Context, order, key string) error {
	return hystrix.DoC(ctx, b.name, func(ctx context.Context) error {
		return b.shop.Charge(ctx, order, key)
	}, nil)
}
