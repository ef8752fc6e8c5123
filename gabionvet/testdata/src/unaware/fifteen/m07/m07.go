package m07

import (
	"context"
	"errors"
	"log/slog"
	"time"
)

// brokerMsg is the part of a JetStream message the consumer needs.
type brokerMsg interface {
	Data() []byte
	NumDelivered() int
	Ack() error
	NakWithDelay(d time.Duration) error
}

type deadLetters interface {
	Publish(ctx context.Context, data []byte, reason string) error
}

type paymentConsumer struct {
	handle      func(context.Context, []byte) error
	dead        deadLetters
	maxDeliver  int // ours; the broker itself redelivers without limit
	handleLimit time.Duration
}

func (c *paymentConsumer) Dispatch(ctx context.Context, m brokerMsg) error {
	err := c.run(ctx, m)
	if err == nil {
		return m.Ack()
	}
	if m.NumDelivered() < c.maxDeliver {
		return errors.Join(err, m.NakWithDelay(redeliverAfter(m)))
	}
	if perr := c.bury(ctx, m, err); perr != nil {
		slog.ErrorContext(ctx, "dead letter", "err", perr)
	}
	// WRONG: acknowledged although the dead-letter publish failed; in a broker hiccup the payment is in no queue any more
	return m.Ack()
}

// RIGHT
func (c *paymentConsumer) DispatchKept(ctx context.Context, m brokerMsg) error {
	err := c.run(ctx, m)
	if err == nil {
		return m.Ack()
	}
	if m.NumDelivered() < c.maxDeliver {
		return errors.Join(err, m.NakWithDelay(redeliverAfter(m)))
	}
	if perr := c.bury(ctx, m, err); perr != nil {
		slog.ErrorContext(ctx, "dead letter", "err", perr)
		return errors.Join(err, perr, m.NakWithDelay(redeliverAfter(m)))
	}
	return m.Ack()
}

func (c *paymentConsumer) run(ctx context.Context, m brokerMsg) error {
	ctx, cancel := context.WithTimeout(ctx, c.handleLimit)
	defer cancel()
	return c.handle(ctx, m.Data())
}

func (c *paymentConsumer) bury(ctx context.Context, m brokerMsg, cause error) error {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	return c.dead.Publish(ctx, m.Data(), cause.Error())
}

func redeliverAfter(m brokerMsg) time.Duration {
	return time.Second << min(m.NumDelivered(), 8)
}
