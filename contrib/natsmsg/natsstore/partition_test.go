package natsstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/internal/testproxy"
)

const (
	partLease = 250 * time.Millisecond
	partCall  = 200 * time.Millisecond // how long a process waits for the store
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

// A witness knows what really happened.
type witness struct {
	mu      sync.Mutex
	effects map[int64]int   // by token
	acked   map[int64]bool  // completions that the store confirmed
	bodies  map[string]bool // replayed
}

func (w *witness) note(do func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	do()
}

// A process serves one key as a Handler does: it claims with a nonce of its own,
// repeats what had no answer, and completes as long as it may.
type process struct {
	store *Store
	seen  *witness
	claim idempotency.Claim
}

// claimed begins, at most three times with the same owner.
func (p process) claimed(ctx context.Context) (a idempotency.Answer, err error) {
	for range 3 {
		call, cancel := context.WithTimeout(ctx, partCall)
		a, err = p.store.Begin(call, p.claim)
		cancel()
		if err == nil {
			return a, nil
		}
	}
	return a, err
}

func (p process) run(ctx context.Context) {
	begun := time.Now()
	a, err := p.claimed(ctx)
	switch {
	case err != nil:
		return
	case a.Decision == idempotency.DecisionReplay:
		p.seen.note(func() { p.seen.bodies[string(a.Record.Result.Body)] = true })
		return
	case a.Decision != idempotency.DecisionRun || time.Since(begun) > partLease/2: // too late to begin within the lease
		return
	}
	token := a.Record.Token
	p.seen.note(func() { p.seen.effects[token]++ })
	<-time.After(rand.N(partLease / 2))
	for range 5 {
		call, cancel := context.WithTimeout(ctx, partCall)
		err := p.store.Apply(call, idempotency.Ref{ID: p.claim.ID, Token: token}, done(fmt.Sprint(token)))
		cancel()
		if err == nil {
			p.seen.note(func() { p.seen.acked[token] = true })
		}
		if err == nil || errors.Is(err, idempotency.ErrLeaseLost) {
			return
		}
	}
}

// H: partitions between clients and server.
func TestPartitions(t *testing.T) {
	if testing.Short() {
		t.Skip("long: leases end in real time")
	}
	t.Parallel()
	episodes := 20
	if soak {
		episodes = 100
	}
	url := serve(t, settings{Lazy: true}).ClientURL()
	direct := mustOpen(t, connect(t, url), Options{})
	slots := make(chan struct{}, 10)
	var all sync.WaitGroup
	for n := range episodes {
		fault, g := []testproxy.Fault{cut, mute, deaf, reset}[n%4], idempotency.Guarantee(n/4%2)
		buffer := []int{-1, 8 << 20}[n/8%2] // what nats.go keeps for reconnects
		all.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			t.Run(fmt.Sprint(n), func(t *testing.T) { episode(t, url, direct, fault, g, buffer) })
		})
	}
	all.Wait()
}

func episode(t *testing.T, url string, direct *Store, f testproxy.Fault, g idempotency.Guarantee, buffer int) {
	p := newProxy(t, url)
	seen := &witness{effects: map[int64]int{}, acked: map[int64]bool{}, bodies: map[string]bool{}}
	c := idempotency.Claim{ID: idempotency.IDOf("episode", t.Name()), Guarantee: g, Lease: partLease, Retention: time.Hour}
	var all sync.WaitGroup
	var processes []process
	for n := range 4 {
		s := direct // one of them is on the server's side
		if n > 0 {
			s = mustOpen(t, connect(t, scheme+p.Addr, nats.ReconnectBufSize(buffer)), Options{})
		}
		processes = append(processes, process{store: s, seen: seen, claim: c})
	}
	for n, one := range processes {
		all.Go(func() {
			for k := range 6 {
				one.claim.Owner = [16]byte{1, byte(n), byte(k)}
				one.run(t.Context())
				<-time.After(rand.N(partLease / 2))
			}
		})
	}
	for range 2 {
		<-time.After(rand.N(partLease / 2))
		p.Set(f)
		<-time.After(rand.N(2 * partLease))
		p.Set(whole)
	}
	all.Wait()
	<-time.After(partLease + time.Second)
	for k := range 2 { // what was under way is over, and what comes late comes now
		c.Owner = [16]byte{2, byte(k)}
		a := want2(t, direct, c)
		seen.check(t, g, a)
		<-time.After(50 * time.Millisecond)
	}
}

// want2 begins after everything: I6, no key is stuck.
func want2(t *testing.T, s *Store, c idempotency.Claim) idempotency.Answer {
	t.Helper()
	a, err := s.Begin(t.Context(), c)
	for limit := time.Now().Add(patience); err == nil && a.Decision == idempotency.DecisionInProgress && time.Now().Before(limit); {
		<-time.After(partLease / 4) // a lease that was granted late
		a, err = s.Begin(t.Context(), c)
	}
	if err != nil || a.Decision == idempotency.DecisionInProgress {
		t.Fatalf("afterwards: %v, %v", a.Decision, err)
	}
	if a.Decision == idempotency.DecisionRun {
		apply(t, s, c, a, release)
	}
	return a
}

func (w *witness) check(t *testing.T, g idempotency.Guarantee, a idempotency.Answer) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	total := 0
	for token, n := range w.effects {
		if total += n; n > 1 {
			t.Errorf("token %d was granted %d times", token, n)
		}
	}
	if g == idempotency.GuaranteeHold && total > 1 {
		t.Errorf("I1: %d effects under hold", total)
	}
	if total > a.Record.Attempt {
		t.Errorf("I1: %d effects in %d attempts", total, a.Record.Attempt)
	}
	if len(w.acked) > 1 || len(w.bodies) > 1 {
		t.Errorf("I3: completed by %v, replayed %v", w.acked, w.bodies)
	}
	for token := range w.acked {
		if a.Decision != idempotency.DecisionReplay || string(a.Record.Result.Body) != fmt.Sprint(token) {
			t.Errorf("I4: %d completed, and the record says %v %q", token, a.Record.State, a.Record.Result.Body)
		}
	}
	if len(w.bodies) == 1 && !w.bodies[string(a.Record.Result.Body)] {
		t.Errorf("I2: replayed %v, then %q", w.bodies, a.Record.Result.Body)
	}
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
	url := serve(t, settings{Lazy: true}).ClientURL()
	p := newProxy(t, url)
	far, near := mustOpen(t, connect(t, scheme+p.Addr), Options{}), mustOpen(t, connect(t, url), Options{})
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
	url := serve(t, settings{Lazy: true}).ClientURL()
	p := newProxy(t, url)
	js := connect(t, scheme+p.Addr, nats.ReconnectBufSize(8<<20))
	far, near := mustOpen(t, js, Options{}), mustOpen(t, connect(t, url), Options{})
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
