package m26

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gabion-go/gabion"
)

type Geo struct {
	dep  *gabion.Dependency
	find func(context.Context, string) (string, error)
}

func (g *Geo) Locate(ctx context.Context, ip string) (string, error) {
	for i := 0; i < 3; i++ {
		city, err := gabion.Do(ctx, g.dep, func(context.Context) (string, error) {
			return g.find(ctx, ip)
		})
		if err == nil {
			return city, nil
		}
		if errors.Is(err, context.Canceled) {
			return "", err
		}
		time.Sleep(time.Second)
	}
	return "", fmt.Errorf("locate %s failed", ip)
}
