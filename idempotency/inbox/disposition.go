package inbox

import "time"

// A Verb is what to tell the broker about a message.
type Verb uint8

const (
	Retry      Verb = iota // deliver it again, not before After. The zero value, for it loses nothing
	Ack                    // it is done
	DeadLetter             // put it aside for somebody to look at; if that fails, deliver it again
)

// String returns retry, ack or dead_letter.
func (v Verb) String() string {
	if int(v) < len(verbs) {
		return verbs[v]
	}
	return "invalid"
}

var verbs = [...]string{"retry", "ack", "dead_letter"}

// A Reason says why a message gets its Verb, and is meant as the label of a metric:
//
//	done               Ack         the work ran, and that is on record
//	duplicate          Ack         it was done before; nothing ran
//	failed             Retry       the work returned an error or panicked, and may be repeated
//	in_progress        Retry       somebody else works on it
//	store_unavailable  Retry       the store did not answer; nothing ran
//	record_unreadable  Retry       the record is damaged, or of a newer program; nothing ran
//	not_recorded       Retry       the work ran, and that could not be stored, or another has the record
//	commit_unknown     Retry       the answer to COMMIT was lost; the next delivery finds out
//	stopped            Retry       Handle's context had ended before anything ran
//	permanent          DeadLetter  the work's error was marked Permanent
//	attempts_exhausted DeadLetter  the work failed too often
//	mismatch           DeadLetter  the id belongs to a message with another payload
//	outcome_unknown    DeadLetter  under Hold, nobody knows whether the work had its effect
//	no_id              DeadLetter  the message has no id
type Reason string

const (
	reasonDone              Reason = "done"
	reasonDuplicate         Reason = "duplicate"
	reasonFailed            Reason = "failed"
	reasonInProgress        Reason = "in_progress"
	reasonStoreUnavailable  Reason = "store_unavailable"
	reasonRecordUnreadable  Reason = "record_unreadable"
	reasonNotRecorded       Reason = "not_recorded"
	reasonCommitUnknown     Reason = "commit_unknown"
	reasonStopped           Reason = "stopped"
	reasonPermanent         Reason = "permanent"
	reasonAttemptsExhausted Reason = "attempts_exhausted"
	reasonMismatch          Reason = "mismatch"
	reasonUnknown           Reason = "outcome_unknown"
	reasonNoID              Reason = "no_id"
)

// A Disposition is what becomes of a message.
type Disposition struct {
	Verb    Verb
	Reason  Reason
	After   time.Duration // with Retry: how long to wait
	Attempt int           // runs of the work so far, as far as known; zero if none
	Err     error         // why, if there is an error behind it
}
