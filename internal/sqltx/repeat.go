package sqltx

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/gabion-go/gabion/backoff"
)

// Tries is how often [Repeat] tries.
const Tries = 3

// waits are those between tries. Their jitter parts the transactions that got in each
// other's way; the database needs no rest.
var waits = backoff.Full(10*time.Millisecond, time.Second)

// Repeat tries until an error is not to be repeated, up to three times. It waits in
// between, for a random time of up to 10 ms and then 20 ms, and does not begin a wait that
// ctx does not outlast. Last says that no other try follows.
//
// It is for the stores of idempotency keys, which have no policy. All others repeat by a
// gabion.Dependency.
func Repeat(ctx context.Context, repeatable func(error) bool, try func(last bool) error) error {
	for n := 1; ; n++ {
		err := try(n == Tries)
		if n == Tries || !repeatable(err) || !Pause(ctx, n) {
			return err
		}
	}
}

// Pause waits before the n-th repetition. It reports false if ctx ends before that.
func Pause(ctx context.Context, n int) bool {
	wait := waits.Delay(n-1, 0, rand.Float64())
	if end, ok := ctx.Deadline(); ok && time.Until(end) <= wait {
		return false
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

// statementTries bounds how often a single statement is repeated: each time another
// transaction got ahead, so contention passes.
const statementTries = 32

// UntilNoConflict repeats a statement outside of transactions, at once, as long as the
// database wants that: a read too, where transactions are serializable.
func UntilNoConflict(do func() error) (err error) {
	for range statementTries {
		if err = do(); !Conflict(err) {
			break
		}
	}
	return err
}
