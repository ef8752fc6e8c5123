package m19

import (
	"context"
	"time"
)

type jobs interface {
	Done(ctx context.Context, id string) (bool, error)
}

func Await(ctx context.Context, j jobs, id string) error {
	tick := time.Tick(time.Second)
	for {
		ok, err := j.Done(ctx, id)
		if ok {
			return nil
		}
		_ = err
		<-tick
	}
}
