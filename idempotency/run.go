package idempotency

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gabion-go/gabion/internal/idemkey"
)

// A run is one execution of the handler. It is the context that the handler sees,
// so that what belongs to the run costs nothing to find.
type run struct {
	context.Context
	store    Store // nil inside a transaction, which needs no recovery points
	ref      Ref
	attempt  int
	age      time.Duration // of the record
	noEffect atomic.Bool
	notKept  atomic.Bool   // DoNotKeep was called
	commit   atomic.Bool   // CommitError was called
	unsure   atomic.Bool   // OutcomeUnknown was called
	stream   *streamedBody // of the request; nil unless it is streamed

	mu     sync.Mutex // guards points
	points []Point
}

type runKey struct{}

// Value implements [context.Context].
func (x *run) Value(key any) any {
	if key == (runKey{}) {
		return x
	}
	return x.Context.Value(key)
}

func runOf(ctx context.Context) *run {
	x, _ := ctx.Value(runKey{}).(*run)
	return x
}

// Token returns the fencing token of the run that ctx belongs to. Of two runs for
// one key the later has the larger token: hand it to what is written to, and let
// that refuse a token smaller than one it has seen. Zero means that ctx belongs to
// no run.
func Token(ctx context.Context) int64 {
	if x := runOf(ctx); x != nil {
		return x.ref.Token
	}
	return 0
}

// Age returns how long before the run of ctx the first run of its key began, by the store's
// clock; zero outside of a run, and under Tx, where a run that is rolled back leaves nothing.
func Age(ctx context.Context) time.Duration {
	if x := runOf(ctx); x != nil {
		return max(x.age, 0)
	}
	return 0
}

// Attempt returns how many runs for the key are on record, that of ctx included.
// What Tx rolled back left no trace and does not count, nor does what came before an
// answer that was not kept ([DoNotKeep]). Zero means that ctx belongs
// to no run.
func Attempt(ctx context.Context) int {
	if x := runOf(ctx); x != nil {
		return x.attempt
	}
	return 0
}

// StepKey returns an idempotency key for a call that the run makes to another system: the same
// in every run for the request's key, another for each step, each key and each scope. It is 64
// hex digits. It is empty when ctx belongs to no run, because then a retry has nothing in
// common.
func StepKey(ctx context.Context, step string) string {
	if x := runOf(ctx); x != nil {
		return idemkey.Derive(x.ref.ID, step)
	}
	return ""
}

// NoEffect declares that the run has had no effect so far and will have none: a
// limiter or breaker refused, a connection was never made. When the response then
// asks to come back later or is a 5xx, or the handler panics, the next request for
// the key runs anew, also under [GuaranteeHold].
func NoEffect(ctx context.Context) {
	if x := runOf(ctx); x != nil {
		x.noEffect.Store(true)
	}
}

// DoNotKeep declares what [NoEffect] does, and that the answer is not to be kept if it is
// an error: the next request for the key runs anew, with whatever body. It is for what is
// found out before anything is done and may be otherwise next time: a caller without
// rights, something that is missing or locked, a request that is not valid. A success is
// kept all the same, and under [GuaranteeTx] so is what [CommitError] commits. See
// [Config].NotKept, which says so of statuses.
func DoNotKeep(ctx context.Context) {
	if x := runOf(ctx); x != nil {
		x.decline()
	}
}

func (x *run) decline() {
	x.noEffect.Store(true)
	x.notKept.Store(true)
}

// OutcomeUnknown declares that the run may have had an effect and that there is no finding
// out here: what it called was sent, and no answer came. Unless its own answer is a success,
// the outcome is then that of a run that was lost: under [GuaranteeHold] the key is held as
// unknown and is never run again by itself, and that is what the client hears in the place of an
// error that retries would get for ever as if it were the answer. Under [GuaranteeReexecute]
// the next request runs. Outside of a run it does nothing.
func OutcomeUnknown(ctx context.Context) {
	if x := runOf(ctx); x != nil {
		x.unsure.Store(true)
	}
}

// CommitError asks, under [GuaranteeTx], to commit the run's effects though the response is
// a 4xx. Without it they are rolled back and the response alone is kept.
func CommitError(ctx context.Context) {
	if x := runOf(ctx); x != nil {
		x.commit.Store(true)
	}
}

// Phase runs a part of the work once over all runs for a key, as far as can be
// known: what fn returns is stored as a recovery point, and a later run gets it
// without running fn. When a run is lost between the end of fn and the point, fn
// runs again; so calls to others inside fn belong under DeriveKey(ctx, name).
//
// A point is kept until the work is done; a record has room for 32 of them with
// 64 KiB together. While a streamed body ([Config].MaxStreamedBody) was not read to its
// end, fn runs and no point is stored: the next run might get another body. An error of
// fn is returned and not stored. After an error of the store fn has run and the work
// should stop: it has lost its lease, or will. Under Tx and outside of a run Phase just
// runs fn.
func Phase(ctx context.Context, name string, fn func(context.Context) ([]byte, error)) ([]byte, error) {
	x := runOf(ctx)
	if x == nil || x.store == nil {
		return fn(ctx)
	}
	if data, found := x.point(name); found {
		return data, nil
	}
	data, err := fn(ctx)
	switch {
	case err != nil:
		return nil, err
	case !x.verified():
		return data, nil
	}
	p := Point{Name: name, Data: slices.Clone(data)}
	if err := x.store.Apply(ctx, x.ref, Change{State: StateRunning, Point: &p}); err != nil {
		return data, fmt.Errorf("idempotency: phase %s ran and its recovery point was not stored: %w", name, err)
	}
	x.mu.Lock()
	x.points = append(x.points, p)
	x.mu.Unlock()
	return data, nil
}

// verified reports whether the request's body is what its client said it would be. One
// that was read before the claim is.
func (x *run) verified() bool { return x.stream == nil || x.stream.verified.Load() }

func (x *run) point(name string) ([]byte, bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, p := range x.points {
		if p.Name == name {
			return slices.Clone(p.Data), true
		}
	}
	return nil, false
}
