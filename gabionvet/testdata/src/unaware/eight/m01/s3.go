package m01

import (
	"context"
	"errors"
	"log"
	"os"
	"time"
)

type bucket interface {
	Put(ctx context.Context, key string, f *os.File) error
}

type Backup struct {
	b bucket
}

func (b *Backup) Store(ctx context.Context, key, name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	tries := 0
again:
	if err := b.b.Put(ctx, key, f); err != nil {
		tries++
		if tries >= 3 {
			return errors.Join(errors.New("backup"), err)
		}
		log.Printf("put %s: %v", key, err)
		time.Sleep(time.Second)
		goto again
	}
	return nil
}
