package natsmsg

import (
	"context"
	"io"
	"log/slog"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/contrib/natsmsg/internal/testnats"
	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/messages/consumer"
	"github.com/gabion-go/gabion/messages/deadletter"
	"github.com/gabion-go/gabion/messages/inbox"
	"github.com/gabion-go/gabion/messages/message"
	"github.com/gabion-go/gabion/policy"
)

const (
	stream  = "ORDERS"
	durable = "billing"
)

// patience is how long a test waits for what a machine that works would bring.
const patience = 30 * time.Second

var quietLog = slog.New(slog.NewTextHandler(io.Discard, nil))

type quiet struct{}

func (quiet) Observe(context.Context, idempotency.Event) {}

// A rig is a broker in this process, a policy, and what consumes under it.
type rig struct {
	testing.TB
	dir     string
	node    *server.Server
	port    int
	url     string // of the broker
	js      jetstream.JetStream
	cfg     jetstream.ConsumerConfig
	policy  policy.Policy
	options Options
	inbox   inbox.Options
	letters deadletter.Store
	bare    bool // the consumer keeps no letters
	grace   time.Duration

	d    *gabion.Dependency
	c    *consumer.Consumer
	end  context.CancelFunc
	done chan error
}

// unhurried is a policy whose breaker does not care, and whose retries are quick.
var unhurried = policy.Policy{
	Timeout:  policy.Timeout{Call: time.Minute, Attempt: 20 * time.Second},
	Retry:    policy.Retry{Attempts: 3, Backoff: backoff.Const(20 * time.Millisecond), Budget: policy.Budget{Off: true}},
	Breaker:  policy.Breaker{Off: true},
	Bulkhead: policy.Bulkhead{Limit: 8},
}

func newRig(t testing.TB) *rig {
	t.Helper()
	r := &rig{TB: t, dir: t.TempDir(), policy: unhurried}
	r.startServer()
	r.begin()
	return r
}

// begin makes what the broker keeps.
func (r *rig) begin() {
	r.Helper()
	var err error
	if r.letters, err = deadletter.NewMemory(deadletter.Options{}); err != nil {
		r.Fatal(err)
	}
	r.cfg = jetstream.ConsumerConfig{Durable: durable, AckPolicy: jetstream.AckExplicitPolicy, FilterSubject: "orders.>", AckWait: 20 * time.Second, MaxDeliver: -1}
	r.options.Logger = quietLog
	r.inbox.RunnerConfig = idempotency.RunnerConfig{Guarantee: idempotency.GuaranteeReexecute, Observer: quiet{}}
	r.js = testnats.Connect(r, r.url)
	_, err = r.js.CreateStream(r.Context(), jetstream.StreamConfig{Name: stream, Subjects: []string{"orders.>", "letters"}, Duplicates: 100 * time.Millisecond})
	if err != nil {
		r.Fatal(err)
	}
}

func (r *rig) startServer() {
	r.Helper()
	r.node = testnats.Serve(r, testnats.Settings{Dir: r.dir, Port: r.port, Lazy: true})
	r.url = r.node.ClientURL()
}

// make makes the durable and what consumes it.
func (r *rig) make() {
	r.Helper()
	if _, err := r.js.CreateOrUpdateConsumer(r.Context(), stream, r.cfg); err != nil {
		r.Fatal(err)
	}
	o := consumer.Options{Inbox: r.inbox, Letters: r.letters, Logger: quietLog, Grace: r.grace, GiveUpAfter: -1}
	if r.inbox.Guarantee == 0 {
		o.Guarantee = consumer.Hold
	}
	if r.bare {
		o.Letters = nil
	}
	r.d = gabion.New(durable, r.policy, gabion.WithLogger(quietLog))
	c, err := consumer.New(r.d, idempotency.NewMemoryStore(0, 0), o)
	if err != nil {
		r.Fatal(err)
	}
	r.c = c
}

// consume consumes until stop, or the end of the test.
func (r *rig) consume(work func(context.Context) error) {
	r.Helper()
	if r.c == nil {
		r.make()
	}
	ctx, end := context.WithCancel(r.Context())
	done := make(chan error, 1)
	r.end, r.done = end, done
	go func() { done <- Consume(ctx, r.js, stream, durable, r.c, work, r.options) }()
	r.Cleanup(func() {
		end()
		<-done
	})
}

// stop ends consume and returns its error.
func (r *rig) stop() error {
	r.Helper()
	r.end()
	err := <-r.done
	r.done <- err // for the cleanup
	return err
}

// publish publishes a message; headers are names and values.
func (r *rig) publish(subject, payload string, header ...string) {
	r.Helper()
	m := &nats.Msg{Subject: subject, Data: []byte(payload), Header: nats.Header{}}
	for i := 0; i < len(header); i += 2 {
		m.Header.Add(header[i], header[i+1])
	}
	if _, err := r.js.PublishMsg(r.Context(), m); err != nil {
		r.Fatal(err)
	}
}

func (r *rig) publishMany(n int) {
	r.Helper()
	for i := range n {
		r.publish("orders.new", strconv.Itoa(i), message.Key, "order-"+strconv.Itoa(i))
	}
}

// eventually waits until something holds.
func (r *rig) eventually(what string, holds func() bool) {
	r.Helper()
	for end := time.Now().Add(patience); !holds(); <-time.After(5 * time.Millisecond) {
		if time.Now().After(end) {
			r.Fatalf("not within %v: %s", patience, what)
		}
	}
}

func (r *rig) info() *jetstream.ConsumerInfo {
	r.Helper()
	c, err := r.js.Consumer(r.Context(), stream, durable)
	if err != nil {
		r.Fatal(err)
	}
	return c.CachedInfo()
}

// settled waits until the broker has nothing left, four times in a row: a consumer hears of what
// was published a moment later.
func (r *rig) settled() {
	r.Helper()
	nothing := 0
	r.eventually("the broker has nothing left", func() bool {
		if i := r.info(); i.NumPending > 0 || i.NumAckPending > 0 {
			nothing = -1
		}
		nothing++
		return nothing == 4
	})
}

func (r *rig) wantLetters(reasons ...string) []deadletter.Letter {
	r.Helper()
	page, err := r.letters.List(r.Context(), deadletter.Query{}, "", 0)
	if err != nil {
		r.Fatal(err)
	}
	var got []string
	for _, l := range page.Letters {
		got = append(got, l.Reason)
	}
	if len(got) != len(reasons) {
		r.Fatalf("letters: %q, want %q", got, reasons)
	}
	for i := range got {
		if got[i] != reasons[i] {
			r.Errorf("letter %d: %s, want %s", i, got[i], reasons[i])
		}
	}
	return page.Letters
}

// A journal is what the work saw.
type journal struct {
	mu    sync.Mutex
	lines []string
}

func (j *journal) add(line string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, line)
}

func (j *journal) all() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return append([]string(nil), j.lines...)
}

func (j *journal) len() int { return len(j.all()) }
