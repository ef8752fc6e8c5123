package offset

import (
	"context"
	"log"
)

type Msg struct {
	Offset int64
	Value  []byte
}

type Reader interface {
	FetchMessage(ctx context.Context) (Msg, error)
	CommitMessages(ctx context.Context, msgs ...Msg) error
}

func Consume(ctx context.Context, r Reader, apply func(context.Context, []byte) error) error {
	for {
		m, err := r.FetchMessage(ctx)
		if err != nil {
			return err
		}
		if err := apply(ctx, m.Value); err != nil {
			log.Printf("offset %d: %v", m.Offset, err)
		}
		if err := r.CommitMessages(ctx, m); err != nil {
			return err
		}
	}
}
