package natsstore

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/gabion-go/gabion/contrib/natsmsg/internal/testnats"
	"github.com/gabion-go/gabion/idempotency"
)

// soak asks for the larger sizes.
var soak = os.Getenv("GABION_SOAK") == "1"

const patience = testnats.Patience

func TestMain(m *testing.M) { testnats.Main(m) }

func mustOpen(t testing.TB, js jetstream.JetStream, o Options) *Store {
	t.Helper()
	if o.Bucket == "" {
		o.Bucket = "records"
	}
	s, err := Open(t.Context(), js, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// precise opens a store until it knows the time well, for tests that let a lease end
// and are as exact about that.
func precise(t testing.TB, open func() *Store) *Store {
	t.Helper()
	for limit := time.Now().Add(patience); ; {
		s := open()
		if s.clock.last.took < 20*time.Millisecond {
			return s
		}
		if time.Now().After(limit) {
			t.Fatalf("the machine is too busy: to ask for the time takes %v", s.clock.last.took)
		}
	}
}

// eventually opens a store once a cluster has elected its leaders.
func eventually(t testing.TB, js jetstream.JetStream, o Options) *Store {
	t.Helper()
	var err error
	for limit := time.Now().Add(2 * patience); time.Now().Before(limit); {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		var s *Store
		s, err = Open(ctx, js, o)
		cancel()
		if err == nil {
			return s
		}
		<-time.After(100 * time.Millisecond)
	}
	t.Fatal(err)
	return nil
}

// claimOf returns a claim of a key. Another claim of it needs another owner.
func claimOf(key string, g idempotency.Guarantee, lease time.Duration) idempotency.Claim {
	return idempotency.Claim{
		ID: idempotency.IDOf("test", key), Fingerprint: [32]byte{1}, Owner: [16]byte{1},
		Guarantee: g, Lease: lease, Retention: time.Hour,
	}
}

func want(t testing.TB, s *Store, c idempotency.Claim, d idempotency.Decision) idempotency.Answer {
	t.Helper()
	a, err := s.Begin(t.Context(), c)
	if err != nil || a.Decision != d {
		t.Fatalf("begin: %v (%v), want %v: %v", a.Decision, a.Record.State, d, err)
	}
	return a
}

// pass waits until d is over by the judgement of s, which gives others what it does not
// know of the time.
func pass(t testing.TB, s *Store, d time.Duration) {
	t.Helper()
	now := func() moment {
		m, err := s.now(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	for end := now().late.Add(d); now().early < end; <-time.After(time.Millisecond) {
	}
}

func apply(t testing.TB, s *Store, c idempotency.Claim, a idempotency.Answer, ch idempotency.Change) {
	t.Helper()
	if err := s.Apply(t.Context(), idempotency.Ref{ID: c.ID, Token: a.Record.Token}, ch); err != nil {
		t.Fatalf("%v: %v", ch.State, err)
	}
}

func done(body string) idempotency.Change {
	return idempotency.Change{State: idempotency.StateDone, Result: idempotency.Result{Status: 201, Body: []byte(body)}}
}

var release = idempotency.Change{State: idempotency.StateRetryable}
