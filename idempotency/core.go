package idempotency

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"log/slog"
	jitter "math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// A core claims keys, keeps the claims alive and brings the ends of runs to the
// store. [Handler] and [Runner] are what they add to it.
type core struct {
	terms   RunnerConfig // resolved
	store   Store
	tx      TxStore // the same store, with Tx
	waiting waitingRoom
	seats   seats        // for runs, if the store's connections are shared with the work
	beats   sync.Pool    // of *heartbeat
	later   atomic.Int64 // goroutines that bring an end to the store after its answer was sent
	nonce   [8]byte
	claims  atomic.Uint64
	made    time.Time // the origin of the instants that Stream gets
}

// init sets the core up with terms that are valid, and returns what is wrong with
// the store.
func (c *core) init(store Store, terms RunnerConfig) error {
	if store == nil {
		return errors.New("the store is missing")
	}
	c.terms, c.store, c.made = terms.resolved(), store, time.Now()
	if terms.Guarantee == GuaranteeTx {
		c.tx, _ = store.(TxStore)
		if c.tx == nil {
			return errors.New("guarantee tx: the store has no transactions")
		}
	}
	var err error
	if c.seats, err = newSeats(store.Caps().Connections, terms.ConnectionsPerRun); err != nil {
		return err
	}
	c.waiting.perKey, c.waiting.max = c.terms.WaitersPerKey, c.terms.Waiters
	rand.Read(c.nonce[:]) // never fails (crypto/rand)
	return nil
}

// warn tells what weakens the store, in the default log if there is no observer: a
// service must not learn from a power cut that its keys don't survive one.
func (c *core) warn() {
	to := c.terms.Observer
	if to == nil {
		to = LogTo(slog.Default())
	}
	caps := c.store.Caps()
	warnings := caps.Warnings
	if !caps.Durable && len(warnings) == 0 {
		warnings = []string{notDurable}
	}
	if caps.Connections > 0 && c.terms.ConnectionsPerRun == 0 && !c.terms.OwnPool && c.terms.Guarantee != GuaranteeTx {
		warnings = append(slices.Clip(warnings), sharedPool(caps.Connections))
	}
	for _, w := range warnings {
		c.tellTo(context.Background(), to, Event{Kind: eventStoreUnsafe, Err: errors.New(w)})
	}
}

// notDurable is said of a store that is not durable and does not say why.
const notDurable = "the store is not durable: after a crash or a restart it may have forgotten what was begun or done, and then that runs again, whatever the guarantee: take a store that is (docs/idempotency.md#stores)"

// claimOf returns a claim of a key.
func (c *core) claimOf(id ID, fingerprint [32]byte) Claim {
	return Claim{
		ID: id, Fingerprint: fingerprint, Owner: c.owner(), Guarantee: c.terms.Guarantee,
		Lease: c.terms.Lease, Retention: c.terms.Retention, Recover: c.terms.Recover != nil,
	}
}

// owner returns a nonce for a claim: unique across processes by its random half,
// within one by its counter.
func (c *core) owner() (o [16]byte) {
	copy(o[:], c.nonce[:])
	binary.BigEndian.PutUint64(o[8:], c.claims.Add(1))
	return o
}

// ask claims a key outside of transactions: it waits for another run and finds out
// about a lost one, as configured. Bound is memory for the context of the first claim. It
// returns when the claim began.
func (c *core) ask(ctx context.Context, claim Claim, bound *lateContext) (Answer, time.Time, error) {
	a, begun, err := c.begin(ctx, claim, bound)
	if err == nil && a.Decision == DecisionInProgress && c.terms.Wait > 0 {
		a, begun, err = c.wait(ctx, claim.ID, a, func() (Answer, time.Time, error) { return c.claimIn(ctx, claim, new(lateContext), 1) })
	}
	if err == nil && a.Decision == DecisionRecover {
		c.findOut(ctx, claim.ID, a.Record, begun)
		claim.Recover, claim.Owner = false, c.owner()
		a, begun, err = c.begin(ctx, claim, new(lateContext))
	}
	if err != nil && !refused(err) {
		c.disown(ctx, claim)
	}
	return a, begun, err
}

// begin claims, and tells.
func (c *core) begin(ctx context.Context, claim Claim, bound *lateContext) (Answer, time.Time, error) {
	a, begun, err := c.claim(ctx, claim, bound)
	if c.terms.Observer == nil {
		return a, begun, err
	}
	c.tell(ctx, Event{Kind: eventBegan, ID: claim.ID, Decision: a.Decision, State: a.Record.State, Attempt: a.Record.Attempt, Took: time.Since(begun), Err: err})
	if a.Decision == DecisionUnknown {
		c.tell(ctx, Event{Kind: eventUnknown, ID: claim.ID, State: StateUnknown, Attempt: a.Record.Attempt})
	}
	return a, begun, err
}

// claimTries is how often a claim without an answer is repeated: with the same
// owner that is safe, and a claim that was granted unheard would block the key.
const claimTries = 3

// claim asks the store. It does not end when the client goes, so that every claim that is
// granted is known here. Bound, which is unused, becomes its context. It returns when it began:
// the lease did not begin before. A caller that may run or find out has a seat, and leaves it
// afterwards.
func (c *core) claim(ctx context.Context, claim Claim, bound *lateContext) (a Answer, begun time.Time, err error) {
	return c.claimIn(ctx, claim, bound, claimTries)
}

// claimIn is claim with the number of times that it may ask the store.
func (c *core) claimIn(ctx context.Context, claim Claim, bound *lateContext, tries int) (a Answer, begun time.Time, err error) {
	begun = time.Now()
	bound.Context, bound.edge = ctx, begun.Add(c.terms.StoreTimeout)
	defer bound.end(nil)
	if c.seats != nil {
		if !c.seats.take(bound) {
			return a, begun, errNoSeat
		}
		begun = time.Now()
	}
	defer func() {
		if err != nil || a.Decision != DecisionRun && a.Decision != DecisionRecover {
			c.seats.leave()
		}
	}()
	pause := 10 * time.Millisecond
	for n := 1; ; n++ {
		a, err = c.store.Begin(bound, claim)
		if err == nil || refused(err) || n == tries || !sleep(bound, spread(pause)) {
			return a, begun, err
		}
		pause *= 4
	}
}

// refused reports whether the store answered, and said no.
func refused(err error) bool {
	return err == errNoSeat || errors.Is(err, ErrFull) || errors.Is(err, ErrUnreadable) || errors.Is(err, ErrTooLarge) || errors.Is(err, ErrLeaseLost)
}

// spread draws a wait from half of pause to one and a half, so that requests that failed together do not ask
// the store again together.
func spread(pause time.Duration) time.Duration { return pause/2 + jitter.N(max(pause, 1)) }

// sleep waits and reports whether ctx still lives.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// resultTimeout bounds the storing of a result. It does not depend on the client.
const resultTimeout = 5 * time.Second

// apply makes a change. A body that is too large for the store is left out: what
// was done stays done.
func (c *core) apply(ctx context.Context, ref Ref, change Change) error {
	return c.applyIn(&lateContext{Context: ctx, limit: resultTimeout}, ref, change)
}

// applyIn is apply with the context that bounds it. It ends that.
func (c *core) applyIn(bound *lateContext, ref Ref, change Change) error {
	defer bound.end(nil)
	ctx := bound.Context
	err := c.store.Apply(bound, ref, change)
	if errors.Is(err, ErrTooLarge) && change.State == StateDone {
		c.tell(ctx, Event{Kind: eventBodyOmitted, ID: ref.ID})
		change.Result.Body, change.Result.Omitted = nil, true
		err = c.store.Apply(bound, ref, change)
	}
	if errors.Is(err, ErrTooLarge) && change.State == StateDone { // it is the headers
		change.Result = Result{Status: change.Result.Status, Omitted: true}
		err = c.store.Apply(bound, ref, change)
	}
	return err
}

// Bounds of what is brought to the store after its response.
const (
	maxLater   = 256 // goroutines: more would only press a store that is down
	laterTries = 5
)

// bring tries a change again, five times in about half a lease: so much is left of it.
func (c *core) bring(ctx context.Context, ref Ref, change Change) {
	c.afterwards(func() {
		pause := c.terms.Lease / 64
		var err error
		for range laterTries {
			sleep(ctx, spread(pause)) // 1+2+4+8+16 of 64 parts, on average
			pause *= 2
			if err = c.apply(ctx, ref, change); err == nil || errors.Is(err, ErrLeaseLost) {
				break
			}
		}
		if err != nil {
			c.tell(ctx, Event{Kind: eventCompleteFailed, ID: ref.ID, Final: true, Err: err})
		}
		c.waiting.wake(ref.ID)
	}, func() { c.tell(ctx, Event{Kind: eventCompleteFailed, ID: ref.ID, Final: true, Err: errTooMany}) })
}

var errTooMany = errors.New("idempotency: too much waits to be brought to the store")

// disown gives a claim back that may have been granted unheard: nothing ran under
// it, and without this the key would be blocked, under Hold for ever.
func (c *core) disown(ctx context.Context, claim Claim) {
	ctx = context.WithoutCancel(ctx)
	failed := func(err error) {
		c.tell(ctx, Event{Kind: eventCompleteFailed, ID: claim.ID, Final: true, Err: err})
	}
	c.afterwards(func() {
		pause := c.terms.Lease / 64
		var err error
		for range laterTries {
			sleep(ctx, spread(pause))
			pause *= 2
			if err = c.giveBack(ctx, claim); err == nil || refused(err) {
				return
			}
		}
		failed(err)
	}, func() { failed(errTooMany) })
}

// giveBack repeats a claim, once, to learn what it was granted, and undoes that. Its caller tries again.
func (c *core) giveBack(ctx context.Context, claim Claim) error {
	a, _, err := c.claimIn(ctx, claim, new(lateContext), 1)
	if err != nil {
		return err
	}
	ref := Ref{claim.ID, a.Record.Token}
	switch a.Decision {
	case DecisionRun, DecisionRecover:
		defer c.seats.leave()
	}
	switch a.Decision {
	case DecisionRun:
		return c.apply(ctx, ref, Change{State: StateRetryable, Unrun: true})
	case DecisionRecover:
		return c.apply(ctx, ref, Change{State: StateUnknown})
	}
	return nil
}

var errNoClaim = errors.New("idempotency: the store did not decide a claim in time")

// within runs work in a transaction. It bounds the claim, until work begins, and the
// whole.
func (c *core) within(ctx context.Context, claim Claim, work Work) (Answer, error) {
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), c.terms.MaxExecution, errOverran)
	defer cancel()
	ctx, late := context.WithCancelCause(ctx)
	defer late(nil)
	timer := time.AfterFunc(c.terms.StoreTimeout, func() { late(errNoClaim) })
	defer timer.Stop()
	return c.tx.Tx(ctx, claim, func(ctx context.Context, record Record) (Result, Ending, error) {
		timer.Stop()
		return work(ctx, record)
	})
}

// afterwards runs work in a goroutine, or instead when there are too many.
func (c *core) afterwards(work, instead func()) {
	if c.later.Add(1) > maxLater {
		c.later.Add(-1)
		instead()
		return
	}
	go func() {
		defer c.later.Add(-1)
		work()
	}()
}
