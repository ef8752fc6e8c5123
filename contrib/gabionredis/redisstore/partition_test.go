package redisstore

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/internal/testproxy"
	"github.com/gabion-go/gabion/internal/testservers"
	"github.com/gabion-go/gabion/internal/testsplit"
)

// size is how much of a long test is run.
func size(ordinary, soak int) int {
	if os.Getenv("GABION_SOAK") == "1" {
		return soak
	}
	return ordinary
}

// cut resets one connection in place of a reply.
var cut = testproxy.Fault{Replies: testproxy.Break, Once: true}

// via is a store that reaches its server through a proxy. It was not looked at, which
// a busy machine may not do in the time that an impatient client waits.
func via(t testing.TB, addr string, retries int, patience time.Duration) *Store {
	t.Helper()
	client := redis.NewClient(&redis.Options{
		Addr: addr, ContextTimeoutEnabled: true, MaxRetries: retries,
		ReadTimeout: patience, DialTimeout: patience, DialerRetries: 1,
	})
	t.Cleanup(func() { client.Close() })
	return &Store{client: client, prefix: defaultPrefix}
}

// go-redis sends again what was not answered, and so does a caller that gets the error. A
// reply that is lost changes nothing but the time that it takes.
func TestLostReplies(t *testing.T) {
	addr := testservers.Redis(t)
	direct := &rig{TB: t, client: dial(t, addr)}
	direct.Store = open(t, direct.client)
	for _, retries := range []int{3, -1} {
		p := testproxy.New(t, addr)
		s := via(t, p.Addr, retries, time.Minute)
		lose := func(name string, do func() error) {
			t.Helper()
			before := p.Struck()
			p.Set(cut)
			err := do()
			if p.Struck() == before {
				t.Errorf("%s: no reply was lost, so this proves nothing", name)
			}
			if retries < 0 && err == nil {
				t.Errorf("%s: no error though the reply was lost", name)
			}
			if errors.Is(err, idempotency.ErrLeaseLost) {
				t.Errorf("%s: %v", name, err)
			}
			if err = do(); err != nil {
				t.Errorf("%s, again: %v", name, err)
			}
		}
		c := claimOf(fmt.Sprint("k", retries))
		var a idempotency.Answer
		lose("begin", func() (err error) { a, err = s.Begin(t.Context(), c); return err })
		if a.Decision != idempotency.DecisionRun || a.Record.Attempt != 1 {
			t.Fatalf("begin: %v, attempt %d", a.Decision, a.Record.Attempt)
		}
		ref := idempotency.Ref{ID: c.ID, Token: a.Record.Token}
		apply := func(change idempotency.Change) func() error {
			return func() error { return s.Apply(t.Context(), ref, change) }
		}
		lose("extend", apply(extended))
		lose("save", apply(saved))
		if n := len(direct.get(c.ID).Points); n != 1 {
			t.Errorf("%d recovery points, want 1", n)
		}
		lose("release", apply(released))
		c = other(c)
		lose("second begin", func() (err error) { a, err = s.Begin(t.Context(), c); return err })
		if a.Decision != idempotency.DecisionRun || a.Record.Attempt != 2 {
			t.Fatalf("second begin: %v, attempt %d", a.Decision, a.Record.Attempt)
		}
		ref.Token = a.Record.Token
		lose("complete", apply(completed("x")))
		if r := direct.get(c.ID); r.State != idempotency.StateDone || string(r.Result.Body) != "x" || r.Attempt != 2 {
			t.Errorf("after it all: %v, %q, attempt %d", r.State, r.Result.Body, r.Attempt)
		}
	}
}

// H: the network between processes and their server fails.
func TestPartitions(t *testing.T) {
	t.Parallel()
	addr := testservers.Redis(t, durable...)
	testsplit.RunRecords(t, testsplit.Records{
		Addr: addr, Direct: open(t, dial(t, addr)),
		Faults: []testproxy.Fault{
			{Requests: testproxy.Delay, Replies: testproxy.Delay},
			{Replies: testproxy.Lose}, // half open: requests arrive, and replies are lost
			{Requests: testproxy.Lose, Replies: testproxy.Lose},
			cut,
		},
		Open: func(t testing.TB, addr string, patient time.Duration) idempotency.Store {
			return via(t, addr, rand.IntN(5)-1, patient)
		},
	})
}
