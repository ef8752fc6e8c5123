package idempotency

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gabion-go/gabion/policy"
)

// A Runner does what a [Handler] does for work that does not come by HTTP: it claims
// keys, runs work under them, keeps the claims alive and stores the results.
// Make one with [NewRunner], in tests with testing/synctest inside the bubble, with its
// store: see [Handler]. Safe for concurrent use.
type Runner struct{ core }

// RunnerConfig is how a [Runner] works, and a [Handler] with it. The zero value is sound.
type RunnerConfig struct {
	// Guarantee says what may happen to a lost run. Zero means Hold.
	Guarantee Guarantee

	// Lease is how long a run may be silent before it counts as lost. Zero means
	// 30 s. It is extended every third of it while the work runs.
	Lease time.Duration

	// MaxExecution is how long a run may take. Then its context is cancelled and its
	// lease runs out, so that work that hangs holds no key for ever. Zero means 5 min.
	MaxExecution time.Duration

	// Retention is how long a result is replayed. It must be longer than clients
	// retry. Zero means 24 h.
	Retention time.Duration

	// StoreTimeout bounds a claim. Zero means 2 s. Results get 5 s.
	StoreTimeout time.Duration

	// Wait is how long a duplicate waits for the first run's result before it gets "in
	// progress". Zero means not at all.
	Wait time.Duration

	// WaitersPerKey and Waiters bound the duplicates that wait. Zero means 64 for a
	// key and 1024 together; the next are answered at once.
	WaitersPerKey, Waiters int

	// ConnectionsPerRun is how many connections of the store's pool a run of the work
	// takes at most. Then no more runs begin than leave one for leases and results; the
	// others wait, for StoreTimeout at most, and a pool that can't bear one is refused.
	// Zero means that it is not known: then a store whose pool is bounded
	// ([Caps].Connections) is warned about. Under Tx it must be zero, for the work has
	// its transaction's connection.
	ConnectionsPerRun int

	// OwnPool says that nothing but the store uses the store's connections.
	OwnPool bool

	// Recover finds out what a lost run under Hold did, for a client that asks again:
	// StateDone with the Result, or StateRetryable if it had no effect. With any other
	// state it stays unknown. It runs at most once at a time for a key and must only
	// look. A lost run may still be at work, after a pause or cut off from the store. So
	// say StateRetryable only when it can have no effect any more; otherwise the work is
	// done twice. It may be nil.
	Recover func(context.Context, Record) (Change, error)

	// Observer receives events. Nil means none.
	Observer Observer

	// Stream receives one [policy.Event] of [policy.KindKeyDecided] for each request or run
	// with a key, so that metrics, logs and pages that take gabion's events take these,
	// too: a gabion.Observer is one. Code is the decision: first, again (a run after one that
	// failed), recover (the claim to find out is still out), replay, in_flight, mismatch, outcome_unknown, record_unreadable,
	// store_unavailable, or the [Problem] of a request whose key was not looked up, with _ for
	// each dash. Took is how long the decision took: the waiting for another run included,
	// and under Tx the run. Attempt is which run the record is of, at most
	// 255; zero where none is known. Nil means none.
	Stream interface {
		Observe(context.Context, policy.Event)
	}

	// Name is the [policy.Event.Dependency] of these events. Zero means "idempotency"; of
	// package inbox it means the group.
	Name string
}

// Validate returns everything that is wrong with the configuration.
func (c RunnerConfig) Validate() error {
	var all []error
	for _, d := range []struct {
		name string
		time.Duration
	}{{"lease", c.Lease}, {"max execution", c.MaxExecution}, {"retention", c.Retention}, {"wait", c.Wait}, {"store timeout", c.StoreTimeout}} {
		if d.Duration < 0 {
			all = append(all, fmt.Errorf("%s: %v is negative", d.name, d.Duration))
		}
	}
	all = append(all, negative("waiters per key", int64(c.WaitersPerKey)), negative("waiters", int64(c.Waiters)))
	switch {
	case c.ConnectionsPerRun < 0:
		all = append(all, fmt.Errorf("connections per run: %d is negative", c.ConnectionsPerRun))
	case c.ConnectionsPerRun > 0 && c.OwnPool:
		all = append(all, errors.New("connections per run: a run takes none of a pool that is the store's own"))
	case c.ConnectionsPerRun > 0 && c.Guarantee == GuaranteeTx:
		all = append(all, errors.New("connections per run: under tx the work has its transaction's connection"))
	}
	if c.Guarantee > GuaranteeTx {
		all = append(all, fmt.Errorf("guarantee: there is no %d", c.Guarantee))
	}
	return errors.Join(all...)
}

func (c RunnerConfig) resolved() RunnerConfig {
	c.Lease = cmp.Or(c.Lease, 30*time.Second)
	c.MaxExecution = cmp.Or(c.MaxExecution, 5*time.Minute)
	c.Retention = cmp.Or(c.Retention, 24*time.Hour)
	c.StoreTimeout = cmp.Or(c.StoreTimeout, 2*time.Second)
	c.WaitersPerKey, c.Waiters = cmp.Or(c.WaitersPerKey, 64), cmp.Or(c.Waiters, 1024)
	c.Name = cmp.Or(c.Name, "idempotency")
	return c
}

// NewRunner returns a Runner on the store, or everything that is wrong.
func NewRunner(store Store, config RunnerConfig) (*Runner, error) {
	r := new(Runner)
	if err := errors.Join(config.Validate(), r.init(store, config)); err != nil {
		return nil, fmt.Errorf("idempotency: %w", err)
	}
	r.warn()
	return r, nil
}

// Do runs work unless the key's record says otherwise. The work may use [Token],
// [Attempt], [StepKey], [NoEffect], [DoNotKeep], [CommitError] and [Phase]. Its context
// ends when the lease is lost and after MaxExecution, and not with ctx; ctx bounds the
// waiting for another run. After a panic of the work the record is settled and the panic
// continues.
//
// The answer says what happened:
//
//	DecisionRun, no error   the work ran, and its end is stored: see Record.State
//	DecisionRun, an error   the work ran, and its end is not stored: ErrLeaseLost when the
//	                        record was another's by then, else it is tried again
//	another decision        the work did not run
//	none, an error          the store did not answer. Nothing was done, except that after
//	                        ErrUnknown the next claim must find out
//
// Under Tx the work may run more than once, and only its last run counts.
func (r *Runner) Do(ctx context.Context, id ID, fingerprint [32]byte, work func(context.Context) (Result, Ending)) (Answer, error) {
	claim := r.claimOf(id, fingerprint)
	if r.tx != nil {
		return r.doTx(ctx, claim, work)
	}
	var asked time.Time
	if r.terms.Stream != nil {
		asked = time.Now()
	}
	x := new(execution)
	a, begun, err := r.ask(ctx, claim, &x.claim)
	r.decided(ctx, a, asked, err)
	if err != nil || a.Decision != DecisionRun {
		return a, err
	}
	return r.do(ctx, a, x, id, begun, work)
}

func (r *Runner) do(ctx context.Context, a Answer, x *execution, id ID, begun time.Time, work func(context.Context) (Result, Ending)) (Answer, error) {
	defer r.seats.leave()
	x.start(ctx, &r.core, id, a.Record, begun)
	defer x.life.end(nil)
	returned := false
	defer func() {
		if !returned { // a panic or Goexit goes on up
			x.stop()
			x.lost()
		}
		r.waiting.wake(id)
	}()
	res, how := work(&x.run)
	returned = true
	if x.stop() && how != EndingSucceeded && how != EndingAbandoned && how != EndingGivenUp { // the store says whether these still have the record
		how = fenced
	}
	c := x.ends(how, r.terms.Guarantee)
	switch c.State {
	case left:
		return a, ErrLeaseLost
	case StateDone:
		c.Result, a.Record.Result = res, res
	}
	a.Record.State = c.State
	err := x.settle(c)
	if c.State == StateUnknown {
		x.note(eventUnknown)
	}
	return a, err
}

func (r *Runner) doTx(ctx context.Context, claim Claim, work func(context.Context) (Result, Ending)) (Answer, error) {
	var kept, abandoned, told bool
	var granted Record
	asked := time.Now()
	defer func() {
		if !told {
			r.leftTx(ctx, granted, asked)
		}
	}()
	ask := func() (Answer, time.Time, error) {
		begun := time.Now()
		a, err := r.within(ctx, claim, func(ctx context.Context, record Record) (Result, Ending, error) {
			granted = record
			res, how, err := runTx(ctx, Ref{claim.ID, record.Token}, record.Attempt, work)
			kept, abandoned = how != EndingFailed, how == EndingAbandoned
			return res, how, err
		})
		if abandoned && errors.Is(err, errAbandoned) && !errors.Is(err, ErrUnknown) {
			a, kept, err = Answer{Decision: DecisionRun, Record: granted}, false, nil
		}
		return a, begun, err
	}
	defer r.waiting.wake(claim.ID)
	a, begun, err := ask()
	r.tell(ctx, Event{Kind: eventBegan, ID: claim.ID, Decision: a.Decision, State: a.Record.State, Took: time.Since(begun), Err: err})
	if err == nil && a.Decision == DecisionInProgress && r.terms.Wait > 0 {
		a, _, err = r.wait(ctx, claim.ID, a, ask)
	}
	told = true
	r.decided(ctx, a, asked, err)
	switch {
	case errors.Is(err, ErrUnknown):
		r.tell(ctx, Event{Kind: eventUnknown, ID: claim.ID, Err: err})
		return Answer{}, err
	case err != nil:
		return Answer{}, err
	case a.Decision == DecisionRun && kept:
		a.Record.State = StateDone
	case a.Decision == DecisionRun:
		a.Record.State = StateRetryable
	}
	return a, nil
}

// errAbandoned comes with EndingAbandoned, so that no store commits what it takes for the work's end.
var errAbandoned = errors.New("idempotency: the work was left running")

// runTx runs work inside a transaction. What took too long is rolled back, whatever
// it says: the database may have cut it short.
func runTx(ctx context.Context, ref Ref, attempt int, work func(context.Context) (Result, Ending)) (Result, Ending, error) {
	x := &run{ref: ref, attempt: attempt}
	within, cancel := context.WithCancel(ctx)
	defer cancel()
	x.Context = within
	res, how := work(x)
	if how == EndingAbandoned { // it may still use the transaction, so the store has to know; one that doesn't rolls back after an error
		return Result{}, how, errAbandoned
	}
	if err := context.Cause(ctx); err != nil {
		return Result{}, EndingFailed, err
	}
	return res, x.endsTx(how), nil
}
