package redisstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/internal/testproxy"
	"github.com/gabion-go/gabion/internal/testservers"
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

// faults are what a network does to what passes it.
var faults = []testproxy.Fault{
	{},
	{Requests: testproxy.Delay, Replies: testproxy.Delay},
	{Replies: testproxy.Lose}, // half open: requests arrive, and replies are lost
	{Requests: testproxy.Lose, Replies: testproxy.Lose},
	cut,
}

// via is a store that reaches its server through a proxy. It was not looked at, which
// a busy machine may not do in the time that an impatient client waits.
func via(t testing.TB, p *testproxy.Proxy, retries int, patience time.Duration) *Store {
	t.Helper()
	client := redis.NewClient(&redis.Options{
		Addr: p.Addr, ContextTimeoutEnabled: true, MaxRetries: retries,
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
		s := via(t, p, retries, time.Minute)
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

// H: three processes work on few keys while their networks break. A witness that
// none of them knows counts the effects. On a busy machine little happens in a lease,
// which is longer then.
func TestPartitions(t *testing.T) {
	t.Parallel()
	addr := testservers.Redis(t, durable...)
	var sum tally
	for lease := 100 * time.Millisecond; lease < 10*time.Second && !sum.enough(); lease *= 2 {
		t.Run(lease.String(), func(t *testing.T) {
			for n := range size(20, 100) {
				t.Run(fmt.Sprint(n), func(t *testing.T) {
					t.Parallel()
					newEpisode(t, addr, lease, &sum).run()
				})
			}
		})
	}
	t.Logf("%d effects, %d calls without an answer, %d leases lost, %d replays",
		sum.effects.Load(), sum.unanswered.Load(), sum.refused.Load(), sum.replayed.Load())
	if !sum.enough() {
		t.Error("too little happened to prove anything")
	}
}

// A tally is what happened in all episodes.
type tally struct{ effects, unanswered, refused, replayed atomic.Int64 }

func (t *tally) enough() bool {
	return t.effects.Load() >= 50 && t.unanswered.Load() >= 100 && t.refused.Load() >= 5 && t.replayed.Load() >= 100
}

type episode struct {
	*testing.T
	direct *rig
	nets   []*testproxy.Proxy
	stores []*Store
	begun  time.Time
	lease  time.Duration
	lasts  time.Duration
	sum    *tally

	mu      sync.Mutex // guards all below
	keys    map[string]idempotency.Claim
	effects map[string][]int64 // tokens under which the work was done
	done    map[string]int64   // token whose result was acknowledged
	replays map[string]string
}

func newEpisode(t *testing.T, addr string, lease time.Duration, sum *tally) *episode {
	e := &episode{
		T: t, direct: &rig{TB: t, client: dial(t, addr)}, lease: lease, lasts: 6 * lease, sum: sum, keys: map[string]idempotency.Claim{},
		effects: map[string][]int64{}, done: map[string]int64{}, replays: map[string]string{},
	}
	e.direct.Store = open(t, e.direct.client)
	for range 3 {
		p := testproxy.New(t, addr)
		e.nets = append(e.nets, p)
		e.stores = append(e.stores, via(t, p, rand.IntN(5)-1, lease/3))
	}
	e.begun = time.Now()
	return e
}

func (e *episode) over() bool { return time.Since(e.begun) > e.lasts }

func (e *episode) run() {
	var all sync.WaitGroup
	for _, s := range e.stores {
		for range 2 {
			all.Go(func() { e.work(s) })
		}
	}
	for !e.over() {
		fault := faults[rand.IntN(len(faults))]
		if fault.Requests == testproxy.Delay {
			fault.Most = 2 * e.lease
		}
		e.nets[rand.IntN(len(e.nets))].Set(fault)
		time.Sleep(rand.N(e.lease / 3))
	}
	e.everywhere(testproxy.Fault{})
	all.Wait()
	time.Sleep(3 * e.lease)                   // what was delayed arrives, and leases end
	e.everywhere(testproxy.Fault{Down: true}) // what has not by now never will
	e.everywhere(testproxy.Fault{})
	for key, c := range e.keys {
		e.check(key, c)
	}
}

func (e *episode) everywhere(f testproxy.Fault) {
	for _, p := range e.nets {
		p.Set(f)
	}
}

// work is what a handler does, with the store alone.
func (e *episode) work(s *Store) {
	for !e.over() {
		// Keys change, or in the end all would be done.
		key := fmt.Sprint(e.Name(), " ", time.Since(e.begun)/(e.lasts/2), " ", rand.IntN(6))
		c := claimOf(key)
		c.Guarantee = idempotency.Guarantee(len(key)+int(key[len(key)-1])) % 2
		c.Lease, c.Owner = e.lease, [16]byte{byte(rand.Int()), byte(rand.Int()), byte(rand.Int()), byte(rand.Int()), byte(rand.Int())}
		e.mu.Lock()
		e.keys[key] = c
		e.mu.Unlock()
		var a idempotency.Answer
		if e.again(3, func(ctx context.Context) (err error) { a, err = s.Begin(ctx, c); return err }) != nil {
			continue
		}
		switch a.Decision {
		case idempotency.DecisionRun:
			e.effect(s, key, idempotency.Ref{ID: c.ID, Token: a.Record.Token})
		case idempotency.DecisionReplay:
			e.replayed(key, string(a.Record.Result.Body))
		}
	}
}

// again repeats what was not answered, as package idempotency does.
func (e *episode) again(times int, do func(context.Context) error) (err error) {
	for range times {
		ctx, cancel := context.WithTimeout(context.Background(), e.lease/2)
		err = do(ctx)
		cancel()
		if err == nil || errors.Is(err, idempotency.ErrLeaseLost) {
			break
		}
		e.sum.unanswered.Add(1)
	}
	return err
}

func (e *episode) untilAnswered(do func(context.Context) error) (err error) {
	for limit := time.Now().Add(patience); time.Now().Before(limit); {
		if err = e.again(1, do); err == nil || errors.Is(err, idempotency.ErrLeaseLost) {
			break
		}
	}
	return err
}

func (e *episode) effect(s *Store, key string, ref idempotency.Ref) {
	e.sum.effects.Add(1)
	e.mu.Lock()
	if slices.Contains(e.effects[key], ref.Token) {
		e.Errorf("%s: token %d was granted twice", key, ref.Token)
	}
	e.effects[key] = append(e.effects[key], ref.Token)
	e.mu.Unlock()
	change := completed(fmt.Sprint(ref.Token))
	if rand.IntN(2) == 0 {
		time.Sleep(rand.N(2 * e.lease)) // some are overtaken
	}
	if rand.IntN(3) == 0 {
		e.again(1, func(ctx context.Context) error {
			return s.Apply(ctx, ref, idempotency.Change{State: idempotency.StateRunning, Lease: e.lease})
		})
	}
	err := e.again(3, func(ctx context.Context) error { return s.Apply(ctx, ref, change) })
	if errors.Is(err, idempotency.ErrLeaseLost) {
		e.sum.refused.Add(1)
	}
	if err != nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if first, twice := e.done[key]; twice {
		e.Errorf("%s: done by %d, and by %d", key, first, ref.Token)
	}
	e.done[key] = ref.Token
}

func (e *episode) replayed(key, body string) {
	e.sum.replayed.Add(1)
	e.mu.Lock()
	defer e.mu.Unlock()
	if first, twice := e.replays[key]; twice && first != body { // I3
		e.Errorf("%s: replayed %q, and %q", key, first, body)
	}
	e.replays[key] = body
}

// check compares the record with what the witness saw.
func (e *episode) check(key string, c idempotency.Claim) {
	ran := e.effects[key]
	if c.Guarantee == idempotency.GuaranteeHold && len(ran) > 1 { // I1
		e.Errorf("%s: %d effects under hold: %v", key, len(ran), ran)
	}
	c.Owner = [16]byte{255, 255}
	a, err := e.direct.Begin(e.Context(), c)
	for limit := time.Now().Add(patience); err == nil && a.Decision == idempotency.DecisionInProgress && time.Now().Before(limit); {
		time.Sleep(e.lease / 4) // a lease that was granted late
		a, err = e.direct.Begin(e.Context(), c)
	}
	if err != nil || a.Decision == idempotency.DecisionInProgress { // I6
		e.Errorf("%s is stuck: %v, %v", key, a.Decision, err)
	}
	last := a.Record
	if len(ran) > last.Attempt { // I1
		e.Errorf("%s: %d effects in %d attempts", key, len(ran), last.Attempt)
	}
	if token, done := e.done[key]; done && (last.State != idempotency.StateDone || last.Token != token || string(last.Result.Body) != fmt.Sprint(token)) { // I4
		e.Errorf("%s: done by %d, and now it is %v by %d: %q", key, token, last.State, last.Token, last.Result.Body)
	}
	if body, replayed := e.replays[key]; replayed && string(last.Result.Body) != body { // I2
		e.Errorf("%s: %q was replayed, and now it is %q", key, body, last.Result.Body)
	}
	before := e.direct.raw(c.ID)
	for _, token := range ran {
		if token == last.Token {
			continue
		}
		for _, s := range append(e.stores, e.direct.Store) { // the networks are whole again
			err := e.untilAnswered(func(ctx context.Context) error {
				return s.Apply(ctx, idempotency.Ref{ID: c.ID, Token: token}, completed("zombie"))
			})
			if !errors.Is(err, idempotency.ErrLeaseLost) { // I5
				e.Errorf("%s: %d was overtaken by %d, and may still change it: %v", key, token, last.Token, err)
			}
		}
	}
	if e.direct.raw(c.ID) != before {
		e.Errorf("%s: a stale token changed the record", key)
	}
}
