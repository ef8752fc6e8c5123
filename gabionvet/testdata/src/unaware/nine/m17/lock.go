package lock

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"
)

var ErrHeld = errors.New("held by another")

type Locker struct{ rdb *redis.Client }

func (l *Locker) With(ctx context.Context, name string, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	ok, err := l.rdb.SetNX(ctx, "lock:"+name, "1", 0).Result()
	if err != nil {
		return err
	}
	if !ok {
		return ErrHeld
	}
	defer l.rdb.Del(context.WithoutCancel(ctx), "lock:"+name)
	return f(ctx)
}
