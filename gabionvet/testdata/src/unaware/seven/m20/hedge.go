package m20

import (
	"context"
	"time"
)

type Reply struct{ Body []byte }

type call func(ctx context.Context) (*Reply, error)

func Hedged(ctx context.Context, f call, after time.Duration) (*Reply, error) {
	type result struct {
		r   *Reply
		err error
	}
	ch := make(chan result)
	run := func() {
		r, err := f(ctx)
		ch <- result{r, err}
	}
	go run()
	select {
	case got := <-ch:
		return got.r, got.err
	case <-time.After(after):
		go run()
	}
	got := <-ch
	return got.r, got.err
}
