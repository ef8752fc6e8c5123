package watermill

import (
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/gabion-go/gabion/contrib/gabionmsg"
	"github.com/gabion-go/gabion/e2e/messages/bad"
	"github.com/gabion-go/gabion/messages/consumer"
	"github.com/gabion-go/gabion/messages/deadletter"
	"github.com/gabion-go/gabion/messages/message"
)

// Whatever comes, it is handled or a dead letter, and what comes after it is handled.
func TestBadMessagesThroughABrokerAreDeadLettersAndStopNothing(t *testing.T) {
	for name := range kinds {
		t.Run(name, func(t *testing.T) {
			if name == "rabbitmq" && os.Getenv("GABION_SOAK") != "1" {
				t.Skip("its broker takes 20 s to start: with GABION_SOAK=1, and in package rabbit")
			}
			r := newRig(t, name)
			letters, err := deadletter.NewMemory(deadletter.Options{})
			if err != nil {
				t.Fatal(err)
			}
			desk := bad.Open(t, consumer.Options{Letters: letters}, bad.All(t.Context(), letters))
			sub, err := r.line.subscribe()
			if err != nil {
				t.Fatal(err)
			}
			desk.Route(t, sub, orders)
			held := bad.Message{
				ID: "13", Payload: "held", Effect: true,
				Headers: message.Headers{{Name: gabionmsg.DueMetadata, Value: strconv.FormatInt(time.Now().Add(30*time.Millisecond).UnixMilli(), 10)}},
			}
			all := append(bad.Messages(), held)
			desk.Publish(t, all, func(m bad.Message) error { return r.line.Publish(orders, m.Watermill()) })
			desk.Want(t, all)
		})
	}
}

// Watermill's own unmarshaller for Redis ends the subscription at a message of another program.
// The documentation says so; if that changes, it has to.
func TestAForeignMessageEndsWatermillsSubscriptionOfRedis(t *testing.T) {
	r := newRig(t, "redis streams")
	sub, err := r.line.subscribe()
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Close()
	msgs, err := sub.Subscribe(t.Context(), orders)
	if err != nil {
		t.Fatal(err)
	}
	client := redis.NewClient(&redis.Options{Addr: r.broker.Addr})
	defer client.Close()
	if err := client.XAdd(t.Context(), &redis.XAddArgs{Stream: orders, Values: map[string]any{"payload": "x"}}).Err(); err != nil {
		t.Fatal(err)
	}
	select {
	case m, open := <-msgs:
		if open {
			t.Errorf("it was delivered: %q", m.UUID)
		}
	case <-time.After(10 * time.Second):
		t.Error("the subscription goes on")
	}
}
