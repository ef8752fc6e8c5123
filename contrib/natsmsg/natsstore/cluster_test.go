package natsstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/gabion-go/gabion/contrib/natsmsg/internal/testnats"
	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/idempotencytest"
)

// A tally is what clients saw of their keys.
type tally struct {
	mu   sync.Mutex
	done map[string]idempotency.Claim // acknowledged completions
	runs map[string]int               // effects
	n    atomic.Int64                 // completions
}

// drive makes new keys run until told to stop: each is claimed by two at once, and
// what has no answer is repeated with the same owner.
func (y *tally) drive(ctx context.Context, s *Store, worker int) {
	for k := 0; ctx.Err() == nil; k++ {
		key := fmt.Sprint(worker, "/", k)
		var both sync.WaitGroup
		for who := range 2 {
			both.Go(func() {
				c := idempotency.Claim{
					ID: idempotency.IDOf("cluster", key), Owner: [16]byte{1, byte(who)}, Lease: time.Minute, Retention: time.Hour,
				}
				y.once(s, c, key)
			})
		}
		both.Wait()
	}
}

func (y *tally) once(s *Store, c idempotency.Claim, key string) {
	a, err := idempotency.Answer{}, errors.New("not begun")
	for range 20 {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		a, err = s.Begin(ctx, c)
		cancel()
		if err == nil {
			break
		}
		<-time.After(100 * time.Millisecond)
	}
	if err != nil || a.Decision != idempotency.DecisionRun {
		return
	}
	y.mu.Lock()
	y.runs[key]++
	y.mu.Unlock()
	for range 20 {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		err = s.Apply(ctx, idempotency.Ref{ID: c.ID, Token: a.Record.Token}, done(key))
		cancel()
		if err == nil || errors.Is(err, idempotency.ErrLeaseLost) {
			break
		}
		<-time.After(100 * time.Millisecond)
	}
	if err == nil {
		y.n.Add(1)
		y.mu.Lock()
		y.done[key] = c
		y.mu.Unlock()
	}
}

// until waits for more completions.
func (y *tally) until(t *testing.T, more int64) {
	t.Helper()
	goal := y.n.Load() + more
	for limit := time.Now().Add(90 * time.Second); y.n.Load() < goal; <-time.After(10 * time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatalf("%d completions, want %d", y.n.Load(), goal)
		}
	}
}

// check reads all that was acknowledged, by a client that remembers nothing.
func (y *tally) check(t *testing.T, s *Store) {
	t.Helper()
	one := &mixed{stores: []*Store{s}}
	for key, c := range y.done {
		c.Owner[15]++
		a, err := one.Begin(t.Context(), c)
		if err != nil || a.Decision != idempotency.DecisionReplay || string(a.Record.Result.Body) != key {
			t.Errorf("I4: %s was completed, and now: %v %q, %v", key, a.Decision, a.Record.Result.Body, err)
		}
	}
	for key, n := range y.runs {
		if n > 1 {
			t.Errorf("I1: %s ran %d times under hold", key, n)
		}
	}
	t.Logf("%d keys ran, %d were acknowledged", len(y.runs), len(y.done))
}

func TestClusterThatLosesItsLeader(t *testing.T) {
	if testing.Short() {
		t.Skip("long: three servers, and elections")
	}
	t.Parallel()
	nodes, urls := testnats.Cluster(t, false)
	o := Options{Bucket: "records", Replicas: 3, SyncAlways: true}
	s := eventually(t, testnats.Connect(t, urls), o)
	if caps := s.Caps(); !caps.Durable || caps.ServerClock || len(caps.Warnings) > 0 || s.skew != defaultSkew {
		t.Errorf("%+v, skew %v", caps, s.skew)
	}
	y := &tally{done: map[string]idempotency.Claim{}, runs: map[string]int{}}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var all sync.WaitGroup
	for worker := range 4 {
		mine := eventually(t, testnats.Connect(t, urls), o)
		all.Go(func() { y.drive(ctx, mine, worker) })
	}
	rounds := 1
	if soak {
		rounds = 3
	}
	for range rounds {
		y.until(t, 60)
		n := leader(t, s, nodes)
		n.Kill()
		y.until(t, 60)
		n.Start(t)
	}
	y.until(t, 60)
	stop()
	all.Wait()
	y.check(t, eventually(t, testnats.Connect(t, urls), o))
}

// leader returns the node that leads the bucket's stream.
func leader(t *testing.T, s *Store, nodes []*testnats.Node) *testnats.Node {
	t.Helper()
	for limit := time.Now().Add(patience); ; <-time.After(100 * time.Millisecond) {
		i, err := s.stream.Info(t.Context())
		for _, n := range nodes {
			if err == nil && i.Cluster != nil && n.Settings.Name == i.Cluster.Leader {
				return n
			}
		}
		if time.Now().After(limit) {
			t.Fatalf("no node leads: %+v, %v", i, err)
		}
	}
}

// The suite again, on three replicas, through clients of three servers.
func TestConformanceOfCluster(t *testing.T) {
	if testing.Short() {
		t.Skip("long: three servers")
	}
	t.Parallel()
	nodes, urls := testnats.Cluster(t, true)
	eventually(t, testnats.Connect(t, urls), Options{Bucket: "records", Replicas: 3, Skew: -1})
	var all []jetstream.JetStream
	for _, n := range nodes {
		all = append(all, testnats.Connect(t, fmt.Sprintf("nats://127.0.0.1:%d", n.Settings.Port), nats.DontRandomize(), nats.IgnoreDiscoveredServers()))
	}
	idempotencytest.Run(t, idempotencytest.Config{
		Open: func(t testing.TB) idempotency.Store {
			var s mixed
			for _, js := range all {
				s.stores = append(s.stores, precise(t, func() *Store {
					return eventually(t, js, Options{Bucket: "records", Replicas: 3, Skew: -1})
				}))
			}
			return &s
		},
		Again: func(t testing.TB, _ idempotency.Store, _ time.Duration) idempotency.Store {
			return precise(t, func() *Store { return eventually(t, all[0], Options{Bucket: "records", Replicas: 3, Skew: -1}) })
		},
	})
	t.Run("one replica in a cluster is a warning", func(t *testing.T) {
		s := eventually(t, testnats.Connect(t, urls), Options{Bucket: "single", SyncAlways: true})
		if w := s.Caps().Warnings; len(w) != 1 || !strings.Contains(w[0], "one replica in a cluster") {
			t.Errorf("%q", w)
		}
	})
}

// A change that the cluster refuses because another of the key is under way has
// the other of the two error codes; both are the same to the store.
func TestBothErrorCodesMeanAnotherRevision(t *testing.T) {
	for _, code := range []jetstream.ErrorCode{10071, 10164} {
		if err := refusal(fmt.Errorf("nats: %w", &jetstream.APIError{Code: 400, ErrorCode: code})); !errors.Is(err, errLost) {
			t.Errorf("%d: %v", code, err)
		}
	}
	if err := refusal(&jetstream.APIError{Code: 503, ErrorCode: 10163}); errors.Is(err, errLost) {
		t.Error("a server that can't tell was taken for a refusal")
	}
}
