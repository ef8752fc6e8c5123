package m07

import (
	"context"
	"errors"
	"log"
	"time"
)

type Broker interface {
	Connect(ctx context.Context) error
}

func Connect(ctx context.Context, b Broker) error {
	ticker := time.NewTicker(2 * time.Second)
	defer ticker.Stop()
	for i := 0; i < 30; i++ {
		err := b.Connect(ctx)
		if err == nil {
			return nil
		}
		log.Printf("broker: %v", err)
		<-ticker.C
	}
	return errors.New("broker: not connected after a minute")
}
