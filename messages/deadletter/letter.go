package deadletter

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"time"

	"github.com/gabion-go/gabion/messages/message"
)

// An ID is a letter's name: 32 hexadecimal digits.
type ID string

// LetterID returns the ID of the letter that a message becomes. It is the same for every
// delivery of it, so that a message that is put away twice is one letter. Two messages with
// one key and different payloads are two letters.
func LetterID(group, key string, payload []byte) ID {
	h := sha256.New()
	for _, part := range [][]byte{[]byte(group), []byte(key), payload} {
		var n [8]byte
		binary.BigEndian.PutUint64(n[:], uint64(len(part)))
		h.Write(n[:])
		h.Write(part)
	}
	return ID(hex.EncodeToString(h.Sum(nil)[:16]))
}

// A Letter is a message that was put away, with what is known of why.
type Letter struct {
	ID       ID
	Group    string // the consumers that gave it up
	Key      string // the message's key, under which its work is deduplicated; empty if it had none
	Source   string // where it came from: a stream, a topic, a queue
	Position string // which one it was there, in the broker's words
	Order    string // what it was ordered by, such as a partition key; empty means by nothing
	Headers  message.Headers
	Payload  []byte

	Reason   string // why it is here: a Reason of package inbox
	Attempts int    // how often its work was begun, as far as known
	First    time.Time
	Last     time.Time // its first and its last failure
	Failures []Failure // its failures, oldest first; of many the first and the newest

	// What the store says. Put ignores it.
	State    State
	Since    time.Time  // when it came into that state
	Kept     time.Time  // when it was put away
	Redriven int        // how often it was taken for a redrive
	Resolved Resolution // what an operator found out about an unknown outcome
	Drive    string     // the ID of the redrive that took it last; empty if none did, or it is to be taken again
	By, Note string     // who dropped or resolved it last, and what was said about that
}

// A Failure is one run of a message's work that failed.
type Failure struct {
	At      time.Time
	Took    time.Duration // how long the run took
	Attempt int           // which run it was; zero if unknown
	Class   string        // a policy.Class, as text
	Reason  string        // what became of the message: a Reason of package inbox
	Message string        // the error's text; never the payload
}

// A State is where a letter stands.
type State uint8

// The states of letters.
const (
	Waiting State = iota // for an operator to look at it
	Taken                // a consumer works on it under a lease
	Done                 // its work was done by a redrive, or was found done
	Dropped              // an operator gave it up; its payload is gone
)

// String returns the state's name in lower case.
func (s State) String() string {
	if int(s) < len(states) {
		return states[s]
	}
	return "invalid"
}

var states = [...]string{"waiting", "taken", "done", "dropped"}

// A Resolution is what an operator found out about work whose outcome was unknown.
type Resolution uint8

// The resolutions.
const (
	Unresolved       Resolution = iota
	ResolvedAsDone              // it had its effect: the letter is done
	ResolvedAsFailed            // it had no effect: a redrive may run it
)

// String returns unresolved, done or nothing.
func (r Resolution) String() string {
	if int(r) < len(resolutions) {
		return resolutions[r]
	}
	return "invalid"
}

var resolutions = [...]string{"unresolved", "done", "nothing"}

// Unknown is the Reason of letters that want a Resolution before they are redriven.
const Unknown = "outcome_unknown"

// LeaseLost is the Reason of a Failure whose consumer took a letter and was gone before it said
// how that came out. After two in a row the letter waits again.
const LeaseLost = "lease_lost"

// PayloadMissing is the Reason of letters that were larger than the store takes. Payload and headers
// were not kept, so that they can't be redriven.
const PayloadMissing = "payload_missing"

// Errors of stores. They are wrapped.
var (
	ErrNotFound   = errors.New("deadletter: there is no such letter or redrive")
	ErrState      = errors.New("deadletter: the letter's state does not allow that")
	ErrUnresolved = errors.New("deadletter: the outcome of the letter's work is unknown: resolve it first")
	ErrTooLarge   = errors.New("deadletter: the letter is larger than the store takes")
	ErrFull       = errors.New("deadletter: the store is full")
	ErrLost       = errors.New("deadletter: the lease is lost, another consumer may have the letter")
	ErrBusy       = errors.New("deadletter: another redrive of the group goes on")
	ErrSchema     = errors.New("deadletter: the tables are of another version than this program's")
)

// A Query picks letters. The zero value picks all that wait.
type Query struct {
	Group         string    // of that group; empty means of all
	Source        string    // from there; empty means from anywhere
	Reason        string    // with that reason; empty means with any
	States        []State   // in these states; empty means Waiting
	IDs           []ID      // of these; empty means of all. At most 1000
	Prefix        string    // whose ID begins so; empty means any
	Before, After time.Time // put away before, or at and after; the zero time means at any time
}

// A Page is part of a list.
type Page struct {
	Letters []Letter // without payloads, and of their failures only the last
	Next    string   // where to go on; empty at the end
}

// A Drive is a redrive: an order to consumers to take up again what a query picks. A group has one
// at a time, and the store keeps the last of each group.
type Drive struct {
	ID     string
	Group  string
	Rate   float64 // letters a second, of all consumers together; more than zero
	By     string
	Made   time.Time
	State  DriveState
	Why    string // why it stopped
	Total  int    // letters that waited for it when it was ordered
	Left   int    // that it still has to do; zero once it is over
	Done   int    // that were done
	Failed int    // that wait again, and are not taken again by it
}

// A DriveState is where a redrive stands.
type DriveState uint8

// The states of redrives.
const (
	Driving         DriveState = iota
	Stopped                    // by an operator: what is left waits again
	Finished                   // every letter was done or failed
	StoppedByItself            // because too few letters succeeded: what is left waits again
)

// String returns the state's name in lower case, such as "stopped_by_itself".
func (s DriveState) String() string {
	if int(s) < len(driveStates) {
		return driveStates[s]
	}
	return "invalid"
}

var driveStates = [...]string{"driving", "stopped", "finished", "stopped_by_itself"}

// A Lease is a letter that a consumer has taken.
type Lease struct {
	Letter
	Token int64 // of the taking; strictly growing for one letter
}

// A Verdict is how a taken letter came out.
type Verdict struct {
	State   State    // Done, or Waiting
	Reason  string   // with Waiting: why it is a dead letter now; empty if that stays as it was
	Failure *Failure // with Waiting: what failed; nil if its work did not run, so that its redrive may take it again
}

// A Tally is how many letters of one kind there are.
type Tally struct {
	Group      string
	State      State
	Reason     string
	Unresolved bool // they want a Resolution before they are redriven
	Letters    int  // more than zero
}

// Stats say what a store holds of a group, or of all.
type Stats struct {
	Letters    int // that wait or are taken
	ByState    map[State]int
	ByReason   map[string]int // of Letters; at most 100 reasons, the rest under ""
	Unresolved int            // of Letters: that wait for a Resolution
	Oldest     time.Time      // when the oldest of those that wait was put away; zero if none does
	Newest     time.Time      // when the newest of all was put away, whatever its state; zero without letters
	Bytes      int64          // of payloads, headers and failures
	Put        int64          // ever put away, in this store
}

// A Store keeps letters. Every method is safe for concurrent use, and for several
// processes where the store says so. A method that returns nil has done its work durably;
// one that returns an error may be called again.
type Store interface {
	// Fail writes down one failure of a message that may become a letter. What is written
	// is bounded: of more than MaxFailures the first and the newest stay.
	Fail(ctx context.Context, id ID, f Failure) error

	// Forget takes back what Fail wrote, for a message whose work was done at last.
	Forget(ctx context.Context, id ID) error

	// Put puts a letter away, with the failures that Fail wrote and those that it brings. A
	// letter that is there already stays one: its failures and its Reason are brought up
	// to date, and one that was Done or Dropped waits again.
	Put(ctx context.Context, l Letter) error

	// Get returns a letter with all that is known of it, or ErrNotFound.
	Get(ctx context.Context, id ID) (Letter, error)

	// List returns letters without payloads, and of their failures only the last, oldest
	// first. From is the Next of the page before, or empty. Limit is at most 1000; zero
	// means 100.
	List(ctx context.Context, q Query, from string, limit int) (Page, error)

	// Count counts what the query picks without handing it out: the zero Query counts what
	// waits. The tallies are in the order of their groups, states and reasons, the resolved
	// first.
	Count(ctx context.Context, q Query) ([]Tally, error)

	// Order makes the redrive of a group, and returns it with its ID: of what the query picks and
	// waits when it is ordered, or is with a consumer then and waits again. The query is kept, and not the letters: what is
	// put away later, or fails in the redrive, is not taken by it. While the group's redrive goes on, another is ErrBusy. Letters
	// that want a Resolution are left out: Count tells how many they are. A query that names one of
	// them in IDs is ErrUnresolved, and orders nothing.
	Order(ctx context.Context, q Query, d Drive) (Drive, error)

	// Drives returns the last redrive of a group or of each group, the newest first.
	Drives(ctx context.Context, group string) ([]Drive, error)

	// Stop ends a redrive. What it had not taken waits as before.
	Stop(ctx context.Context, drive, by, why string) error

	// Take takes up to n letters of the group's redrive, as many as are due by its rate, for as
	// long as the lease. One process paces a redrive: it has it until it has not called Take for as long
	// as the lease, and others get none. What a process took and lost waits again and is taken
	// once more: one such letter at a time, so that one that ends its process takes no other along.
	// Letters with the same Order are taken one at a time, the oldest first. Again
	// says when to ask next if it brought fewer than n; zero means when something is ordered.
	Take(ctx context.Context, group string, n int, lease time.Duration) (taken []Lease, again time.Duration, err error)

	// Extend prolongs a lease, and returns ErrLost if it is lost.
	Extend(ctx context.Context, l Lease, lease time.Duration) error

	// Settle says how a taken letter came out, and returns ErrLost if the lease was lost. It
	// stops a redrive of which too few succeed.
	Settle(ctx context.Context, l Lease, v Verdict) error

	// Resolve says what became of work whose outcome was unknown: ResolvedAsDone makes the
	// letter Done, after ResolvedAsFailed it may be redriven. One that contradicts what was said
	// before is ErrState: Unresolved takes that back first. What was said stays in the Note.
	Resolve(ctx context.Context, id ID, r Resolution, by, note string) error

	// Drop gives letters up: their payloads are erased, who did it stays until Sweep.
	Drop(ctx context.Context, id ID, by, note string) error

	// Groups returns the names of all groups that the store knows, in order.
	Groups(ctx context.Context) ([]string, error)

	// Stats counts the letters of a group, or with "" of all.
	Stats(ctx context.Context, group string) (Stats, error)

	// Sweep removes what the store's bounds say is to go: what is done or dropped for long
	// enough, failures of messages that never became letters, and, only if it was told to,
	// the oldest letters. It tells the store's observer before anything that waits is removed.
	Sweep(ctx context.Context) (removed int, err error)
}
