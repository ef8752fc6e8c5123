package gabionredis_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/contrib/gabionredis"
	"github.com/gabion-go/gabion/internal/testservers"
	"github.com/gabion-go/gabion/policy"
)

// Where an answer was lost, a command is repeated only if coming twice is coming once.
func TestWhatIsRepeatedAfterALostAnswer(t *testing.T) {
	server := testservers.Redis(t)
	type command func(context.Context, *redis.Client) error
	do := func(args ...any) command {
		return func(ctx context.Context, c *redis.Client) error { return c.Do(ctx, args...).Err() }
	}
	pipe := func(tx bool, of ...[]any) command {
		return func(ctx context.Context, c *redis.Client) error {
			p := c.Pipeline()
			if tx {
				p = c.TxPipeline()
			}
			for _, args := range of {
				p.Do(ctx, args...)
			}
			cmds, err := p.Exec(ctx)
			for _, cmd := range cmds {
				if err != redis.Nil && (cmd.Err() == nil) != (err == nil) {
					return fmt.Errorf("a command has %v, and all have %v", cmd.Err(), err)
				}
			}
			return err
		}
	}
	tests := []struct {
		name     string
		run      command
		repeated bool
	}{
		{"GET", do("GET", "KEY"), true},
		{"SET", do("SET", "KEY", "1"), true},
		{"SET EX", do("SET", "KEY", "1", "EX", "100"), true},
		{"SET NX", do("SET", "KEY", "1", "NX"), false},
		{"set get", do("set", "KEY", "1", "get"), false},
		{"SET of the value NX", do("SET", "KEY", "NX"), true},
		{"EXPIRE", do("EXPIRE", "KEY", "100"), true},
		{"EXPIRE GT", do("EXPIRE", "KEY", "100", "GT"), false},
		{"SORT", do("SORT", "KEY-list"), true},
		{"SORT STORE", do("SORT", "KEY-list", "STORE", "x"), false},
		{"INCR", do("INCR", "KEY"), false},
		{"LPUSH", do("LPUSH", "KEY-list", "1"), false},
		{"DEL", do("DEL", "KEY"), false},
		{"HSET", do("HSET", "KEY-hash", "f", "1"), false},
		{"EVAL", do("EVAL", "return 1", "1", "KEY"), false},
		{"EVAL_RO", do("EVAL_RO", "return 1", "1", "KEY"), true},
		{"XREADGROUP", do("XREADGROUP", "GROUP", "g", "KEY", "STREAMS", "s", ">"), false},
		{"an unknown command", do("UNHEARD", "KEY"), false},
		{"PUBLISH", do("PUBLISH", "KEY", "hello"), false},
		{"a pipeline that reads", pipe(false, []any{"GET", "KEY"}, []any{"TTL", "KEY"}), true},
		{"a pipeline that counts", pipe(false, []any{"GET", "KEY"}, []any{"INCR", "KEY"}), false},
		{"a transaction that sets", pipe(true, []any{"SET", "KEY", "1"}, []any{"SET", "KEY2", "1"}), true},
		{"a transaction that counts", pipe(true, []any{"SET", "KEY", "1"}, []any{"INCR", "KEY"}), false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := &wire{mark: []byte("KEY")}
			o := options(server)
			o.Dialer = w.dial
			d := gabion.New("cache", quick())
			c := use(t, o, d)
			c.Ping(t.Context()) // the connection is there
			w.lose.Store(1)
			err := tt.run(t.Context(), c)
			want := int64(1)
			if tt.repeated {
				want = 2
			}
			if n := w.sent.Load(); n != want {
				t.Errorf("sent %d times, want %d: %v", n, want, err)
			}
			if !tt.repeated && (!errors.Is(err, policy.NotSafe) || gabion.EffectOf(err) != policy.UnknownEffect) {
				t.Errorf("effect %v: %v", gabion.EffectOf(err), err)
			}
			if tt.repeated && err != nil && err != redis.Nil && !strings.HasPrefix(err.Error(), "WRONGTYPE") {
				t.Error(err)
			}
			nothingHeld(t, d)
		})
	}
}

// The caller's word counts more than the table.
func TestTheCallerDeclaresCommands(t *testing.T) {
	server := testservers.Redis(t)
	for _, tt := range []struct {
		opt  gabionredis.Option
		args []any
		sent int64
	}{
		{gabionredis.Idempotent("DEL"), []any{"del", "KEY"}, 2},
		{gabionredis.NotIdempotent("set"), []any{"SET", "KEY", "1"}, 1},
	} {
		w := &wire{mark: []byte("KEY")}
		o := options(server)
		o.Dialer = w.dial
		c := use(t, o, gabion.New("cache", quick()), tt.opt)
		c.Ping(t.Context())
		w.lose.Store(1)
		if err := c.Do(t.Context(), tt.args...).Err(); w.sent.Load() != tt.sent {
			t.Errorf("%v was sent %d times: %v", tt.args, w.sent.Load(), err)
		}
	}
}

// What is not an error is returned as it is, and is no failure.
func TestAnswersThatLookLikeErrors(t *testing.T) {
	server := testservers.Redis(t)
	d := gabion.New("cache", quick())
	c := use(t, options(server), d)
	ctx := t.Context()
	if err := c.Get(ctx, "absent").Err(); err != redis.Nil {
		t.Errorf("got %v", err)
	}
	cmds, err := c.Pipelined(ctx, func(p redis.Pipeliner) error { p.Get(ctx, "absent"); p.Set(ctx, "k", 1, 0); return nil })
	if err != redis.Nil || cmds[1].Err() != nil {
		t.Errorf("got %v, %v", err, cmds)
	}
	err = c.Watch(ctx, func(tx *redis.Tx) error {
		c.Incr(ctx, "watched")
		_, err := tx.TxPipelined(ctx, func(p redis.Pipeliner) error { p.Incr(ctx, "watched"); return nil })
		return err
	}, "watched")
	if err != redis.TxFailedErr {
		t.Errorf("got %v", err)
	}
	err = c.LPush(ctx, "k", 1).Err()
	if !redis.HasErrorPrefix(err, "WRONGTYPE") || gabion.ReasonOf(err) != policy.NotRetryable || gabion.EffectOf(err) != policy.NoEffect {
		t.Errorf("got %v", err)
	}
	script := redis.NewScript("return redis.call('INCR', KEYS[1])")
	if n, err := script.Run(ctx, c, []string{"counter"}).Int(); n != 1 || err != nil {
		t.Errorf("the script: %d, %v", n, err)
	}
	cmds, err = c.Pipelined(ctx, func(p redis.Pipeliner) error { p.LPush(ctx, "k", 1); p.Incr(ctx, "counter"); return nil })
	if !redis.HasErrorPrefix(err, "WRONGTYPE") || cmds[1].Err() != nil || cmds[1].(*redis.IntCmd).Val() != 2 {
		t.Errorf("a pipeline of which a part failed: %v, %v", err, cmds)
	}
	if n := d.Stats().Main.Breaker.Counts.Failures; n != 0 {
		t.Errorf("%d failures", n)
	}
	nothingHeld(t, d)
}

// What waits for others holds no slot, and no timeout of the policy's ends it.
func TestWhatWaitsPassesBy(t *testing.T) {
	server := testservers.Redis(t)
	p := quick()
	p.Timeout = policy.Timeout{Attempt: 100 * time.Millisecond, Call: 200 * time.Millisecond}
	p.Bulkhead = policy.Bulkhead{Limit: 1, Queue: policy.Off}
	d := gabion.New("cache", p)
	c := use(t, options(server), d)
	ctx := t.Context()
	got := make(chan error, 2)
	go func() { got <- c.BLPop(ctx, 20*time.Second, "list").Err() }()
	go func() {
		got <- c.XRead(ctx, &redis.XReadArgs{Streams: []string{"stream", "$"}, Block: 20 * time.Second}).Err()
	}()
	sub := c.Subscribe(ctx, "news")
	defer sub.Close()
	if _, err := sub.Receive(ctx); err != nil {
		t.Fatal(err)
	}
	admin := redis.NewClient(&redis.Options{Addr: server})
	defer admin.Close()
	for limit := time.Now().Add(10 * time.Second); ; {
		info := admin.Info(ctx, "clients").Val()
		if strings.Contains(info, "blocked_clients:2") {
			break
		}
		if time.Now().After(limit) {
			t.Fatalf("they do not wait: %s", info)
		}
	}
	if n := d.Stats().Bulkhead.InUse; n != 0 {
		t.Errorf("%d slots are taken by what waits", n)
	}
	time.AfterFunc(300*time.Millisecond, func() {
		admin.LPush(ctx, "list", 1)
		admin.XAdd(ctx, &redis.XAddArgs{Stream: "stream", Values: []string{"a", "1"}})
		admin.Publish(ctx, "news", "hello")
	})
	for range 2 {
		if err := <-got; err != nil {
			t.Error(err)
		}
	}
	if m, err := sub.ReceiveMessage(ctx); err != nil || m.Payload != "hello" {
		t.Errorf("%v, %v", m, err)
	}
}

// A pool without a free connection sent nothing, and is no failure of the server.
func TestAnExhaustedPoolSentNothing(t *testing.T) {
	server := testservers.Redis(t)
	o := options(server)
	o.PoolSize, o.PoolTimeout = 1, 20*time.Millisecond
	d := gabion.New("cache", quick())
	c := use(t, o, d)
	only := c.Conn()
	defer only.Close()
	if err := only.Ping(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	err := c.Incr(t.Context(), "counter").Err()
	if !errors.Is(err, redis.ErrPoolTimeout) || gabion.EffectOf(err) != policy.NoEffect || gabion.ReasonOf(err) != policy.PoolExhausted {
		t.Errorf("effect %v: %v", gabion.EffectOf(err), err)
	}
	if n := d.Stats().Main.Breaker.Counts.Failures; n != 0 {
		t.Errorf("%d failures", n)
	}
	only.Close()
	if err := c.Incr(t.Context(), "counter").Err(); err != nil {
		t.Error(err)
	}
}

// What sets a connection up belongs to the call that needs it, and takes no second slot.
func TestAConnectionIsSetUpWithinItsCall(t *testing.T) {
	p := quick()
	p.Bulkhead = policy.Bulkhead{Limit: 1, Queue: policy.Off}
	o := options(testservers.Redis(t))
	o.OnConnect = func(ctx context.Context, c *redis.Conn) error {
		if err := c.Incr(ctx, "connections").Err(); err != nil {
			return err
		}
		_, err := c.Pipelined(ctx, func(p redis.Pipeliner) error { p.Incr(ctx, "connections"); return nil })
		return err
	}
	d := gabion.New("cache", p)
	c := use(t, o, d)
	if n, err := c.Get(t.Context(), "connections").Int(); n != 2 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if n := d.Stats().Totals.Calls; n != 1 {
		t.Errorf("%d calls", n)
	}
}

// What gabion refuses is not sent, and every command of a pipeline says so.
func TestRefusals(t *testing.T) {
	server := testservers.Redis(t)
	d := gabion.New("cache", quick())
	c := use(t, options(server), d)
	b, _ := d.Breaker("")
	release := b.Isolate()
	ctx := t.Context()
	if err := c.Incr(ctx, "n").Err(); !errors.Is(err, policy.BreakerOpen) {
		t.Errorf("got %v", err)
	}
	cmds, err := c.Pipelined(ctx, func(p redis.Pipeliner) error { p.Incr(ctx, "n"); p.Incr(ctx, "n"); return nil })
	if !errors.Is(err, policy.BreakerOpen) || len(cmds) != 2 {
		t.Errorf("got %v", err)
	}
	for _, cmd := range cmds {
		if !errors.Is(cmd.Err(), policy.BreakerOpen) {
			t.Errorf("got %v", cmd.Err())
		}
	}
	release()
	if n, err := c.Incr(ctx, "n").Result(); n != 1 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	c.Close()
	if err := c.Incr(ctx, "n").Err(); !errors.Is(err, redis.ErrClosed) || gabion.EffectOf(err) != policy.NoEffect {
		t.Errorf("a client that is closed: %v", err)
	}
}

// A client that repeats by itself, or that deadlines do not reach, is refused with the reason.
func TestClientsThatAreRefused(t *testing.T) {
	d := gabion.New("cache", policy.Policy{})
	good := func() redis.UniversalClient { return redis.NewClient(options("127.0.0.1:1")) }
	tests := []struct {
		name   string
		client redis.UniversalClient
		d      *gabion.Dependency
		says   string
	}{
		{"no dependency", good(), nil, "dependency is nil"},
		{"no client", nil, d, "<nil>"},
		{"a nil client", (*redis.Client)(nil), d, "client is nil"},
		{"retries", redis.NewClient(&redis.Options{ContextTimeoutEnabled: true}), d, "MaxRetries"},
		{"no deadlines", redis.NewClient(&redis.Options{MaxRetries: -1}), d, "ContextTimeoutEnabled"},
		{"a ring with retries", redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": "127.0.0.1:1"}, ContextTimeoutEnabled: true}), d, "MaxRetries"},
		{"a cluster without deadlines", redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"127.0.0.1:1"}}), d, "ContextTimeoutEnabled"},
		{"fine", good(), d, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := gabionredis.Use(tt.client, tt.d)
			if tt.name != "no client" && tt.name != "a nil client" {
				tt.client.Close()
			}
			if (err == nil) != (tt.says == "") || err != nil && !strings.Contains(err.Error(), tt.says) {
				t.Errorf("got %v", err)
			}
		})
	}
}
