package natsstore

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/gabion-go/gabion/contrib/natsmsg/internal/testnats"
	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/internal/testproxy"
	"github.com/gabion-go/gabion/internal/testsplit"
)

// What a network does to what passes it.
var (
	whole = testproxy.Fault{}
	cut   = testproxy.Fault{Down: true}
	mute  = testproxy.Fault{Requests: testproxy.Hold} // nothing reaches the server; it does later
	deaf  = testproxy.Fault{Replies: testproxy.Hold}  // nothing comes back from the server; it does later
	reset = testproxy.Fault{Replies: testproxy.Break} // the server gets what was sent, and instead of its answer the connection breaks
)

func newProxy(t testing.TB, url string) *testproxy.Proxy {
	t.Helper()
	return testproxy.New(t, strings.TrimPrefix(url, scheme))
}

const scheme = "nats://"

// H: partitions between clients and server.
func TestPartitions(t *testing.T) {
	if testing.Short() {
		t.Skip("long: leases end in real time")
	}
	t.Parallel()
	url := testnats.Serve(t, testnats.Settings{Lazy: true}).ClientURL()
	testsplit.RunRecords(t, testsplit.Records{
		Addr: strings.TrimPrefix(url, scheme), Direct: mustOpen(t, testnats.Connect(t, url), Options{}), Faults: []testproxy.Fault{cut, mute, deaf, reset},
		Open: func(t testing.TB, addr string, _ time.Duration) idempotency.Store {
			buffer := []int{-1, 8 << 20}[rand.IntN(2)] // what nats.go keeps for reconnects
			return mustOpen(t, testnats.Connect(t, scheme+addr, nats.ReconnectBufSize(buffer)), Options{})
		},
	})
}

// late lets one call be given up when its publish is on the way to the server, which
// hears nothing until settle.
func late(t *testing.T, p *testproxy.Proxy, call func(context.Context) error) {
	t.Helper()
	p.Set(mute)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	before := p.Struck()
	go func() {
		for ctx.Err() == nil && p.Struck() == before {
			<-time.After(time.Millisecond)
		}
		cancel()
	}()
	if err := call(ctx); err == nil {
		t.Fatal("an answer came through a silent network")
	}
}

// takenOver claims until the lease of another is over, by the judgement of both.
func takenOver(t *testing.T, s *Store, c idempotency.Claim) idempotency.Answer {
	t.Helper()
	for limit := time.Now().Add(patience); time.Now().Before(limit); <-time.After(10 * time.Millisecond) {
		if a, err := s.Begin(t.Context(), c); err != nil || a.Decision != idempotency.DecisionInProgress {
			break
		}
	}
	return want(t, s, c, idempotency.DecisionRun)
}

// settle waits until what was held back has been dealt with by the server: what is
// asked afterwards on the same connection is answered after it.
func settle(t *testing.T, p *testproxy.Proxy, s *Store) {
	t.Helper()
	p.Set(whole)
	if _, err := s.stream.Info(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestPublishesThatArriveLate(t *testing.T) {
	url := testnats.Serve(t, testnats.Settings{Lazy: true}).ClientURL()
	p := newProxy(t, url)
	far, near := mustOpen(t, testnats.Connect(t, scheme+p.Addr), Options{}), mustOpen(t, testnats.Connect(t, url), Options{})
	body := func(s *Store, c idempotency.Claim) string {
		c.Owner[14]++
		return string(want(t, s, c, idempotency.DecisionReplay).Record.Result.Body)
	}
	t.Run("a late claim of a key that is done changes nothing", func(t *testing.T) {
		c := claimOf(t.Name(), idempotency.GuaranteeHold, time.Minute)
		late(t, p, func(ctx context.Context) error { _, err := far.Begin(ctx, c); return err })
		other := c
		other.Owner[15]++
		apply(t, near, other, want(t, near, other, idempotency.DecisionRun), done("near"))
		settle(t, p, far)
		if got := body(near, c); got != "near" {
			t.Errorf("%q", got)
		}
	})
	t.Run("a claim is granted to its owner alone", func(t *testing.T) {
		c := claimOf(t.Name(), idempotency.GuaranteeHold, time.Minute)
		late(t, p, func(ctx context.Context) error { _, err := far.Begin(ctx, c); return err })
		settle(t, p, far)
		other := c
		other.Owner[15]++
		want(t, near, other, idempotency.DecisionInProgress)
		apply(t, far, c, want(t, far, c, idempotency.DecisionRun), done("far"))
	})
	t.Run("a completion by who was taken over changes nothing", func(t *testing.T) {
		c := claimOf(t.Name(), idempotency.GuaranteeReexecute, 100*time.Millisecond)
		a := want(t, far, c, idempotency.DecisionRun)
		ref := idempotency.Ref{ID: c.ID, Token: a.Record.Token}
		late(t, p, func(ctx context.Context) error { return far.Apply(ctx, ref, done("far")) })
		c.Owner[15]++
		apply(t, near, c, takenOver(t, near, c), done("near"))
		settle(t, p, far)
		if got := body(near, c); got != "near" {
			t.Errorf("%q", got)
		}
		if err := far.Apply(t.Context(), ref, done("far")); !errors.Is(err, idempotency.ErrLeaseLost) {
			t.Errorf("%v", err)
		}
	})
	t.Run("a completion before anybody noticed counts", func(t *testing.T) {
		c := claimOf(t.Name(), idempotency.GuaranteeHold, 100*time.Millisecond)
		a := want(t, far, c, idempotency.DecisionRun)
		ref := idempotency.Ref{ID: c.ID, Token: a.Record.Token}
		late(t, p, func(ctx context.Context) error { return far.Apply(ctx, ref, done("far")) })
		settle(t, p, far)
		if err := far.Apply(t.Context(), ref, done("far")); err != nil {
			t.Errorf("repeated: %v", err)
		}
		if got := body(near, c); got != "far" {
			t.Errorf("%q", got)
		}
	})
}

// What is asked while there is no connection is refused and not kept for later,
// also by a connection that would.
func TestNothingIsKeptForReconnects(t *testing.T) {
	url := testnats.Serve(t, testnats.Settings{Lazy: true}).ClientURL()
	p := newProxy(t, url)
	js := testnats.Connect(t, scheme+p.Addr, nats.ReconnectBufSize(8<<20))
	far, near := mustOpen(t, js, Options{}), mustOpen(t, testnats.Connect(t, url), Options{})
	c := claimOf("k", idempotency.GuaranteeHold, time.Minute)
	p.Set(cut)
	for limit := time.Now().Add(patience); js.Conn().IsConnected(); <-time.After(time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatal("still connected")
		}
	}
	if _, err := far.Begin(t.Context(), c); !errors.Is(err, nats.ErrDisconnected) {
		t.Errorf("%v", err)
	}
	p.Set(whole)
	for limit := time.Now().Add(patience); !js.Conn().IsConnected(); <-time.After(time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatal("not connected")
		}
	}
	settle(t, p, far)
	if r, err := near.Get(t.Context(), c.ID); err != nil || r.State != idempotency.StateAbsent {
		t.Errorf("%v, %v", r.State, err)
	}
}
