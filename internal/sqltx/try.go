package sqltx

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"net"
	"net/url"
	"reflect"
	"slices"

	"github.com/gabion-go/gabion/classify"
	"github.com/gabion-go/gabion/policy"
)

// A Fate is what became of a transaction.
type Fate uint8

// The zero Fate is the good one.
const (
	Committed  Fate = iota
	NotBegun        // there was none
	Undone          // nothing of it is or will be in the database, and its work did nothing else that we know of
	RolledBack      // nor is it here, but its error is not the database's: what else failed may have done something
	Unknown         // COMMIT was sent, and the database did not say what became of it
	Ended           // its work ended it, or something else did, so that parts of it may be there
)

// An End is what a rollback says of the transaction.
type End uint8

// The ends of a transaction that is not to be committed.
const (
	EndAnswered End = iota // the database rolled it back
	EndLost                // its connection is gone, and it with it
	EndByWork              // it was over already: the work committed it or rolled it back
	EndUnproven            // the database refused the rollback
)

// Errors that a [Failure] holds beside the one that it is of.
var (
	ErrCommitUnknown = errors.New("COMMIT was sent, and whether it was carried out is not known")
	ErrEnded         = errors.New("the work ended its transaction itself, or the database did, so what it did may stand")
	ErrFailedBefore  = errors.New("a statement of the transaction had failed, and its work returned no error")
)

// A Failure is a try that did not commit, or may not have.
type Failure struct {
	Fate     Fate
	Err      error
	Recorded bool // the next try finds out, by its record, what became of this one
	Answered bool // the database answered the rollback, and the time was not over
	own      bool // see Blame
}

// Blame takes what the dependency's classifier says of Err. An unclassified error is the work's
// own, such as "not enough money", if the database answered the rollback: it is no failure of the
// database.
func (f *Failure) Blame(means policy.Outcome) {
	f.own = f.Answered && means.Class == policy.ClassUnclassified && means.Code == ""
}

// Error says what is not known beside the error itself.
func (f *Failure) Error() string {
	if name := f.name(); name != nil && f.Err != nil {
		return name.Error() + ": " + f.Err.Error()
	} else if name != nil {
		return name.Error()
	}
	return f.Err.Error()
}

func (f *Failure) name() error {
	switch f.Fate {
	case Unknown:
		return ErrCommitUnknown
	case Ended:
		return ErrEnded
	}
	return nil
}

// Is reports whether target is the name of an unknown outcome, if this is one.
func (f *Failure) Is(target error) bool {
	name := f.name()
	return name != nil && (target == name || target == error(policy.OutcomeUnknown))
}

// Doubtful reports whether the try may have had an effect.
func (f *Failure) Doubtful() bool { return f.Fate > Undone }

// Unwrap returns the error of BEGIN, of the work or of COMMIT.
func (f *Failure) Unwrap() error { return f.Err }

// Outcome is what the error of a [Try] means, but for its class: that is the classifier's
// of the dependency, except where the driver of MySQL has no type for a connection that
// broke. What may have been committed is not repeated, whatever else says that it is safe.
func Outcome(err error) (o policy.Outcome) {
	f, ok := errors.AsType[*Failure](err)
	if !ok {
		return o
	}
	if says(f.Err, mysqlLost) {
		o.Class = policy.ClassNetwork
	}
	switch f.Fate {
	case NotBegun:
		o.NeverSent = true
	case Undone:
		o.Undone = true
		if f.own && o.Class == policy.ClassUndecided {
			o.Class = policy.ClassBusiness
		}
	case Unknown, Ended:
		o.Effect, o.Stop = policy.UnknownEffect, !f.Recorded
	}
	return o
}

// Ends begins and ends the transactions of one library. Each value is for one transaction.
type Ends[T any] interface {
	// Begin begins a transaction, or returns an error.
	Begin(ctx context.Context) (T, error)
	// Commit commits it, and says what became of it. After Committed the error is nil.
	Commit(ctx context.Context, tx T) (Fate, error)
	// Rollback ends it without. It takes a bounded time, also if ctx has ended.
	Rollback(ctx context.Context, tx T) End
}

// Try makes one transaction. Its error, if it is not nil, is a [*Failure]. Whatever work
// does, a panic and runtime.Goexit included, the transaction has ended when Try is left.
func Try[T any](ctx context.Context, by Ends[T], work func(context.Context, T) error) error {
	tx, err := by.Begin(ctx)
	if err != nil {
		return &Failure{Fate: NotBegun, Err: err}
	}
	over := false
	defer func() {
		if !over {
			by.Rollback(ctx, tx)
		}
	}()
	err = work(ctx, tx)
	if err == nil {
		err = ctx.Err() // and nothing is sent
	}
	if err != nil {
		end := by.Rollback(ctx, tx)
		over = true
		return &Failure{Fate: FateOf(end, err), Err: err, Answered: end == EndAnswered && ctx.Err() == nil}
	}
	fate, err := by.Commit(ctx, tx)
	over = true
	switch {
	case fate == Committed:
		return nil
	case madeRollback(err):
		err = errors.Join(ErrFailedBefore, err)
	}
	return &Failure{Fate: fate, Err: err}
}

// FateOf is that of a transaction which ended with an error of its work.
func FateOf(end End, err error) Fate {
	switch {
	case end == EndByWork, end == EndUnproven:
		return Ended
	case foreign(err, end == EndAnswered):
		return RolledBack
	}
	return Undone
}

// FateOfCommit reads an error of a COMMIT that was sent.
func FateOfCommit(err error) Fate {
	switch {
	case err == nil:
		return Committed
	case Answered(err):
		return Undone
	}
	return Unknown
}

// EndOf reads the error of a rollback.
func EndOf(err error) End {
	switch {
	case err == nil:
		return EndAnswered
	case errors.Is(err, sql.ErrTxDone):
		return EndByWork
	case errors.Is(err, driver.ErrBadConn), says(err, mysqlLost):
		return EndLost
	}
	switch classify.Error(err).Class {
	case policy.ClassNetwork, policy.ClassTimeout, policy.ClassServer, policy.ClassIgnored:
		return EndLost // a server that rolls back because it ends, too
	}
	return EndUnproven
}

// A teller is an error that says what it means, as the marks of package classify do.
type teller interface {
	error
	Outcome() policy.Outcome
}

// foreign reports whether err is not the database's, and of something that may have had an
// effect: a call that work makes of another service. The network error of a connection over
// which the database then rolled back is not that connection's.
func foreign(err error, answered bool) bool {
	if _, ok := errors.AsType[*url.Error](err); ok || remote(err) {
		return true
	}
	o := classify.Error(err)
	if o.Stop && o.Effect == policy.UnknownEffect {
		return true // of a call that gave up on its own retries, as gabion's do
	}
	if !answered || StateOf(err) != "" || sqliteCode(err) != 0 || errors.Is(err, driver.ErrBadConn) {
		return false
	}
	if _, ok := errors.AsType[net.Error](err); ok && !errors.Is(err, context.DeadlineExceeded) {
		return true
	}
	if _, ok := errors.AsType[teller](err); ok {
		return false // its marks say what it is, and it is not of a network
	}
	return slices.Contains([]policy.Class{policy.ClassNetwork, policy.ClassServer, policy.ClassThrottled}, o.Class)
}

// remote reports whether err holds one of gRPC's, of whatever library.
func remote(err error) bool {
	if err == nil {
		return false
	}
	if _, is := reflect.TypeOf(err).MethodByName("GRPCStatus"); is {
		return true
	}
	switch x := err.(type) { //nolint:errorlint // this is the walk
	case interface{ Unwrap() error }:
		return remote(x.Unwrap())
	case interface{ Unwrap() []error }:
		return slices.ContainsFunc(x.Unwrap(), remote)
	}
	return false
}
