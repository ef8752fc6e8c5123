package idempotency

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A txShelf is the least that is a TxStore.
type txShelf struct {
	Store
	mu      sync.Mutex // guards records
	records map[ID]Record
	commit  error
	last    Ending
}

func (s *txShelf) Tx(ctx context.Context, c Claim, run Work) (Answer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := Moment(time.Now().UnixNano())
	old := s.records[c.ID]
	a, _ := old.Begin(c, now)
	if a.Decision != DecisionRun {
		return a, nil
	}
	res, how, err := run(ctx, a.Record)
	s.last = how
	if err != nil || how == EndingFailed {
		return a, err
	}
	if s.commit != nil {
		return a, s.commit
	}
	s.records[c.ID], _, err = a.Record.Apply(Ref{c.ID, a.Record.Token}, Change{State: StateDone, Result: res}, now)
	a.Record.Result = res
	return a, err
}

func newRunner(t *testing.T, config RunnerConfig) (*Runner, *faulty) {
	t.Helper()
	store := &faulty{Store: NewMemoryStore(0, 0)}
	var s Store = store
	if config.Guarantee == GuaranteeTx {
		s = &txShelf{Store: store, records: map[ID]Record{}}
	}
	r, err := NewRunner(s, config)
	if err != nil {
		t.Fatal(err)
	}
	return r, store
}

var theWork = IDOf("runner", "k")

// What each end of the work makes of the record, and what the next caller gets.
func TestRunnerEndings(t *testing.T) {
	for _, c := range []struct {
		name     string
		g        Guarantee
		how      Ending
		noEffect bool
		state    State
		next     Decision
	}{
		{"hold, succeeded", GuaranteeHold, EndingSucceeded, false, StateDone, DecisionReplay},
		{"hold, rejected", GuaranteeHold, EndingRejected, false, StateDone, DecisionReplay},
		{"hold, later", GuaranteeHold, EndingFailed, false, StateDone, DecisionReplay},
		{"hold, failed", GuaranteeHold, EndingFailed, false, StateDone, DecisionReplay},
		{"hold, lost", GuaranteeHold, EndingUnknown, false, StateUnknown, DecisionUnknown},
		{"hold, succeeded without effect", GuaranteeHold, EndingSucceeded, true, StateDone, DecisionReplay},
		{"hold, later without effect", GuaranteeHold, EndingFailed, true, StateRetryable, DecisionRun},
		{"hold, failed without effect", GuaranteeHold, EndingFailed, true, StateRetryable, DecisionRun},
		{"hold, lost without effect", GuaranteeHold, EndingUnknown, true, StateRetryable, DecisionRun},
		{"reexecute, succeeded", GuaranteeReexecute, EndingSucceeded, false, StateDone, DecisionReplay},
		{"reexecute, rejected", GuaranteeReexecute, EndingRejected, false, StateDone, DecisionReplay},
		{"reexecute, later", GuaranteeReexecute, EndingFailed, false, StateRetryable, DecisionRun},
		{"reexecute, failed", GuaranteeReexecute, EndingFailed, false, StateRetryable, DecisionRun},
		{"reexecute, lost", GuaranteeReexecute, EndingUnknown, false, StateRetryable, DecisionRun},
		{"tx, succeeded", GuaranteeTx, EndingSucceeded, false, StateDone, DecisionReplay},
		{"tx, rejected", GuaranteeTx, EndingRejected, false, StateDone, DecisionReplay},
		{"tx, later", GuaranteeTx, EndingFailed, false, StateRetryable, DecisionRun},
		{"tx, failed", GuaranteeTx, EndingFailed, false, StateRetryable, DecisionRun},
		{"tx, lost", GuaranteeTx, EndingUnknown, false, StateRetryable, DecisionRun},
		{"tx, left running, in a store that knows of two outcomes", GuaranteeTx, EndingAbandoned, false, StateRetryable, DecisionRun},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, _ := newRunner(t, RunnerConfig{Guarantee: c.g})
			work := func(ctx context.Context) (Result, Ending) {
				if Token(ctx) == 0 || Attempt(ctx) == 0 || StepKey(ctx, "x") == "" {
					t.Error("the work has no run")
				}
				if c.noEffect {
					NoEffect(ctx)
				}
				return Result{Body: []byte("it")}, c.how
			}
			a, err := r.Do(t.Context(), theWork, [32]byte{}, work)
			if err != nil || a.Decision != DecisionRun || a.Record.State != c.state {
				t.Errorf("%v %v, %v", a.Decision, a.Record.State, err)
			}
			if c.state == StateDone && string(a.Record.Result.Body) != "it" {
				t.Errorf("result %q", a.Record.Result.Body)
			}
			again, err := r.Do(t.Context(), theWork, [32]byte{}, work)
			if err != nil || again.Decision != c.next {
				t.Errorf("again: %v, %v", again.Decision, err)
			}
			if c.next == DecisionReplay && string(again.Record.Result.Body) != "it" {
				t.Errorf("replayed %q", again.Record.Result.Body)
			}
			if other, _ := r.Do(t.Context(), theWork, [32]byte{1}, work); c.state != StateRetryable && other.Decision != DecisionMismatch {
				t.Errorf("another fingerprint: %v", other.Decision)
			}
		})
	}
}

func TestRunnerLetsPanicsThrough(t *testing.T) {
	for _, c := range []struct {
		g    Guarantee
		end  func()
		next Decision
	}{
		{GuaranteeHold, func() { panic("boom") }, DecisionUnknown},
		{GuaranteeReexecute, func() { panic("boom") }, DecisionRun},
		{GuaranteeTx, func() { panic("boom") }, DecisionRun},
		{GuaranteeHold, runtime.Goexit, DecisionUnknown},
		{GuaranteeReexecute, runtime.Goexit, DecisionRun},
		{GuaranteeTx, runtime.Goexit, DecisionRun},
	} {
		r, _ := newRunner(t, RunnerConfig{Guarantee: c.g})
		passed := true
		var all sync.WaitGroup
		all.Go(func() {
			defer func() { _ = recover() }()
			r.Do(t.Context(), theWork, [32]byte{}, func(context.Context) (Result, Ending) { c.end(); return Result{}, EndingSucceeded })
			passed = false
		})
		all.Wait()
		a, err := r.Do(t.Context(), theWork, [32]byte{}, func(context.Context) (Result, Ending) { return Result{}, EndingSucceeded })
		if err != nil || a.Decision != c.next || !passed {
			t.Errorf("%v: %v, %v; it went on up: %v", c.g, a.Decision, err, passed)
		}
	}
}

func TestRunnerWorkOutlivesItsCaller(t *testing.T) {
	for _, g := range []Guarantee{GuaranteeHold, GuaranteeTx} {
		synctest.Test(t, func(t *testing.T) {
			r, _ := newRunner(t, RunnerConfig{Guarantee: g})
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			a, err := r.Do(ctx, theWork, [32]byte{}, func(ctx context.Context) (Result, Ending) {
				pass(time.Minute)
				if ctx.Err() != nil {
					t.Errorf("the work was cut short: %v", ctx.Err())
				}
				return Result{}, EndingSucceeded
			})
			if err != nil || a.Record.State != StateDone {
				t.Errorf("%v, %v", a.Record.State, err)
			}
		})
	}
}

func TestRunnerWaitersGetTheResult(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := newRunner(t, RunnerConfig{Wait: 10 * time.Second})
		runs, start := 0, time.Now()
		var all sync.WaitGroup
		for range 64 {
			all.Go(func() {
				a, err := r.Do(t.Context(), theWork, [32]byte{}, func(context.Context) (Result, Ending) {
					runs++
					pass(5 * time.Second)
					return Result{Body: []byte("it")}, EndingSucceeded
				})
				if err != nil || string(a.Record.Result.Body) != "it" {
					t.Errorf("%v %q, %v", a.Decision, a.Record.Result.Body, err)
				}
			})
		}
		all.Wait()
		if took := time.Since(start); runs != 1 || took != 5*time.Second {
			t.Errorf("%d runs, the waiters had the result after %v", runs, took)
		}
	})
}

func TestRunnerAndTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, store := newRunner(t, RunnerConfig{})
		store.fail(&store.begin, errDown)
		a, err := r.Do(t.Context(), theWork, [32]byte{}, nil)
		if a.Decision != 0 || !errors.Is(err, errDown) {
			t.Errorf("down at the claim: %v, %v", a.Decision, err)
		}
		store.fail(&store.begin, nil)
		pass(time.Minute)

		a, err = r.Do(t.Context(), theWork, [32]byte{}, func(context.Context) (Result, Ending) {
			store.fail(&store.apply, errDown)
			return Result{Body: []byte("it")}, EndingSucceeded
		})
		if a.Decision != DecisionRun || string(a.Record.Result.Body) != "it" || !errors.Is(err, errDown) {
			t.Errorf("down at the end: %v %q, %v", a.Decision, a.Record.Result.Body, err)
		}
		store.fail(&store.apply, nil)
		pass(20 * time.Second)
		if a, err = r.Do(t.Context(), theWork, [32]byte{}, nil); a.Decision != DecisionReplay || err != nil {
			t.Errorf("brought later: %v, %v", a.Decision, err)
		}
	})
}

// A run that could not extend its lease is cancelled, and another has the record.
func TestRunnerFencesItself(t *testing.T) {
	for _, c := range []struct {
		g    Guarantee
		next Decision
		err  error
	}{{GuaranteeHold, DecisionUnknown, nil}, {GuaranteeReexecute, DecisionRun, ErrLeaseLost}} {
		synctest.Test(t, func(t *testing.T) {
			r, store := newRunner(t, RunnerConfig{Guarantee: c.g, Lease: 30 * time.Second})
			a, err := r.Do(t.Context(), theWork, [32]byte{}, func(ctx context.Context) (Result, Ending) {
				store.fail(&store.apply, errDown)
				<-ctx.Done()
				store.fail(&store.apply, nil)
				return Result{}, EndingFailed
			})
			if a.Decision != DecisionRun || !errors.Is(err, c.err) {
				t.Errorf("%v: %v, %v", c.g, a.Decision, err)
			}
			pass(30 * time.Second)
			a, err = r.Do(t.Context(), theWork, [32]byte{}, func(context.Context) (Result, Ending) { return Result{}, EndingSucceeded })
			if a.Decision != c.next || err != nil {
				t.Errorf("%v, next: %v, %v", c.g, a.Decision, err)
			}
		})
	}
}

func TestWhatOutcomesMeanToTheRunner(t *testing.T) {
	for _, c := range []struct {
		how  Ending
		ask  bool // CommitError
		want Ending
	}{
		{EndingSucceeded, false, EndingSucceeded},
		{EndingRejected, false, EndingRejected},
		{EndingRejected, true, EndingSucceeded},
		{EndingFailed, true, EndingFailed},
		{EndingFailed, true, EndingFailed},
		{EndingUnknown, true, EndingFailed},
	} {
		r, _ := newRunner(t, RunnerConfig{Guarantee: GuaranteeTx})
		_, err := r.Do(t.Context(), theWork, [32]byte{}, func(ctx context.Context) (Result, Ending) {
			if c.ask {
				CommitError(ctx)
			}
			return Result{}, c.how
		})
		if got := r.store.(*txShelf).last; got != c.want || err != nil {
			t.Errorf("%+v: %v, %v", c, got, err)
		}
	}
}

// A Recover that found nothing out leaves the record as unknown as it was.
func TestRunnerRecoverInVain(t *testing.T) {
	asked := 0
	r, _ := newRunner(t, RunnerConfig{Recover: func(context.Context, Record) (Change, error) {
		asked++
		return Change{}, nil
	}})
	r.Do(t.Context(), theWork, [32]byte{}, func(context.Context) (Result, Ending) { return Result{}, EndingUnknown })
	for range 3 {
		if a, err := r.Do(t.Context(), theWork, [32]byte{}, nil); a.Decision != DecisionUnknown || err != nil {
			t.Errorf("%v, %v", a.Decision, err)
		}
	}
	if asked != 3 {
		t.Errorf("asked %d times", asked)
	}
}

func TestRunnerTxEndsThatAreNoCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := newRunner(t, RunnerConfig{Guarantee: GuaranteeTx, MaxExecution: time.Minute})
		shelf := r.store.(*txShelf)
		succeed := func(context.Context) (Result, Ending) { return Result{}, EndingSucceeded }
		for _, commit := range []error{ErrUnknown, errDown} {
			shelf.commit = commit
			if a, err := r.Do(t.Context(), theWork, [32]byte{}, succeed); a.Decision != 0 || !errors.Is(err, commit) {
				t.Errorf("%v: %v, %v", commit, a.Decision, err)
			}
		}
		shelf.commit = nil
		_, err := r.Do(t.Context(), theWork, [32]byte{}, func(ctx context.Context) (Result, Ending) {
			pass(2 * time.Minute)
			return Result{}, EndingSucceeded
		})
		if !errors.Is(err, errOverran) {
			t.Errorf("too long: %v", err)
		}
		if a, err := r.Do(t.Context(), theWork, [32]byte{}, succeed); a.Decision != DecisionRun || err != nil {
			t.Errorf("at last: %v, %v", a.Decision, err)
		}
	})
}

func TestRunnerConfig(t *testing.T) {
	for _, c := range []struct {
		store  Store
		config RunnerConfig
		want   string
	}{
		{nil, RunnerConfig{}, "store"},
		{NewMemoryStore(0, 0), RunnerConfig{Guarantee: GuaranteeTx}, "transactions"},
		{NewMemoryStore(0, 0), RunnerConfig{Guarantee: GuaranteeTx + 1}, "guarantee"},
		{NewMemoryStore(0, 0), RunnerConfig{Lease: -1}, "lease"},
		{NewMemoryStore(0, 0), RunnerConfig{Waiters: -1}, "waiters"},
	} {
		if _, err := NewRunner(c.store, c.config); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want one about %q", c.config, err, c.want)
		}
	}
}

func TestFingerprintOfParts(t *testing.T) {
	seen := map[[32]byte]string{}
	for _, parts := range [][]string{{}, {""}, {"ab"}, {"a", "b"}, {"a\x00b"}, {"", "ab"}, {"ab", ""}} {
		var raw [][]byte
		for _, p := range parts {
			raw = append(raw, []byte(p))
		}
		for _, secret := range []string{"", "s"} {
			sum := Fingerprint([]byte(secret), raw...)
			name := secret + "/" + strings.Join(parts, "|")
			if other, there := seen[sum]; there {
				t.Errorf("%q and %q are one", name, other)
			}
			seen[sum] = name
		}
	}
}
