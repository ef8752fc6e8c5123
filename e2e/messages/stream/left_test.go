package stream

import (
	"context"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/gabion-go/gabion/contrib/natsmsg"
	"github.com/gabion-go/gabion/e2e/messages/bad"
	"github.com/gabion-go/gabion/messages/consumer"
	"github.com/gabion-go/gabion/messages/message"
)

func TestEveryMessageHasItsEndThroughJetStream(t *testing.T) {
	bad.Ends(t, func(t *testing.T) bad.Broker {
		r := openRig(t, 1) // not beside other tests: it measures
		return bad.Broker{
			Publish: func(id, payload string) error {
				_, err := r.js.PublishMsg(t.Context(), &nats.Msg{Subject: "orders", Header: nats.Header{message.Key: {id}}, Data: []byte(payload)})
				return err
			},
			Consume: func(ctx context.Context, c *consumer.Consumer, work func(context.Context) error) error {
				return natsmsg.Consume(ctx, r.js, "ORDERS", "bank", c, work, natsmsg.Options{Grace: 200 * time.Millisecond, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
			},
		}
	})
}
