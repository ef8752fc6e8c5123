package idempotency

import (
	"bytes"
	"slices"
	"time"
)

// A Guarantee says what may happen to an execution that was lost: its process
// died, hung past its lease or could not reach the store.
type Guarantee uint8

const (
	// Hold never repeats it: at most once. What happened is unknown until somebody
	// who can find out says so ([Config].Recover, or an operator). The zero value,
	// because for unsafe work it is the only safe guess.
	Hold Guarantee = iota
	// Reexecute repeats it: at least once. Each run gets a larger [Token].
	Reexecute
	// Tx commits effects and record in one SQL transaction: exactly once. It takes
	// a [TxStore].
	Tx
)

// String returns hold, reexecute or tx.
func (g Guarantee) String() string { return nameOf(guarantees[:], g) }

var guarantees = [...]string{"hold", "reexecute", "tx"}

// A State is where a record stands.
type State uint8

const (
	Absent    State = iota // there is no record, or it has expired
	Running                // somebody works under a lease
	Retryable              // a run ended that provably had no effect: the next may begin
	Done                   // the result is kept and replayed
	Unknown                // a run was lost under Hold: nobody knows what it did
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

// A Record is what a store keeps for one key. Moments count nanoseconds since the
// Unix epoch by the store's clock. Slices are shared: they must not be changed once
// they are in a record.
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
	Run            Decision = iota + 1 // the claim is granted: do the work, then Apply
	Replay                             // it was done: Result is the answer
	InProgress                         // somebody else works on it
	Mismatch                           // the key belongs to another request
	OutcomeUnknown                     // a run was lost: nobody may repeat it
	Recover                            // the claim is granted: find out what the lost run did, then Apply
)

// String returns the decision as metrics name it.
func (d Decision) String() string { return nameOf(decisions[:], d) }

var decisions = [...]string{"none", "run", "replay", "in_progress", "mismatch", "outcome_unknown", "recover"}

// An Answer is what Begin returns.
type Answer struct {
	Decision Decision
	Record   Record
	Left     time.Duration // of the other's lease, when InProgress
}

// A Ref names a run: a record and the token under which it was claimed.
type Ref struct {
	ID    ID
	Token int64
}

// An Event is what can happen to a record besides Begin.
type Event uint8

const (
	Extend         Event = iota + 1 // the run lives: move the end of its lease
	Save                            // the run finished a phase: keep its Point
	Complete                        // the run ended with a Result
	Release                         // the run ended and provably had no effect
	Abandon                         // the run ended and nobody knows what it did
	ResolveDone                     // somebody found out: it was done, with this Result
	ResolveNothing                  // somebody found out: it had no effect
	begin                           // the events that only the machine and the store speak of
	beginRecover
	sweep
	events
)

// String returns the event's name in lower case.
func (e Event) String() string { return nameOf(eventNames[:], e) }

var eventNames = [...]string{"none", "extend", "save", "complete", "release", "abandon", "resolve_done", "resolve_nothing", "begin", "begin_recover", "sweep"}

// A Change is an Event with what it carries.
type Change struct {
	Event  Event
	Lease  time.Duration // with Extend
	Point  Point         // with Save
	Result Result        // with Complete and ResolveDone
	Unrun  bool          // with Release: the work was not begun, so that this was no attempt
	Free   bool          // with Release: nothing of the run is kept, and the next claim may be for another request
}
