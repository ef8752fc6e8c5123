package consumer

import (
	"context"
	"encoding/json"
	"log"
)

type Message interface {
	Body() []byte
	Ack() error
	Nack(requeue bool) error
}

type Subscription interface {
	Next(ctx context.Context) (Message, error)
}

type Order struct{ ID string }

type Worker struct {
	sub  Subscription
	ship func(context.Context, Order) error
}

func (w *Worker) Run(ctx context.Context) error {
	for {
		msg, err := w.sub.Next(ctx)
		if err != nil {
			return err
		}
		if err := msg.Ack(); err != nil {
			log.Printf("ack: %v", err)
		}
		w.process(ctx, msg)
	}
}

func (w *Worker) process(ctx context.Context, msg Message) {
	var o Order
	if err := json.Unmarshal(msg.Body(), &o); err != nil {
		log.Printf("order: %v", err)
		return
	}
	if err := w.ship(ctx, o); err != nil {
		log.Printf("ship %s: %v", o.ID, err)
	}
}
