package crash

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/gabion-go/gabion/idempotency"
)

// Several holders fight over each key, with several operations each.
const (
	holders = 4
	steps   = 16
)

// B: whatever many holders do to a key at once, there is an order in which the
// model would have answered the same; and leases end no earlier and no later than
// they were granted for.
func TestStoresAreLinearizable(t *testing.T) {
	t.Parallel()
	for _, kind := range stores {
		ops := 12000
		if kind.name == "sqlite" || kind.name == "postgres" || kind.name == "mysql" {
			ops = 3000
		}
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			store, err := kind.open(t.Context(), kind.start(t, inMemory(t)), func() {})
			if err != nil {
				t.Fatal(err)
			}
			defer store.close()
			seed := seedOf(t)
			n, bad := fight(store, kind, seed, soak(ops, 150000))
			if bad != nil {
				t.Error(bad)
			}
			t.Logf("%d operations", n)
		})
	}
}

// The model is itself checked: stores with a flaw are found.
func TestFlawedStoresAreRejected(t *testing.T) {
	t.Parallel()
	memory := storeNamed("memory")
	for name, flawed := range map[string]func(idempotency.Store) idempotency.Store{
		"changes without comparing the token":    func(s idempotency.Store) idempotency.Store { return withoutCAS{s} },
		"stale reads":                            func(s idempotency.Store) idempotency.Store { return &stale{Store: s} },
		"a released key is free for any request": func(s idempotency.Store) idempotency.Store { return freeing{s, true} },
		"a key that was freed is not":            func(s idempotency.Store) idempotency.Store { return freeing{s, false} },
		"leases that end early":                  func(s idempotency.Store) idempotency.Store { return hasty{s, 2} },
		"leases that end late":                   func(s idempotency.Store) idempotency.Store { return hasty{s, 0.2} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n, bad := fight(flawed(idempotency.NewMemoryStore(0, 0)), memory, seedOf(t), 12000)
			if bad == nil {
				t.Errorf("%d operations of a flawed store were all explained", n)
			}
			t.Logf("found in %d operations", n)
		})
	}
}

// withoutCAS takes every change, without comparing.
type withoutCAS struct{ idempotency.Store }

func (s withoutCAS) Apply(ctx context.Context, ref idempotency.Ref, c idempotency.Change) error {
	r, err := s.Get(ctx, ref.ID)
	if err != nil {
		return err
	}
	return s.Store.Apply(ctx, idempotency.Ref{ID: ref.ID, Token: r.Token}, c)
}

// freeing frees all keys that are released, or none.
type freeing struct {
	idempotency.Store
	all bool
}

func (s freeing) Apply(ctx context.Context, ref idempotency.Ref, c idempotency.Change) error {
	c.Free = s.all && c.State == idempotency.StateRetryable && !c.Operator
	return s.Store.Apply(ctx, ref, c)
}

// stale answers some reads with what it read last time, as a replica would.
type stale struct {
	idempotency.Store
	last sync.Map // idempotency.ID to idempotency.Record
}

func (s *stale) Get(ctx context.Context, id idempotency.ID) (idempotency.Record, error) {
	r, err := s.Store.Get(ctx, id)
	if old, there := s.last.Swap(id, r); there && rand.IntN(4) == 0 {
		return old.(idempotency.Record), nil
	}
	return r, err
}

// hasty has a clock that runs speed times too fast.
type hasty struct {
	idempotency.Store
	speed float64
}

func (s hasty) Begin(ctx context.Context, c idempotency.Claim) (idempotency.Answer, error) {
	c.Lease = time.Duration(float64(c.Lease) / s.speed)
	return s.Store.Begin(ctx, c)
}

func (s hasty) Apply(ctx context.Context, ref idempotency.Ref, c idempotency.Change) error {
	c.Lease = time.Duration(float64(c.Lease) / s.speed)
	return s.Store.Apply(ctx, ref, c)
}

// fight runs holders on keys until ops operations are made or a key's history can't be explained, which
// is returned with the number of operations.
func fight(store idempotency.Store, kind *storeKind, seed uint64, ops int) (n int, bad error) {
	began := time.Now()
	var made atomic.Int64
	var found atomic.Pointer[error]
	crowd(4, func(lane int) {
		for key := lane; int(made.Load()) < ops && found.Load() == nil; key += 4 {
			history := contest(store, kind, began, seed, key)
			made.Add(int64(len(history)))
			if err := explain(history); err != nil {
				err = fmt.Errorf("key %d: %w", key, err)
				found.CompareAndSwap(nil, &err)
			}
		}
	})
	if err := found.Load(); err != nil {
		bad = *err
	}
	return int(made.Load()), bad
}

// contest runs the holders of one key and returns what each saw.
func contest(store idempotency.Store, kind *storeKind, began time.Time, seed uint64, key int) (history []porcupine.Operation) {
	var mu sync.Mutex // guards history
	crowd(holders, func(i int) {
		c := &contender{
			store: store, kind: kind, began: began, rand: rand.New(rand.NewPCG(seed, uint64(key*holders+i))),
			claim: idempotency.Claim{
				ID: idempotency.IDOf("fight", fmt.Sprint(seed, key)), Guarantee: guarantees[key%2], Lease: kind.lease, Retention: time.Hour,
			},
		}
		for range steps {
			o := c.step()
			mu.Lock()
			history = append(history, porcupine.Operation{ClientId: i, Input: o, Call: int64(o.call), Return: int64(o.back)})
			mu.Unlock()
		}
	})
	return history
}

func explain(history []porcupine.Operation) error {
	for _, o := range history {
		if err := o.Input.(modelOp).err; err != nil {
			return err
		}
	}
	if porcupine.CheckOperations(recordModel, history) {
		return nil
	}
	slices.SortFunc(history, func(a, b porcupine.Operation) int { return int(a.Call - b.Call) })
	var b strings.Builder
	for _, o := range history {
		fmt.Fprintf(&b, "\n\t%d: %v", o.ClientId, o.Input)
	}
	return fmt.Errorf("no order explains%s", b.String())
}

// A contender is one of the holders that fight for a key.
type contender struct {
	store idempotency.Store
	kind  *storeKind
	began time.Time
	rand  *rand.Rand
	claim idempotency.Claim
	token int64 // that it holds, or held
}

func (c *contender) step() modelOp {
	if c.rand.IntN(4) == 0 {
		time.Sleep(time.Duration(c.rand.Int64N(int64(2 * c.kind.lease)))) // long enough to lose a lease
	}
	o := modelOp{guarantee: c.claim.Guarantee, lease: c.kind.lease, tick: c.kind.tick}
	switch n := c.rand.IntN(20); {
	case c.token == 0 || n < 4:
		c.begin(&o)
	case n < 7:
		c.get(&o)
	case n == 7:
		c.change(&o, idempotency.StateDone)
	case n < 11:
		c.change(&o, idempotency.StateRetryable)
	case n == 11:
		c.change(&o, idempotency.StateUnknown)
	case n < 14:
		o.operator = true
		c.change(&o, idempotency.StateRetryable)
	default:
		c.change(&o, idempotency.StateRunning)
	}
	return o
}

func (c *contender) begin(o *modelOp) {
	o.begin, o.request = true, 1
	if c.rand.IntN(8) == 0 {
		o.request = 2
	}
	claim := c.claim
	claim.Owner = [16]byte{1}
	for i := 1; i < len(claim.Owner); i++ {
		claim.Owner[i] = byte(c.rand.Uint32())
	}
	claim.Fingerprint[0] = o.request
	o.call = time.Since(c.began)
	a, err := c.store.Begin(context.Background(), claim)
	o.back, o.err = time.Since(c.began), err
	o.decision, o.token, o.attempt, o.result = a.Decision, a.Record.Token, a.Record.Attempt, string(a.Record.Result.Body)
	if a.Decision != idempotency.DecisionMismatch && a.Decision != idempotency.DecisionInProgress {
		c.token = a.Record.Token // perhaps another's: it may be resolved by anybody, and a zombie goes on under an old one
	}
}

func (c *contender) get(o *modelOp) {
	o.get = true
	o.call = time.Since(c.began)
	r, err := c.store.Get(context.Background(), c.claim.ID)
	o.back, o.err = time.Since(c.began), err
	o.state, o.token, o.attempt, o.result = r.State, r.Token, r.Attempt, string(r.Result.Body)
}

func (c *contender) change(o *modelOp, to idempotency.State) {
	o.to, o.token = to, c.token
	change := idempotency.Change{State: to, Operator: o.operator, Lease: c.kind.lease}
	if to == idempotency.StateRetryable && !o.operator {
		o.free = c.rand.IntN(2) == 0
		change.Free = o.free
	}
	if to == idempotency.StateDone {
		o.result = fmt.Sprint("by ", c.token)
		change.Result = idempotency.Result{Status: 200, Body: []byte(o.result)}
	}
	o.call = time.Since(c.began)
	err := c.store.Apply(context.Background(), idempotency.Ref{ID: c.claim.ID, Token: c.token}, change)
	o.back, o.lost = time.Since(c.began), errors.Is(err, idempotency.ErrLeaseLost)
	if !o.lost {
		o.err = err
	}
}
