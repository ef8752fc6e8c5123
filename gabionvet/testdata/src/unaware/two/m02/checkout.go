package m02

import (
	"context"
	"errors"
	"log"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/policy"
)

type Order struct {
	ID    string
	Cents int64
}

type Charger interface {
	Charge(ctx context.Context, o Order) (string, error)
}

type Checkout struct {
	payments *gabion.Dependency
	bank     Charger
}

func (c *Checkout) Pay(ctx context.Context, o Order) (string, error) {
	id, err := c.charge(ctx, o)
	if errors.Is(err, policy.OutcomeUnknown) {
		log.Printf("order %s: outcome unknown, trying again", o.ID)
		id, err = c.charge(ctx, o)
	}
	return id, err
}

func (c *Checkout) charge(ctx context.Context, o Order) (string, error) {
	return gabion.Do(ctx, c.payments, func(ctx context.Context) (string, error) {
		return c.bank.Charge(ctx, o)
	})
}
