package watermill

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	wm "github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/consumer"
	"github.com/gabion-go/gabion/contrib/gabionmsg"
	"github.com/gabion-go/gabion/deadletter"
	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/idempotency/inbox"
	"github.com/gabion-go/gabion/policy"
)

type quiet struct{}

func (quiet) Observe(context.Context, idempotency.Event) {}

// Every message is acknowledged or a letter, and the router ends, although work hangs.
func TestWorkThatHangsStopsNothingThroughABroker(t *testing.T) {
	if testing.Short() {
		t.Skip("long: it waits for what hangs")
	}
	for _, name := range []string{"go channels", "redis streams"} {
		for guarantee := consumer.Hold; guarantee <= consumer.Reexecute; guarantee++ {
			t.Run(fmt.Sprint(name, ", guarantee ", guarantee), func(t *testing.T) { hangs(t, name, guarantee) })
		}
	}
}

func hangs(t *testing.T, name string, guarantee consumer.Guarantee) {
	const bad, good = 4, 40
	var pub wm.Publisher
	var sub wm.Subscriber
	if name == "go channels" {
		c := gochannel.NewGoChannel(gochannel.Config{OutputChannelBuffer: 100, Persistent: true}, watermill.NopLogger{})
		pub, sub = c, c
	} else {
		r := newRig(t, name)
		var err error
		if sub, err = r.line.subscribe(); err != nil {
			t.Fatal(err)
		}
		pub = r.line
	}
	letters, err := deadletter.NewMemory(deadletter.Options{})
	if err != nil {
		t.Fatal(err)
	}
	p := policy.Policy{
		Timeout: policy.Timeout{Call: 5 * time.Second, Attempt: 200 * time.Millisecond}, Breaker: policy.Breaker{Off: true}, Bulkhead: policy.Bulkhead{Limit: 4},
		Retry: policy.Retry{Attempts: 3, Backoff: backoff.Const(5 * time.Millisecond), Budget: policy.Budget{Off: true}},
	}
	c, err := consumer.New(gabion.New("bank", p), idempotency.NewMemoryStore(0, 0), consumer.Options{
		Guarantee: guarantee, Grace: 100 * time.Millisecond, Letters: letters, Logger: slog.New(slog.DiscardHandler),
		Inbox: inbox.Options{RunnerConfig: idempotency.RunnerConfig{Observer: quiet{}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	mw, err := gabionmsg.Middleware(c, gabionmsg.Options{})
	if err != nil {
		t.Fatal(err)
	}
	router, err := wm.NewRouter(wm.RouterConfig{CloseTimeout: 20 * time.Second}, watermill.NopLogger{})
	if err != nil {
		t.Fatal(err)
	}
	over := make(chan struct{})
	defer close(over)
	var done atomic.Int32
	router.AddConsumerHandler("orders", orders, gabionmsg.Subscriber(sub, c), func(msg *wm.Message) error {
		if strings.HasPrefix(string(msg.Payload), "bad") {
			<-over
		}
		done.Add(1)
		return nil
	}).AddMiddleware(mw)
	for n := range bad + good {
		what := "good"
		if n < bad {
			what = "bad"
		}
		if err := pub.Publish(orders, wm.NewMessage(strconv.Itoa(n), []byte(what))); err != nil {
			t.Fatal(err)
		}
	}
	var running sync.WaitGroup
	running.Go(func() { _ = router.Run(context.Background()) })
	dead := 0
	for end := time.Now().Add(40 * time.Second); (done.Load() < good || dead < bad) && time.Now().Before(end); <-time.After(10 * time.Millisecond) {
		page, err := letters.List(t.Context(), deadletter.Query{}, "", 0)
		if err != nil {
			t.Fatal(err)
		}
		dead = len(page.Letters)
	}
	if n := done.Load(); n != good || dead != bad {
		t.Errorf("%d of %d are done, and %d of %d are letters", n, good, dead, bad)
	}
	if err := router.Close(); err != nil {
		t.Error(err)
	}
	running.Wait()
	if n := len(c.Left()); n != bad {
		t.Errorf("%d runs are left, of %d", n, bad)
	}
}
