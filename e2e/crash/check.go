package crash

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gabion-go/gabion/idempotency"
)

// An Effect is a line of the witness. A charge has two, a debit and a credit, so
// that half a charge can be seen.
type Effect struct {
	Name    string // scope and key
	Token   int64  // of the run that had the effect
	Attempt int    // of the run that had the effect
	Part    string // Debit or Credit
	Amount  int
}

// The parts of a charge, in their order.
const (
	Debit  = "debit"
	Credit = "credit"
)

// An Answer is what the client's log says of one request. Moments are by the
// rig's own clock, from when it began.
type Answer struct {
	Amount     int // that was asked for
	Call, Back time.Duration
	Err        error // no answer came
	Status     int
	Problem    string // the kind of problem, of a refusal
	Header     string // the kept headers, a line each
	Body       string
	Replayed   bool
	Unrecorded bool // the server said that the answer is not recorded
	Charge     Charge
}

// A Charge is what a 2xx answer says of the run that made it. Its nonce differs
// between any two runs.
type Charge struct {
	Scope   string `json:"scope"`
	Key     string `json:"key"`
	Amount  int    `json:"amount"`
	Token   int64  `json:"token"`
	Attempt int    `json:"attempt"`
	Nonce   string `json:"nonce"`
}

// ok reports whether the charge was made, or so the answer says.
func (a *Answer) ok() bool { return a.Err == nil && a.Status/100 == 2 }

// recorded reports whether the answer is one that the store keeps.
func (a *Answer) recorded() bool { return a.ok() && !a.Unrecorded }

// undecided reports whether the answer asks to come back.
func (a *Answer) undecided() bool {
	return a.Problem == string("in-progress") || a.Problem == string("store-unavailable")
}

func (a *Answer) said() string { return fmt.Sprintf("%d %s%s", a.Status, a.Header, a.Body) }

// A History is all that is known of one key.
type History struct {
	Scope, Key string
	Guarantee  idempotency.Guarantee
	Lease      time.Duration
	Calm       bool          // nothing was killed, stopped or cut
	Lost       time.Duration // when the holder was lost for good, zero if it was not
	Answers    []Answer
	Effects    []Effect
}

// stuckMargin is what I6 allows beyond the lease.
const stuckMargin = time.Second

// invariants are checked one by one, so that a failure names what was broken.
var invariants = []struct {
	name string
	says func(*History) error
}{
	{"I1", (*History).effectsOnce},
	{"I2", (*History).replaysEqual},
	{"I3", (*History).oneAnswer},
	{"I4", (*History).nothingLost},
	{"I5", (*History).noStaleChange},
	{"I6", (*History).notStuck},
	{"I7", (*History).ownScope},
}

// Check returns every invariant that the history breaks. It sorts answers and
// effects.
func (h *History) Check() (broken []error) {
	slices.SortStableFunc(h.Answers, func(a, b Answer) int { return cmp.Compare(a.Call, b.Call) })
	slices.SortStableFunc(h.Effects, func(a, b Effect) int { return cmp.Compare(a.Token, b.Token) })
	for _, i := range invariants {
		if err := i.says(h); err != nil {
			broken = append(broken, fmt.Errorf("%s: %w", i.name, err))
		}
	}
	return broken
}

// count returns how many effects of a part there were.
func (h *History) count(part string) (n int) {
	for _, e := range h.Effects {
		if e.Part == part {
			n++
		}
	}
	return n
}

func (h *History) effectsOnce() error {
	debits, credits := h.count(Debit), h.count(Credit)
	charged := slices.ContainsFunc(h.Answers, func(a Answer) bool { return a.ok() })
	runs := 0
	seen := map[Effect]bool{}
	for _, e := range h.Effects {
		runs = max(runs, e.Attempt)
		if seen[e] {
			return fmt.Errorf("run %d had its %s twice", e.Token, e.Part)
		}
		seen[e] = true
	}
	switch {
	case charged && (debits == 0 || credits == 0):
		return fmt.Errorf("answered 2xx with %d debits and %d credits", debits, credits)
	case h.Guarantee == idempotency.GuaranteeReexecute && h.Calm && debits > 1:
		return fmt.Errorf("%d debits though no run was lost", debits)
	case h.Guarantee == idempotency.GuaranteeReexecute && debits > runs:
		return fmt.Errorf("%d debits in %d runs", debits, runs)
	case h.Guarantee != idempotency.GuaranteeReexecute && debits > 1:
		return fmt.Errorf("%d debits", debits)
	case h.Guarantee == idempotency.GuaranteeTx && debits != credits:
		return fmt.Errorf("half a transaction: %d debits, %d credits", debits, credits)
	case h.Guarantee == idempotency.GuaranteeTx && debits == 1 && !charged && h.settled():
		return fmt.Errorf("an effect without a 2xx record")
	}
	return nil
}

// settled reports whether the last request was answered with what the record says.
func (h *History) settled() bool {
	n := len(h.Answers)
	if n == 0 {
		return false
	}
	last := h.Answers[n-1]
	return last.Err == nil && last.Problem != string("in-progress") && last.Problem != string("mismatch") && last.Status != 503
}

func (h *History) replaysEqual() error {
	var first *Answer
	for i := range h.Answers {
		a := &h.Answers[i]
		switch {
		case a.Err != nil || !a.Replayed && !a.recorded():
			continue
		case first == nil:
			first = a
		case (a.Replayed || first.Replayed) && a.said() != first.said():
			return fmt.Errorf("a replay differs:\n%s\n%s", first.said(), a.said())
		}
	}
	return nil
}

func (h *History) oneAnswer() error {
	first := ""
	for _, a := range h.Answers {
		if !a.ok() {
			continue
		}
		if a.Charge.Amount != a.Amount {
			return fmt.Errorf("asked for %d and was answered about %d", a.Amount, a.Charge.Amount)
		}
		if first == "" {
			first = a.Body
		}
		if h.Guarantee != idempotency.GuaranteeReexecute && a.Body != first {
			return fmt.Errorf("two answers:\n%s\n%s", first, a.Body)
		}
	}
	for _, e := range h.Effects {
		if e.Amount != h.Effects[0].Amount {
			return fmt.Errorf("two requests ran: for %d and for %d", h.Effects[0].Amount, e.Amount)
		}
	}
	return nil
}

func (h *History) nothingLost() error {
	for _, done := range h.Answers {
		if !done.recorded() {
			continue
		}
		for _, a := range h.Answers {
			if a.Call > done.Back && !h.after(&a, &done) {
				return fmt.Errorf("done at %v and answered %d %s at %v", done.Back, a.Status, a.Problem, a.Call)
			}
		}
	}
	return nil
}

// after reports whether an answer is right after another that is kept.
func (h *History) after(a, done *Answer) bool {
	switch {
	case a.Err != nil, a.Problem == string("store-unavailable"):
		return true // nothing was said
	case a.Amount != done.Amount:
		// Under tx another request's lock hides the record for a moment.
		return a.Problem == string("mismatch") || h.locked(a)
	}
	return a.Replayed && a.said() == done.said() || h.locked(a)
}

// locked reports a refusal by the lock of a transaction, which is taken before the
// record is looked at.
func (h *History) locked(a *Answer) bool {
	return h.Guarantee == idempotency.GuaranteeTx && a.Problem == string("in-progress")
}

// noStaleChange holds a recorded answer against all runs that left a trace: who
// was recorded must have been the last, for it was either taken over before it was
// recorded, or the other ran after it.
func (h *History) noStaleChange() error {
	for i, a := range h.Answers {
		for _, e := range h.Effects {
			if a.recorded() && e.Token > a.Charge.Token {
				return fmt.Errorf("run %d is recorded though %d ran after it", a.Charge.Token, e.Token)
			}
		}
		for _, b := range h.Answers[:i] {
			if a.recorded() && b.recorded() && a.Charge.Token != b.Charge.Token {
				return fmt.Errorf("run %d was recorded, then %d", b.Charge.Token, a.Charge.Token)
			}
		}
	}
	attempts := map[int64]int{}
	last := 0
	for _, e := range h.Effects {
		if n, there := attempts[e.Token]; there && n != e.Attempt {
			return fmt.Errorf("token %d was granted for runs %d and %d", e.Token, n, e.Attempt)
		}
		if e.Attempt < last {
			return fmt.Errorf("run %d has a larger token than run %d", e.Attempt, last)
		}
		attempts[e.Token], last = e.Attempt, e.Attempt
	}
	return nil
}

// notStuck looks at requests that were alone when the key should have been free.
func (h *History) notStuck() error {
	if h.Lost == 0 {
		return nil
	}
	for i, a := range h.Answers {
		if a.Problem != string("in-progress") || a.Call < h.Lost+h.Lease+stuckMargin {
			continue
		}
		alone := !slices.ContainsFunc(h.Answers[:i], func(b Answer) bool {
			return b.Call > h.Lost && (b.Err != nil || b.Back > a.Call)
		})
		if alone {
			return fmt.Errorf("in progress %v after its holder was lost", a.Call-h.Lost)
		}
	}
	return nil
}

func (h *History) ownScope() error {
	for _, a := range h.Answers {
		if a.ok() && (a.Charge.Scope != h.Scope || a.Charge.Key != h.Key) {
			return fmt.Errorf("answered with %s/%s", a.Charge.Scope, a.Charge.Key)
		}
	}
	return nil
}

// String returns the history for people.
func (h *History) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s/%s under %v, lease %v", h.Scope, h.Key, h.Guarantee, h.Lease)
	if h.Lost > 0 {
		fmt.Fprintf(&b, ", lost at %v", h.Lost)
	}
	for _, a := range h.Answers {
		fmt.Fprintf(&b, "\n\t%v to %v: asked for %d: ", a.Call, a.Back, a.Amount)
		switch {
		case a.Err != nil:
			fmt.Fprintf(&b, "%v", a.Err)
		case a.ok():
			fmt.Fprintf(&b, "%d by run %d (token %d) replayed=%v unrecorded=%v %s", a.Status, a.Charge.Attempt, a.Charge.Token, a.Replayed, a.Unrecorded, a.Charge.Nonce)
		default:
			fmt.Fprintf(&b, "%d %s", a.Status, a.Problem)
		}
	}
	for _, e := range h.Effects {
		fmt.Fprintf(&b, "\n\t%s of %d by run %d (token %d)", e.Part, e.Amount, e.Attempt, e.Token)
	}
	return b.String()
}
