package once

import (
	"context"
	"errors"
)

var ErrNotFound = errors.New("not found")

type keys interface {
	lookup(ctx context.Context, key string) (string, error)
	insert(ctx context.Context, key, charge string) error
}

type gateway interface {
	Charge(ctx context.Context, card string, cents int) (string, error)
}

type Service struct {
	db keys
	gw gateway
}

func (s *Service) Charge(ctx context.Context, key, card string, cents int) error {
	switch _, err := s.db.lookup(ctx, key); {
	case err == nil:
		return nil
	case !errors.Is(err, ErrNotFound):
		return err
	}
	id, err := s.gw.Charge(ctx, card, cents)
	if err != nil {
		return err
	}
	return s.db.insert(ctx, key, id)
}
