package m12

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
)

type Charges interface {
	Create(ctx context.Context, key, customer string, cents int64) (string, error)
	Refund(ctx context.Context, charge string) error
}

type Renewals struct {
	charges Charges
	save    func(ctx context.Context, customer, charge string) error
}

func again[T any](ctx context.Context, times int, fn func(context.Context) (T, error)) (T, error) {
	var zero T
	var errs []error
	for i := range times {
		v, err := fn(ctx)
		if err == nil {
			return v, nil
		}
		errs = append(errs, err)
		select {
		case <-ctx.Done():
			return zero, errors.Join(append(errs, ctx.Err())...)
		case <-time.After(time.Duration(i+1) * 150 * time.Millisecond):
		}
	}
	return zero, errors.Join(errs...)
}

func (r *Renewals) Renew(ctx context.Context, customer string, cents int64) error {
	id, err := again(ctx, 3, func(ctx context.Context) (string, error) {
		return r.charge(ctx, customer, cents)
	})
	if err != nil {
		return fmt.Errorf("renew %s: %w", customer, err)
	}
	return r.save(ctx, customer, id)
}

func (r *Renewals) charge(ctx context.Context, customer string, cents int64) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	return r.charges.Create(ctx, uuid.NewString(), customer, cents)
}
