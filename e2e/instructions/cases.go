package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/classify"
	"github.com/gabion-go/gabion/contrib/gabionprom"
	"github.com/gabion-go/gabion/gabionhttp"
	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/internal/adapter"
	"github.com/gabion-go/gabion/internal/machine"
	"github.com/gabion-go/gabion/messages/consumer"
	"github.com/gabion-go/gabion/messages/inbox"
	"github.com/gabion-go/gabion/policy"
)

// kase is one call that is counted.
type kase struct {
	name  string
	about string
	start func() (call func())
}

// empty is the call that does nothing, whose cost is that of counting.
const empty = "nothing"

var cases = []kase{
	{empty, "", func() func() { return func() {} }},
	{"do", "Do, the full stack: timeouts, retry, breaker, bulkhead of 64", func() func() { return do(whole(), quick) }},
	{"do-defaults", "Do, the zero policy", func() func() { return do(policy.Policy{}, quick) }},
	{"do-options", "Do with an operation, a classifier and declared safe", startOptions},
	{"do-done", "Do, work asks for Done", func() func() { return do(whole(), listens) }},
	{"bare-done", "context.WithTimeout and Done, without gabion", startBare},
	{"do-two", "Do, two failures without a wait and then a success", startTwo},
	{"do-refused", "Do, refused by an open breaker", startRefused},
	{"do-hedged", "Do, a hedge is armed and the first attempt wins", startHedged},
	{"do-prometheus", "Do, observed by gabionprom", startPrometheus},
	{"do-rate", "Do, the full stack and a rate limit", func() func() { return do(limited(), quick) }},
	{"do-shared", "Do, the same, where rate and slots are shares of a fleet", startShared},
	{"open", "Open, the full stack, and Close", startOpen},
	{"http", "GET by gabionhttp over a stub that asks for Done, the zero policy", startHTTP},
	{"idempotency-new", "POST to the idempotency middleware with a new key, MemoryStore", startNewKey},
	{"idempotency-replay", "the same POST, replayed", startReplay},
	{"consumer", "consumer.Handle of a new message, MemoryStore", startConsumer},
}

func find(name string) *kase {
	for i := range cases {
		if cases[i].name == name {
			return &cases[i]
		}
	}
	panic("no call is named " + name)
}

// whole is the policy of the full stack, as in e2e/bench.
func whole() policy.Policy {
	return policy.Policy{
		Safe:     true,
		Timeout:  policy.Timeout{Call: 5 * time.Second},
		Retry:    policy.Retry{Attempts: 4, Backoff: backoff.Const(0)},
		Breaker:  policy.Breaker{Window: 10 * time.Second, MinCalls: 100, FailureRate: 0.5, Open: time.Hour},
		Bulkhead: policy.Bulkhead{Limit: 64},
	}
}

// limited is the full stack with a limit that nothing reaches.
func limited() policy.Policy {
	p := whole()
	p.RateLimit = policy.RateLimit{Rate: 1e6, Burst: 1e6}
	return p
}

// startShared puts a share in force as a member of a fleet does.
func startShared() func() {
	d := gabion.New("counted", limited())
	share := machine.Share{Limits: machine.OfRate | machine.OfSlots, Rate: 5e5, Slots: 32}
	adapter.Of(d).Lease(&adapter.Lease{Until: time.Now().Add(time.Hour), Share: share})
	return doOn(d, quick)
}

var errDown = classify.Transient(errors.New("down"))

func quick(context.Context) (int, error) { return 7, nil }

func listens(ctx context.Context) (int, error) {
	select {
	case <-ctx.Done():
		return 0, ctx.Err()
	default:
		return 7, nil
	}
}

func do(p policy.Policy, work func(context.Context) (int, error), opts ...gabion.CallOption) func() {
	return doOn(gabion.New("counted", p), work, opts...)
}

func doOn(d *gabion.Dependency, work func(context.Context) (int, error), opts ...gabion.CallOption) func() {
	ctx := context.Background()
	return func() {
		v, err := gabion.Do(ctx, d, work, opts...)
		must(v == 7, err)
	}
}

func must(right bool, err error) {
	if !right || err != nil {
		panic(fmt.Sprintf("a call that is counted went wrong: %v", err))
	}
}

func startOptions() func() {
	succeeds := gabion.WithClassify(func(int, error) policy.Outcome { return policy.Outcome{Class: policy.ClassSuccess} })
	return do(whole(), quick, gabion.WithOperation("read"), gabion.WithIdempotent(), succeeds)
}

func startBare() func() {
	ctx := context.Background()
	return func() {
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		v, err := listens(ctx)
		cancel()
		must(v == 7, err)
	}
}

func startTwo() func() {
	p := whole()
	p.Breaker.FailureRate, p.Retry.Budget = 1, policy.Budget{Floor: 1e6}
	return do(p, func(ctx context.Context) (int, error) {
		if gabion.AttemptNumber(ctx) < 3 {
			return 0, errDown
		}
		return 7, nil
	})
}

func startRefused() func() {
	p := whole()
	p.Retry.Attempts = 1
	d, ctx := gabion.New("counted", p), context.Background()
	work := func(context.Context) (int, error) { return 0, errDown }
	for range 200 {
		_, _ = gabion.Do(ctx, d, work)
	}
	return func() {
		_, err := gabion.Do(ctx, d, work)
		must(errors.Is(err, policy.BreakerOpen), nil)
	}
}

func startHedged() func() {
	p := whole()
	p.Timeout.Call = time.Hour
	p.Hedge = policy.Hedge{Max: 1, Delay: time.Minute}
	return do(p, quick)
}

func startPrometheus() func() {
	d := gabion.New("counted", whole())
	d.Observe(gabionprom.New(gabionprom.Config{}))
	return doOn(d, quick)
}

func startOpen() func() {
	d, ctx := gabion.New("counted", whole()), context.Background()
	return func() {
		v, a, err := gabion.Open(ctx, d, quick)
		must(v == 7, err)
		a.Close(nil)
	}
}

// stub answers without a network. As net/http does it asks its context for Done.
type stub struct{}

func (stub) RoundTrip(req *http.Request) (*http.Response, error) {
	if _, err := listens(req.Context()); err != nil {
		return nil, err
	}
	return &http.Response{
		StatusCode: http.StatusOK, Request: req, Header: http.Header{}, ContentLength: 13,
		Body: io.NopCloser(strings.NewReader("hello, world\n")),
	}, nil
}

func startHTTP() func() {
	t := &gabionhttp.Transport{Dependency: gabion.New("counted", policy.Policy{}), Base: stub{}}
	req, err := http.NewRequest(http.MethodGet, "http://stub.test/", nil)
	must(true, err)
	return func() {
		resp, err := t.RoundTrip(req)
		must(err == nil, err)
		_, err = io.Copy(io.Discard, resp.Body)
		must(true, errors.Join(err, resp.Body.Close()))
	}
}

// sink is a ResponseWriter that costs nothing.
type sink struct {
	h    http.Header
	code int
}

func (s *sink) Header() http.Header         { return s.h }
func (s *sink) Write(p []byte) (int, error) { return len(p), nil }
func (s *sink) WriteHeader(code int)        { s.code = code }

// posts returns a function that sends the same request with another key.
func posts() func(key string) {
	created := []byte(`{"id":"ch_1","amount":1200}`)
	h, err := idempotency.New(idempotency.Global, idempotency.NewMemoryStore(1<<20, 1<<30), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader(http.StatusCreated)
		_, _ = w.Write(created)
	}), idempotency.Config{})
	must(true, err)
	w, body := &sink{h: http.Header{}}, bytes.NewReader([]byte(`{"amount":1200,"currency":"eur","order":"o-77"}`))
	r, keys := httptest.NewRequest(http.MethodPost, "/charges", body), []string{""}
	r.Header["Content-Type"], r.Header["Idempotency-Key"] = []string{"application/json"}, keys
	return func(key string) {
		clear(w.h)
		_, _ = body.Seek(0, io.SeekStart)
		keys[0] = key
		h.ServeHTTP(w, r)
		must(w.code == http.StatusCreated, nil)
	}
}

func startNewKey() func() {
	post, next := posts(), numbered("key-")
	return func() { post(next()) }
}

func startReplay() func() {
	post := posts()
	return func() { post("key") }
}

// numbered makes names that are as long as each other.
func numbered(prefix string) func() string {
	n := 1_000_000
	return func() string { n++; return prefix + strconv.Itoa(n) }
}

func startConsumer() func() {
	o := consumer.Options{GiveUpAfter: -1, Inbox: inbox.Options{RunnerConfig: idempotency.RunnerConfig{Guarantee: idempotency.GuaranteeReexecute}}}
	c, err := consumer.New(gabion.New("counted", policy.Policy{}), idempotency.NewMemoryStore(1<<20, 1<<30), o)
	must(true, err)
	payload, next := []byte("10 €"), numbered("order-")
	work := func(context.Context) error { return nil }
	return func() {
		m := consumer.Message{Source: "orders", Message: inbox.Message{ID: next(), Payload: payload, Delivery: 1}}
		must(c.Handle(context.Background(), m, work).Verb == inbox.Ack, nil)
	}
}
