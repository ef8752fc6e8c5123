package gabionmsg_test

import (
	"io"
	"log/slog"
	"strconv"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	wm "github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"
	"github.com/sony/gobreaker"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/contrib/gabionmsg"
	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/internal/testrace"
	"github.com/gabion-go/gabion/messages/consumer"
	"github.com/gabion-go/gabion/messages/inbox"
	"github.com/gabion-go/gabion/policy"
)

// fresh returns messages with UUIDs of their own.
func fresh(n int) []*wm.Message {
	all := make([]*wm.Message, n)
	for i := range all {
		all[i] = wm.NewMessage(strconv.Itoa(i), []byte("0123456789"))
	}
	return all
}

func nothing(*wm.Message) ([]*wm.Message, error) { return nil, nil }

func guarded(t testing.TB) wm.HandlerFunc {
	p, known := policy.Preset("message-queue")
	if !known {
		t.Fatal("there is no such preset")
	}
	c, err := consumer.New(gabion.New("bench", p, gabion.WithLogger(slog.New(slog.NewTextHandler(io.Discard, nil)))),
		idempotency.NewMemoryStore(0, 1<<30), consumer.Options{Letters: &drawer{}, Inbox: inbox.Options{RunnerConfig: idempotency.RunnerConfig{Guarantee: idempotency.GuaranteeReexecute, Observer: quiet{}}}})
	if err != nil {
		t.Fatal(err)
	}
	mw, err := gabionmsg.Middleware(c, gabionmsg.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return mw(nothing)
}

// stacked is the nearest that Watermill has.
func stacked(t testing.TB) wm.HandlerFunc {
	h := wm.HandlerFunc(nothing)
	h = middleware.NewCircuitBreaker(gobreaker.Settings{}).Middleware(h)
	h = middleware.NewThrottle(1e9, time.Second).Middleware(h)
	h = (&middleware.Deduplicator{KeyFactory: func(m *wm.Message) (string, error) { return m.UUID, nil }, Timeout: time.Minute}).Middleware(h)
	return middleware.Retry{MaxRetries: 3, InitialInterval: time.Second, Logger: watermill.NopLogger{}}.Middleware(h)
}

// Of these, two are the middleware's.
func TestAMessageCostsFewAllocations(t *testing.T) {
	if testrace.Enabled {
		t.Skip("the race detector allocates too")
	}
	const runs, most = 2000, 7
	h, msgs, n := guarded(t), fresh(runs+1), 0
	got := testing.AllocsPerRun(runs, func() {
		if _, err := h(msgs[n]); err != nil {
			t.Fatal(err)
		}
		n++
	})
	if got > most {
		t.Errorf("a message costs %v allocations, %d are allowed", got, most)
	}
}

func BenchmarkMiddleware(b *testing.B) {
	for _, c := range []struct {
		name string
		make func(testing.TB) wm.HandlerFunc
	}{{"gabion", guarded}, {"watermill", stacked}} {
		b.Run(c.name, func(b *testing.B) {
			h, msgs := c.make(b), fresh(b.N)
			b.ReportAllocs()
			b.ResetTimer()
			for _, m := range msgs {
				if _, err := h(m); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
