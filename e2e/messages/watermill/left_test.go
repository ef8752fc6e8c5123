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
	"github.com/gabion-go/gabion/idempotency/sqlstore"
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
		for guarantee := consumer.Hold; guarantee <= consumer.Tx; guarantee++ {
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
	bank, store, err := openBank(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer bank.Close()
	if guarantee != consumer.Tx {
		store = idempotency.NewMemoryStore(0, 0)
	}
	c, err := consumer.New(gabion.New("bank", p), store, consumer.Options{
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
	end := sync.OnceFunc(func() { close(over) })
	defer end()
	var done atomic.Int32
	book := func(msg *wm.Message) error {
		if guarantee != consumer.Tx {
			return nil
		}
		_, err := sqlstore.From(msg.Context()).ExecContext(context.WithoutCancel(msg.Context()), "INSERT INTO bookings VALUES (?, ?)", msg.UUID, string(msg.Payload))
		return err
	}
	router.AddConsumerHandler("orders", orders, gabionmsg.Subscriber(sub, c), func(msg *wm.Message) error {
		err := book(msg)
		if strings.HasPrefix(string(msg.Payload), "bad") {
			<-over
			return book(msg) // what it does now counts no more
		}
		if err == nil {
			done.Add(1)
		}
		return err
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
	for late := time.Now().Add(40 * time.Second); (done.Load() < good || dead < bad) && time.Now().Before(late); <-time.After(10 * time.Millisecond) {
		page, err := letters.List(t.Context(), deadletter.Query{}, "", 0)
		if err != nil {
			t.Fatal(err)
		}
		dead = len(page.Letters)
	}
	if n := done.Load(); n < good || n > good && guarantee != consumer.Tx || dead != bad { // what the database asks to be repeated runs again
		t.Errorf("%d of %d are done, and %d of %d are letters", n, good, dead, bad)
	}
	if err := router.Close(); err != nil {
		t.Error(err)
	}
	running.Wait()
	if n := len(c.Left()); n != bad {
		t.Errorf("%d runs are left, of %d", n, bad)
	}
	end()
	for late := time.Now().Add(20 * time.Second); len(c.Left()) > 0 && time.Now().Before(late); <-time.After(time.Millisecond) {
	}
	if n := len(c.Left()); n > 0 {
		t.Errorf("%d runs are left that have returned", n)
	}
	if guarantee != consumer.Tx {
		return
	}
	var messages, bookings, wrong int
	if err := bank.QueryRowContext(t.Context(), "SELECT count(DISTINCT message), count(*), count(CASE amount WHEN 'bad' THEN 1 END) FROM bookings").Scan(&messages, &bookings, &wrong); err != nil {
		t.Fatal(err)
	}
	if messages != good || bookings != good || wrong > 0 {
		t.Errorf("%d messages of %d have %d bookings, of which %d are of work that was left", messages, good, bookings, wrong)
	}
}
