package natsmsg

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/messages/consumer"
	"github.com/gabion-go/gabion/messages/inbox"
	"github.com/gabion-go/gabion/messages/message"
	"github.com/gabion-go/gabion/policy"
)

func (r *rig) store() idempotency.Store { return idempotency.NewMemoryStore(0, 0) }

func TestWhatIsWrongWithAConsumersConfiguration(t *testing.T) {
	queue, _ := policy.Preset("message-queue")
	fit := jetstream.ConsumerConfig{AckPolicy: jetstream.AckExplicitPolicy, MaxDeliver: -1, AckWait: 30 * time.Second}
	with := func(change func(*jetstream.ConsumerConfig)) *jetstream.ConsumerConfig {
		c := fit
		change(&c)
		return &c
	}
	for _, c := range []struct {
		name string
		cfg  *jetstream.ConsumerConfig
		o    Options
		want string // empty: it is fit
	}{
		{"fit", &fit, Options{}, ""},
		{"nothing set", &jetstream.ConsumerConfig{}, Options{}, ""},
		{"acknowledged by itself", with(func(c *jetstream.ConsumerConfig) { c.AckPolicy = jetstream.AckNonePolicy }), Options{}, "ack policy"},
		{"acknowledging what came before", with(func(c *jetstream.ConsumerConfig) { c.AckPolicy = jetstream.AckAllPolicy }), Options{}, "ack policy"},
		{"push", with(func(c *jetstream.ConsumerConfig) { c.DeliverSubject = "x" }), Options{}, "push"},
		{"headers only", with(func(c *jetstream.ConsumerConfig) { c.HeadersOnly = true }), Options{}, "headers only"},
		{"dropped as early as given up", with(func(c *jetstream.ConsumerConfig) { c.MaxDeliver = 11 }), Options{}, "max deliver"},
		{"dropped after deliveries that were no runs", with(func(c *jetstream.ConsumerConfig) { c.MaxDeliver = 1000 }), Options{}, "max deliver"},
		{"waits of the broker's own", with(func(c *jetstream.ConsumerConfig) { c.BackOff = []time.Duration{time.Second, time.Minute} }), Options{}, "back off"},
		{"an ack wait that is too short", with(func(c *jetstream.ConsumerConfig) { c.AckWait = time.Millisecond }), Options{}, "ack wait"},
		{"attempts that outlast the ack wait, with heartbeats", with(func(c *jetstream.ConsumerConfig) { c.AckWait = time.Second }), Options{}, ""},
		{"attempts that outlast the ack wait", with(func(c *jetstream.ConsumerConfig) { c.AckWait = 5 * time.Second }), Options{NoHeartbeat: true}, "without heartbeats"},
		{"attempts that end before the ack wait", with(func(c *jetstream.ConsumerConfig) { c.AckWait = 6 * time.Second }), Options{NoHeartbeat: true}, ""},
		{"fewer unacknowledged than slots", with(func(c *jetstream.ConsumerConfig) { c.MaxAckPending = 99 }), Options{}, "max ack pending"},
		{"as many unacknowledged as slots", with(func(c *jetstream.ConsumerConfig) { c.MaxAckPending = 100 }), Options{}, ""},
		{"deleted while the breaker is open", with(func(c *jetstream.ConsumerConfig) { c.InactiveThreshold = 5 * time.Second }), Options{}, "inactive threshold"},
		{"deleted after a day", with(func(c *jetstream.ConsumerConfig) { c.InactiveThreshold = 24 * time.Hour }), Options{}, ""},
		{"a priority group", with(func(c *jetstream.ConsumerConfig) { c.PriorityPolicy = jetstream.PriorityPolicyPinned }), Options{}, "priority"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := check(c.cfg, queue, 100, &c.o)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want: %q", err, c.want)
			}
		})
	}
}

func TestConfigIsFit(t *testing.T) {
	for name, p := range map[string]policy.Policy{"zero": {}, "large": {Bulkhead: policy.Bulkhead{Limit: 5000}}, "no bulkhead": {Bulkhead: policy.Bulkhead{Off: true}}} {
		c, err := consumer.New(gabion.New(durable, p, gabion.WithLogger(quietLog)), idempotency.NewMemoryStore(0, 0), consumer.Options{Inbox: quietInbox})
		if err != nil {
			t.Fatal(err)
		}
		cfg := Config(c, durable)
		if err := check(&cfg, p, c.Slots(100), &Options{}); err != nil || cfg.Durable != durable {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestVisibilityIsTheAckWait(t *testing.T) {
	for _, c := range []struct {
		cfg  jetstream.ConsumerConfig
		want time.Duration
	}{
		{jetstream.ConsumerConfig{}, 30 * time.Second},
		{jetstream.ConsumerConfig{AckWait: time.Second}, time.Second},
	} {
		if got := visibility(&c.cfg); got != c.want {
			t.Errorf("%+v: %v, want %v", c.cfg, got, c.want)
		}
	}
}

func TestMatches(t *testing.T) {
	for _, c := range []struct {
		filter, subject string
		want            bool
	}{
		{"a.b", "a.b", true}, {"a.b", "a.c", false}, {"a.b", "a", false}, {"a", "a.b", false},
		{"a.*", "a.b", true}, {"a.*", "a.b.c", false}, {"*.b", "a.b", true},
		{"a.>", "a.b.c", true}, {"a.>", "a", false}, {">", "a", true},
	} {
		if got := matches(c.filter, c.subject); got != c.want {
			t.Errorf("%s of %s: %v", c.filter, c.subject, got)
		}
	}
}

func TestAPIPrefix(t *testing.T) {
	for want, o := range map[string]jetstream.JetStreamOptions{
		"$JS.API.": {}, "$JS.hub.API.": {Domain: "hub"}, "x.": {APIPrefix: "x"}, "y.": {APIPrefix: "y."},
	} {
		if got := apiPrefix(o); got != want {
			t.Errorf("%+v: %s, want %s", o, got, want)
		}
	}
}

var quietInbox = inbox.Options{RunnerConfig: idempotency.RunnerConfig{Guarantee: idempotency.GuaranteeReexecute, Observer: quiet{}}}

func TestPublish(t *testing.T) {
	r := newRig(t)
	d := gabion.New("orders", unhurried, gabion.WithLogger(quietLog))
	h := message.Headers{{Name: message.Key, Value: "order-1"}, {Name: "Tag", Value: "a\r\nInjected: b"}, {Name: "Nats-Rollup", Value: "all"}}
	if _, err := Publish(t.Context(), d, r.js, "orders.new", []byte("x"), h[1:]); !errors.Is(err, ErrNoKey) {
		t.Errorf("without a key: %v", err)
	}
	for i, c := range []struct {
		subject   string
		duplicate bool
	}{{"orders.new", false}, {"orders.new", true}, {"orders.other", false}} {
		ack, err := Publish(t.Context(), d, r.js, c.subject, []byte("x"), h)
		if err != nil || ack.Duplicate != c.duplicate {
			t.Errorf("%d: %+v, %v", i, ack, err)
		}
	}
	s, err := r.js.Stream(t.Context(), stream)
	if err != nil {
		t.Fatal(err)
	}
	m, err := s.GetMsg(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(m.Header.Get(message.Key), m.Header.Get("Tag"), len(m.Header)); got != "order-1a  Injected: b3" {
		t.Errorf("%s %v", got, m.Header)
	}
	if len(h) != 3 || h[1].Value != "a\r\nInjected: b" {
		t.Errorf("the caller's headers were changed: %v", h)
	}
	if _, err := Publish(t.Context(), d, r.js, "nowhere", nil, h); !errors.Is(err, jetstream.ErrNoStreamResponse) {
		t.Errorf("a subject without a stream: %v", err)
	}
}

func TestWhatErrorsOfPublishingMean(t *testing.T) {
	d := gabion.New("orders", unhurried, gabion.WithLogger(quietLog))
	for _, c := range []struct {
		err      error
		attempts int
	}{
		{nats.ErrMaxPayload, 1}, {nats.ErrConnectionClosed, 1}, {&jetstream.APIError{Code: 400}, 1},
		{nats.ErrTimeout, 3}, {jetstream.ErrNoStreamResponse, 3}, {nats.ErrNoResponders, 3}, {&jetstream.APIError{Code: 503}, 3},
	} {
		n := 0
		_ = d.Run(t.Context(), func(context.Context) error { n++; return meaning(c.err) }, gabion.WithIdempotent())
		if n != c.attempts {
			t.Errorf("%v: %d attempts, want %d", c.err, n, c.attempts)
		}
	}
}
