package idempotency

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// A Runner is what a [Handler] is made of, for work that does not come by HTTP: it
// claims keys, runs work under them, keeps the claims alive and stores the results.
// Make one with [NewRunner], in tests with testing/synctest inside the bubble, with its
// store: see [Handler]. Safe for concurrent use.
type Runner struct{ core }

// RunnerConfig is how a [Runner] works. Its fields mean what those of [Config] mean
// and have the same defaults, so the zero value is sound.
type RunnerConfig struct {
	Guarantee    Guarantee     // what may happen to a lost run; zero means Hold
	Lease        time.Duration // how long a run may be silent; zero means 30 s
	MaxExecution time.Duration // how long a run may take; zero means 5 min
	Retention    time.Duration // how long results are kept; zero means 24 h
	StoreTimeout time.Duration // bounds a claim; zero means 2 s

	Wait          time.Duration // how long a duplicate waits for the first run; zero means not at all
	WaitersPerKey int           // most duplicates of a key that wait; zero means 64
	Waiters       int           // most duplicates that wait together; zero means 1024

	// ConnectionsPerRun says how many connections of the store's pool a run of the work
	// may take at once. Then no more runs begin than leave one for leases and results;
	// the others wait, for StoreTimeout at most, and a pool that can't bear one is
	// refused. OwnPool: the work takes none. Zero: it is not said, and a store with so
	// many connections and no more ([Caps].Connections) is warned about. With Tx it must
	// be zero: the work has its transaction's connection.
	ConnectionsPerRun int

	// Recover finds out what a lost run under Hold did. It may be nil.
	Recover func(context.Context, Record) (Finding, error)

	// Observer is told what happens. Nil means nobody.
	Observer Observer
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
	case c.ConnectionsPerRun < OwnPool:
		all = append(all, fmt.Errorf("connections per run: %d is negative", c.ConnectionsPerRun))
	case c.ConnectionsPerRun > 0 && c.Guarantee == Tx:
		all = append(all, errors.New("connections per run: under tx the work has its transaction's connection"))
	}
	if c.Guarantee > Tx {
		all = append(all, fmt.Errorf("guarantee: there is no %d", c.Guarantee))
	}
	return errors.Join(all...)
}

func (c RunnerConfig) resolved() RunnerConfig {
	c.Lease = or(c.Lease, 30*time.Second)
	c.MaxExecution = or(c.MaxExecution, 5*time.Minute)
	c.Retention = or(c.Retention, 24*time.Hour)
	c.StoreTimeout = or(c.StoreTimeout, 2*time.Second)
	c.WaitersPerKey, c.Waiters = or(c.WaitersPerKey, 64), or(c.Waiters, 1024)
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
// [Attempt], [DeriveKey], [NoEffect], [DoNotKeep], [CommitError] and [Phase]. Its context does
// not end with ctx, but when the lease is lost or MaxExecution has passed; ctx
// bounds the waiting for another run. A panic of the work settles the record and
// goes on up.
//
// What the answer's decision says happened, happened:
//
//	Run, no error      the work ran, and its end is stored: see Record.State
//	Run, an error      the work ran, and its end is not stored: ErrLeaseLost when the
//	                   record was another's by then, else it is tried again
//	another decision   the work did not run
//	none, an error     the store did not answer. Nothing was done, except that under
//	                   ErrCommitUnknown the next claim must find out
//
// Under Tx the work may run more than once, and only its last run counts.
func (r *Runner) Do(ctx context.Context, id ID, fingerprint [32]byte, work func(context.Context) (Result, Manner)) (Answer, error) {
	claim := r.claimOf(id, fingerprint)
	if r.tx != nil {
		return r.doTx(ctx, claim, work)
	}
	a, begun, err := r.ask(ctx, claim)
	if err != nil || a.Decision != Run {
		return a, err
	}
	return r.do(ctx, a, id, begun, work)
}

func (r *Runner) do(ctx context.Context, a Answer, id ID, begun time.Time, work func(context.Context) (Result, Manner)) (Answer, error) {
	defer r.seats.leave()
	var x execution
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
	if x.stop() && how != Succeeded {
		how = fenced
	}
	var err error
	ending, free := x.ending(how, r.terms.Guarantee)
	switch ending {
	case completes:
		a.Record.State, a.Record.Result = Done, res
		err = x.settle(Change{Event: Complete, Result: res})
	case releases:
		a.Record.State = Retryable
		err = x.settle(Change{Event: Release, Free: free})
	case abandons:
		a.Record.State = Unknown
		err = x.settle(Change{Event: Abandon})
		x.note(OutcomeLost)
	case leaves:
		err = ErrLeaseLost
	}
	return a, err
}

func (r *Runner) doTx(ctx context.Context, claim Claim, work func(context.Context) (Result, Manner)) (Answer, error) {
	var kept bool
	ask := func() (Answer, time.Time, error) {
		begun := time.Now()
		a, err := r.within(ctx, claim, func(ctx context.Context, record Record) (Result, Verdict, error) {
			res, verdict, err := runTx(ctx, Ref{claim.ID, record.Token}, record.Attempt, work)
			kept = verdict != Forget
			return res, verdict, err
		})
		return a, begun, err
	}
	defer r.waiting.wake(claim.ID)
	a, begun, err := ask()
	r.tell(ctx, Notice{Signal: Began, ID: claim.ID, Decision: a.Decision, State: a.Record.State, Took: time.Since(begun), Err: err})
	if err == nil && a.Decision == InProgress && r.terms.Wait > 0 {
		a, _, err = r.wait(ctx, claim.ID, a, ask)
	}
	switch {
	case errors.Is(err, ErrCommitUnknown):
		r.tell(ctx, Notice{Signal: OutcomeLost, ID: claim.ID, Err: err})
		return Answer{}, err
	case err != nil:
		return Answer{}, err
	case a.Decision == Run && kept:
		a.Record.State = Done
	case a.Decision == Run:
		a.Record.State = Retryable
	}
	return a, nil
}

// runTx runs work inside a transaction. What took too long is rolled back, whatever
// it says: the database may have cut it short.
func runTx(ctx context.Context, ref Ref, attempt int, work func(context.Context) (Result, Manner)) (Result, Verdict, error) {
	x := &run{ref: ref, attempt: attempt}
	within, cancel := context.WithCancel(ctx)
	defer cancel()
	x.Context = within
	res, how := work(x)
	if err := context.Cause(ctx); err != nil {
		return Result{}, Forget, err
	}
	return res, x.verdict(how), nil
}
