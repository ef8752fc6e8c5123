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

// A Reason says why a message gets its Verb. Its text is a metric's label.
type Reason string

const (
	Done              Reason = "done"               // Ack: the work ran, and that is on record
	Duplicate         Reason = "duplicate"          // Ack: it was done before; nothing ran
	Failed            Reason = "failed"             // Retry: the work returned an error or panicked, and may be repeated
	InProgress        Reason = "in_progress"        // Retry: somebody else works on it
	StoreUnavailable  Reason = "store_unavailable"  // Retry: the store did not answer, nothing ran
	RecordUnreadable  Reason = "record_unreadable"  // Retry: a newer version of the program wrote the record, or it is damaged; nothing ran
	NotRecorded       Reason = "not_recorded"       // Retry: the work ran, and that could not be stored, or another has the record
	CommitUnknown     Reason = "commit_unknown"     // Retry: the answer to COMMIT was lost; the next delivery finds out
	Stopped           Reason = "stopped"            // Retry: Handle's context had ended before anything ran
	PermanentError    Reason = "permanent"          // DeadLetter: the work's error was marked Permanent
	AttemptsExhausted Reason = "attempts_exhausted" // DeadLetter: the work failed too often
	Mismatch          Reason = "mismatch"           // DeadLetter: the id belongs to a message with another payload
	OutcomeUnknown    Reason = "outcome_unknown"    // DeadLetter: under Hold, the work may have had its effect
	NoID              Reason = "no_id"              // DeadLetter: the message has no id
)

// A Disposition is what becomes of a message.
type Disposition struct {
	Verb    Verb
	Reason  Reason
	After   time.Duration // with Retry: how long to wait
	Attempt int           // runs of the work so far, as far as known; zero if none
	Err     error         // why, if there is an error behind it
}
