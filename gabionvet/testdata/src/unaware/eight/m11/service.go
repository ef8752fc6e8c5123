package m11

import (
	"context"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/policy"
)

type Users struct {
	load func(context.Context, string) (string, error)
}

func (u *Users) dep() *gabion.Dependency {
	return gabion.New("users", policy.Policy{})
}

func (u *Users) Name(ctx context.Context, id string) (string, error) {
	return gabion.Do(ctx, u.dep(), func(ctx context.Context) (string, error) {
		return u.load(ctx, id)
	})
}

func (u *Users) Names(ctx context.Context, d *gabion.Dependency, ids []string) []string {
	var out []string
	for _, id := range ids {
		name, err := gabion.Do(context.Background(), d, func(ctx context.Context) (string, error) {
			return u.load(ctx, id)
		})
		if err != nil {
			continue
		}
		out = append(out, name)
	}
	return out
}
