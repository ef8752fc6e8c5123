package bad

import (
	"testing"

	"github.com/ThreeDotsLabs/watermill"
	wm "github.com/ThreeDotsLabs/watermill/message"

	"github.com/gabion-go/gabion/contrib/gabionmsg"
)

// Watermill returns the message as Watermill has it.
func (m *Message) Watermill() *wm.Message {
	msg := wm.NewMessage(m.ID, []byte(m.Payload))
	for _, h := range m.Headers {
		msg.Metadata.Set(h.Name, h.Value)
	}
	return msg
}

// Route has the desk handle a topic's messages until the test ends.
func (d *Desk) Route(t testing.TB, sub wm.Subscriber, topic string) {
	t.Helper()
	mw, err := gabionmsg.Middleware(d.Consumer, gabionmsg.Options{})
	if err != nil {
		t.Fatal(err)
	}
	router, err := wm.NewRouter(wm.RouterConfig{}, watermill.NopLogger{})
	if err != nil {
		t.Fatal(err)
	}
	router.AddConsumerHandler("bank", topic, gabionmsg.Subscriber(sub, d.Consumer), func(msg *wm.Message) error {
		return d.Work(msg.Context())
	}).AddMiddleware(mw)
	ended := make(chan error, 1)
	go func() { ended <- router.Run(t.Context()) }()
	t.Cleanup(func() {
		if err := router.Close(); err != nil {
			t.Error(err)
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	<-router.Running()
}
