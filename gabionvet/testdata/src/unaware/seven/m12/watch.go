package m12

import (
	"context"
	"log"
	"time"
)

type lister interface {
	List(ctx context.Context) ([]string, error)
}

func Sync(ctx context.Context, l lister, apply func([]string)) {
	for {
		names, err := l.List(ctx)
		if err != nil {
			log.Printf("list: %v, again in 5s", err)
			time.Sleep(5 * time.Second)
			continue
		}
		apply(names)
		return
	}
}
