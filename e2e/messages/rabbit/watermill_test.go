package rabbit

import (
	"os"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/tests"

	"github.com/gabion-go/gabion/internal/testservers"
)

// Watermill has tests for everything that is a publisher and a subscriber. They take a minute.
func TestWatermillsOwnTests(t *testing.T) {
	if os.Getenv("GABION_SOAK") != "1" {
		t.Skip("GABION_SOAK is not 1")
	}
	broker := testservers.StartRabbitMQ(t)
	tests.TestPubSub(t, tests.Features{Persistent: true, GuaranteedOrder: true, GuaranteedOrderWithSingleSubscriber: true},
		func(*testing.T) (message.Publisher, message.Subscriber) {
			return NewPublisher(broker.DSN), NewSubscriber(broker.DSN, 1)
		}, nil)
}
