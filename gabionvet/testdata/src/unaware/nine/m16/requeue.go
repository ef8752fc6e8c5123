package requeue

import (
	"context"
	"encoding/json"
	"log"
)

type delivery interface {
	Payload() []byte
	Ack() error
	Nack(requeue bool) error
}

type mail struct{ To, Text string }

type mailer struct {
	in   <-chan delivery
	send func(context.Context, mail) error
}

func (m *mailer) handle(ctx context.Context, p []byte) error {
	var x mail
	if err := json.Unmarshal(p, &x); err != nil {
		return err
	}
	return m.send(ctx, x)
}

func (m *mailer) run(ctx context.Context) {
	for d := range m.in {
		if err := m.handle(ctx, d.Payload()); err != nil {
			log.Printf("mail: %v", err)
			d.Nack(true)
			continue
		}
		d.Ack()
	}
}
