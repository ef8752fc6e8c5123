package m24

import (
	"context"
	"log"
)

type Message struct {
	Body []byte
	Ack  func() error
	Nack func() error
}

type mailer interface {
	Send(ctx context.Context, body []byte) error
}

func Consume(ctx context.Context, in <-chan Message, m mailer) {
	for msg := range in {
		if err := msg.Ack(); err != nil {
			log.Print(err)
			continue
		}
		if err := m.Send(ctx, msg.Body); err != nil {
			log.Printf("send: %v", err)
		}
	}
}
