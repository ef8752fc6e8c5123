package inbox

import (
	"errors"
	"time"
)

// Why a message is not run, in [Disposition].Err, and why the context of its work ended. See
// context.Cause.
var (
	// ErrExpired: the message's deadline has passed.
	ErrExpired = errors.New("inbox: the message's deadline has passed")

	// ErrNeverEnded: runs of the message's work began and were lost with their processes.
	ErrNeverEnded = errors.New("inbox: runs of the work began and never ended")

	// ErrAbandoned: the work did not return in time and goes on by itself, so it may still have
	// its effect. Package consumer gives it, and Handle takes nothing for undone that the work
	// said before: under Hold the outcome is unknown, and under Tx the transaction is cut off.
	ErrAbandoned = errors.New("inbox: the work was left running")
)

// A Verb is what to tell the broker about a message.
type Verb uint8

const (
	Retry      Verb = iota // deliver it again, not before After. The zero value, for it loses nothing
	Ack                    // it is done
	DeadLetter             // put it aside for an operator; if that fails, deliver it again
)

// String returns retry, ack or dead_letter.
func (v Verb) String() string {
	if int(v) < len(verbs) {
		return verbs[v]
	}
	return "invalid"
}

var verbs = [...]string{"retry", "ack", "dead_letter"}

// A Cause says why a message gets its Verb, and is meant as the label of a metric:
//
//	done               Ack         the work ran, and that is on record
//	duplicate          Ack         it was done before; nothing ran
//	failed             Retry       the work returned an error or panicked, and may be repeated
//	in_progress        Retry       another consumer works on it
//	store_unavailable  Retry       the store did not answer; nothing ran
//	record_unreadable  Retry       the record is damaged, or of a newer program; nothing ran
//	not_recorded       Retry       the work ran, and that could not be stored, or another has the record
//	commit_unknown     Retry       the answer to COMMIT was lost; the next delivery finds out
//	stopped            Retry       Handle's context had ended before anything ran
//	refused            Retry       the consumer's policy did not admit the work; nothing ran
//	not_put_away       Retry       it is a dead letter, and the store of letters did not take it
//	permanent          DeadLetter  the work's error was marked by Reject, or is of a permanent class
//	attempts_exhausted DeadLetter  the work failed too often
//	mismatch           DeadLetter  the id belongs to a message with another payload
//	outcome_unknown    DeadLetter  under Hold, it is not known whether the work had its effect
//	expired            DeadLetter  its deadline has passed; nothing ran this time. Ack with Options.DropExpired
//	no_id              DeadLetter  the message has no id
//	too_large          DeadLetter  the payload is longer than Options.MaxPayload
//	header_unreadable  DeadLetter  a header of package message can't be read
//	unknown_version    DeadLetter  the headers are of a version that this program does not know
//
// Package consumer gives refused and not_put_away.
type Cause string

// The causes, in the order of the table at [Cause].
const (
	CauseDone              Cause = "done"               // the work ran
	CauseDuplicate         Cause = "duplicate"          // it was done before
	CauseFailed            Cause = "failed"             // the work failed, and may be repeated
	CauseInProgress        Cause = "in_progress"        // another consumer works on it
	CauseStoreUnavailable  Cause = "store_unavailable"  // the store did not answer
	CauseRecordUnreadable  Cause = "record_unreadable"  // the record can't be read
	CauseNotRecorded       Cause = "not_recorded"       // the work ran, and that is not on record
	CauseCommitUnknown     Cause = "commit_unknown"     // the answer to COMMIT was lost
	CauseStopped           Cause = "stopped"            // the context had ended
	CauseRefused           Cause = "refused"            // the policy did not admit the work
	CauseNotPutAway        Cause = "not_put_away"       // the store of dead letters did not take it
	CausePermanent         Cause = "permanent"          // the work would fail again
	CauseAttemptsExhausted Cause = "attempts_exhausted" // the work failed too often
	CauseMismatch          Cause = "mismatch"           // the id has another payload
	CauseUnknown           Cause = "outcome_unknown"    // it is not known whether the work had its effect
	CauseExpired           Cause = "expired"            // the deadline has passed
	CauseNoID              Cause = "no_id"              // there is no id
	CauseTooLarge          Cause = "too_large"          // the payload is too long
	CauseHeaderUnreadable  Cause = "header_unreadable"  // a header can't be read
	CauseUnknownVersion    Cause = "unknown_version"    // the headers are of a newer program
)

// A Disposition is what becomes of a message.
type Disposition struct {
	Verb    Verb
	Cause   Cause
	After   time.Duration // with Retry: how long to wait
	Attempt int           // runs of the work so far, as far as known; zero if none
	Err     error         // why, if there is an error behind it
}
