package watermill

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	wm "github.com/ThreeDotsLabs/watermill/message"
	"github.com/redis/go-redis/v9"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/consumer"
	"github.com/gabion-go/gabion/contrib/gabionmsg"
	"github.com/gabion-go/gabion/deadletter"
	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/idempotency/inbox"
	"github.com/gabion-go/gabion/message"
	"github.com/gabion-go/gabion/policy"
)

// A desk is a consumer in this process.
type desk struct {
	letters *deadletter.Memory
	mu      sync.Mutex     // guards runs
	runs    map[string]int // by the payload
}

// open runs the desk until the test ends. A payload that begins with "poison" is none that can be
// handled, and only attempts bound it.
func open(t *testing.T, l *line) *desk {
	t.Helper()
	letters, err := deadletter.NewMemory(deadletter.Options{})
	if err != nil {
		t.Fatal(err)
	}
	k := &desk{letters: letters, runs: map[string]int{}}
	p := policy.Policy{Breaker: policy.Breaker{Off: true}, Retry: policy.Retry{Attempts: 3, Backoff: backoff.Const(5 * time.Millisecond), Budget: policy.Budget{Off: true}}}
	c, err := consumer.New(gabion.New("bank", p), idempotency.NewMemoryStore(0, 0), consumer.Options{
		Letters: letters, Inbox: inbox.Options{MaxPayload: 1000, RunnerConfig: idempotency.RunnerConfig{Guarantee: idempotency.GuaranteeReexecute}},
	})
	if err != nil {
		t.Fatal(err)
	}
	mw, err := gabionmsg.Middleware(c, gabionmsg.Options{})
	if err != nil {
		t.Fatal(err)
	}
	sub, err := l.subscribe()
	if err != nil {
		t.Fatal(err)
	}
	router, err := wm.NewRouter(wm.RouterConfig{}, watermill.NopLogger{})
	if err != nil {
		t.Fatal(err)
	}
	router.AddConsumerHandler("bank", orders, gabionmsg.Subscriber(sub, c), func(msg *wm.Message) error {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.runs[string(msg.Payload)]++
		if strings.HasPrefix(string(msg.Payload), "poison") {
			return errBank
		}
		return nil
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
	return k
}

// state has the runs of each payload that was not long, and the letters by reason.
func (k *desk) state(t *testing.T) string {
	t.Helper()
	k.mu.Lock()
	runs := maps.Clone(k.runs)
	k.mu.Unlock()
	l, err := k.letters.List(t.Context(), deadletter.Query{}, "", 100)
	if err != nil {
		t.Fatal(err)
	}
	var reasons []string
	for _, one := range l.Letters {
		reasons = append(reasons, one.Reason)
	}
	slices.Sort(reasons)
	return fmt.Sprintf("%#v %v", runs, reasons)
}

func (k *desk) want(t *testing.T, want string) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); k.state(t) != want; <-time.After(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("is  %s\nnot %s", k.state(t), want)
		}
	}
}

func bad(id, payload string, metadata ...string) *wm.Message {
	m := wm.NewMessage(id, []byte(payload))
	for n := 0; n < len(metadata); n += 2 {
		m.Metadata.Set(metadata[n], metadata[n+1])
	}
	return m
}

// Whatever comes, it is handled or a dead letter, and what comes after it is handled.
func TestBadMessagesThroughABrokerAreDeadLettersAndStopNothing(t *testing.T) {
	for _, name := range []string{"redis streams", "postgresql"} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, name)
			k := open(t, r.line)
			for _, m := range []*wm.Message{
				bad("1", "poison"),
				bad("2", string(bytes.Repeat([]byte("x"), 1001))),
				bad("3", "\x00\xff\xfe"),
				bad("4", "a"), bad("4", "b"), bad("4", "a"),
				bad("5", "late", message.Deadline, "1000"),
				bad("6", "when", message.Deadline, "tomorrow"),
				bad("7", "new", message.Version, "2"),
				bad("", "nobody's"), bad("", "nobody's"),
				bad("8", "held", gabionmsg.DueMetadata, strconv.FormatInt(time.Now().Add(30*time.Millisecond).UnixMilli(), 10)),
				bad("9", "last"),
			} {
				if err := r.line.Publish(orders, m); err != nil {
					t.Fatal(err)
				}
			}
			k.want(t, `map[string]int{"\x00\xff\xfe":1, "a":1, "held":1, "last":1, "poison":3} `+
				`[attempts_exhausted expired header_unreadable mismatch no_id no_id too_large unknown_version]`)
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
