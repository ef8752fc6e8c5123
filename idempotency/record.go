package idempotency

import (
	"bytes"
	"slices"
	"time"
)

// A Guarantee says what may happen to a run that was lost: its process died, hung
// past its lease or could not reach the store.
type Guarantee uint8

const (
	// GuaranteeHold never repeats it: at most once. What happened is unknown until
	// [RunnerConfig].Recover or an operator finds out. The zero value,
	// because for unsafe work it is the only safe guess.
	GuaranteeHold Guarantee = iota
	// GuaranteeReexecute repeats it: at least once. Each run gets a larger [Token].
	GuaranteeReexecute
	// GuaranteeTx commits effects and record in one SQL transaction: exactly once. It
	// takes a [TxStore].
	GuaranteeTx
)

// String returns hold, reexecute or tx.
func (g Guarantee) String() string { return nameOf(guarantees[:], g) }

var guarantees = [...]string{"hold", "reexecute", "tx"}

// A State is where a record stands.
type State uint8

const (
	StateAbsent    State = iota // there is no record, or it has expired
	StateRunning                // a run works under a lease
	StateRetryable              // a run ended and had no effect: the next may begin
	StateDone                   // the result is kept and replayed
	StateUnknown                // it is not known what a run did
)

// String returns the state's name in lower case.
func (s State) String() string { return nameOf(states[:], s) }

var states = [...]string{"absent", "running", "retryable", "done", "unknown"}

func nameOf[T ~uint8](names []string, n T) string {
	if int(n) < len(names) {
		return names[n]
	}
	return "invalid"
}

// A Record is what a store keeps for one key. Slices are shared: they must not be
// changed once they are in a record.
type Record struct {
	State       State
	Guarantee   Guarantee     // what the last run was begun with
	Token       int64         // of the last run; strictly growing for one key
	Attempt     int           // how many runs there were, this one included; of those that DoNotKeep cleared none
	Fingerprint [32]byte      // of the request; another request must not use the key. Zero while Retryable: any may
	Owner       [16]byte      // nonce of the claim, so that it may be repeated
	LeaseUntil  Moment        // when the run counts as lost, while Running
	Created     Moment        // when the first run began
	Finished    Moment        // when the last run ended
	Expires     Moment        // when the record counts as absent, unless Running
	Retention   time.Duration // how long the record is kept once it is finished
	Points      []Point       // recovery points of earlier and this run, until Done
	Result      Result        // the answer, when Done
}

// Bare returns the record as lists have it: without its result and the data of its
// recovery points.
func (r Record) Bare() Record {
	r.Result = Result{}
	if r.Points != nil {
		points := make([]Point, len(r.Points))
		for i := range points {
			points[i].Name = r.Points[i].Name
		}
		r.Points = points
	}
	return r
}

// A Point is the recorded result of a finished [Phase].
type Point struct {
	Name string // what the phase is called
	Data []byte // what it returned
}

// Bounds of a record's recovery points: it is read and written as a whole.
const (
	maxPoints    = 32
	maxPointData = 64 << 10
)

// A Result is an answer as it is kept. Work that is not HTTP uses Body alone.
type Result struct {
	Status  int     // of the response
	Header  []Field // the headers that are kept, a line each
	Trailer []Field // the trailers that are kept
	Body    []byte  // as written
	Omitted bool    // the body was too big or streamed, and is not kept
}

// A Field is one header line.
type Field struct{ Name, Value string }

func (r Result) equal(o Result) bool {
	return r.Status == o.Status && r.Omitted == o.Omitted && bytes.Equal(r.Body, o.Body) &&
		slices.Equal(r.Header, o.Header) && slices.Equal(r.Trailer, o.Trailer)
}

// A Claim asks to run the work of a key.
type Claim struct {
	ID          ID
	Fingerprint [32]byte
	Owner       [16]byte // unique for each claim; repeating a claim with the same owner is safe
	Guarantee   Guarantee
	Lease       time.Duration // until the run counts as lost unless extended; positive
	Retention   time.Duration // of the record once the run ends; positive, or the key runs again at once
	Recover     bool          // if the outcome is unknown, claim the right to find out
}

// A Decision answers a Claim.
type Decision uint8

const (
	DecisionRun        Decision = iota + 1 // the claim is granted: do the work, then Apply
	DecisionReplay                         // it was done: Result is the answer
	DecisionInProgress                     // another run works on it
	DecisionMismatch                       // the key belongs to another request
	DecisionUnknown                        // it is not known what a run did, and it must not be repeated
	DecisionRecover                        // the claim is granted: find out what the lost run did, then Apply
)

// String returns the decision's name in lower case, as metrics have it.
func (d Decision) String() string { return nameOf(decisions[:], d) }

var decisions = [...]string{"none", "run", "replay", "in_progress", "mismatch", "unknown", "recover"}

// An Answer is what Begin returns.
type Answer struct {
	Decision Decision
	Record   Record
	Left     time.Duration // of the other's lease, with DecisionInProgress
}

// A Ref names a run: a record and the token under which it was claimed.
type Ref struct {
	ID    ID
	Token int64
}

// A Change is what happens to a record after Begin. State is what the record becomes:
//
//	StateRunning    the run is alive: its lease ends after Lease, or it has passed a Point
//	StateDone       the run has ended with a Result
//	StateRetryable  the run has ended and had no effect
//	StateUnknown    the run has ended, and it is not known what it did
//
// With Operator the change is an operator's, to a record that is not running: StateDone and
// StateRetryable say what became of an unknown outcome, StateAbsent deletes the record. The zero
// Change is refused.
type Change struct {
	State    State
	Operator bool
	Lease    time.Duration // with StateRunning
	Point    *Point        // with StateRunning: keep it, and leave the lease as it is
	Result   Result        // with StateDone
	Unrun    bool          // with StateRetryable: the work was not begun, or was refused, so that this was no attempt
	Free     bool          // with StateRetryable: nothing of the run is kept, and the next claim may be for another request
}
