package watermill

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	wm "github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"

	"github.com/gabion-go/gabion/contrib/gabionmsg"
	"github.com/gabion-go/gabion/e2e/messages/bad"
	"github.com/gabion-go/gabion/messages/consumer"
)

func TestEveryMessageHasItsEndThroughABroker(t *testing.T) {
	t.Run("go channels", func(t *testing.T) {
		bad.Ends(t, func(*testing.T) bad.Broker {
			c := gochannel.NewGoChannel(gochannel.Config{OutputChannelBuffer: 100, Persistent: true}, watermill.NopLogger{})
			return broker(c, c, false)
		})
	})
	for name := range kinds {
		t.Run(name, func(t *testing.T) {
			if name == "rabbitmq" && os.Getenv("GABION_SOAK") != "1" {
				t.Skip("its broker takes 20 s to start: with GABION_SOAK=1")
			}
			bad.Ends(t, func(t *testing.T) bad.Broker {
				r := newRig(t, name)
				sub, err := r.line.subscribe()
				if err != nil {
					t.Fatal(err)
				}
				return broker(r.line, sub, name != "rabbitmq")
			})
		})
	}
}

func broker(pub wm.Publisher, sub wm.Subscriber, serial bool) bad.Broker {
	return bad.Broker{
		Serial:  serial,
		Publish: func(id, payload string) error { return pub.Publish(orders, wm.NewMessage(id, []byte(payload))) },
		Consume: func(ctx context.Context, c *consumer.Consumer, work func(context.Context) error) error {
			mw, err := gabionmsg.Middleware(c, gabionmsg.Options{})
			if err != nil {
				return err
			}
			router, err := wm.NewRouter(wm.RouterConfig{CloseTimeout: 20 * time.Second}, watermill.NopLogger{})
			if err != nil {
				return err
			}
			router.AddConsumerHandler("orders", orders, gabionmsg.Subscriber(sub, c), func(msg *wm.Message) error { return work(msg.Context()) }).AddMiddleware(mw)
			return router.Run(ctx)
		},
	}
}
