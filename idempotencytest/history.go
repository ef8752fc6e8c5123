package idempotencytest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gabion-go/gabion/idempotency"
)

// An op is one operation of a concurrent history: it took effect at one moment
// between call and back, two readings of one counter.
type op struct {
	call, back int64
	begin      bool
	decision   idempotency.Decision // of a begin
	to         idempotency.State    // of a change
	token      int64                // granted, or of the holder
	refused    bool                 // ErrLeaseLost
	ambiguous  bool                 // there was no answer
}

// Histories are run with leases this short, so that holders lose them all the time.
const tinyLease = 200 * time.Microsecond

// soundHistory lets many holders fight for few keys and checks what they saw.
// Every other holder has another handle.
func soundHistory(t testing.TB, handles ...idempotency.Store) {
	t.Helper()
	const keys, holders, steps = 12, 6, 40
	for k := range keys {
		g := idempotency.Guarantee(k % 2)
		if err := sound(record(handles, fmt.Sprint(t.Name(), k, time.Now().UnixNano()), g, holders, steps), g); err != nil {
			t.Errorf("%v: %v", g, err)
		}
	}
}

// record runs holders on one key and returns what each saw.
func record(handles []idempotency.Store, key string, g idempotency.Guarantee, holders, steps int) []op {
	var tick atomic.Int64
	var mu sync.Mutex
	var all []op
	var running sync.WaitGroup
	for n := range holders {
		running.Go(func() {
			h := holder{store: handles[n%len(handles)], tick: &tick, claim: idempotency.Claim{
				ID: idempotency.IDOf("history", key), Guarantee: g, Lease: tinyLease, Retention: long,
			}}
			for range steps {
				h.step()
			}
			mu.Lock()
			defer mu.Unlock()
			all = append(all, h.seen...)
		})
	}
	running.Wait()
	return all
}

type holder struct {
	store idempotency.Store
	tick  *atomic.Int64
	claim idempotency.Claim
	token int64
	seen  []op
}

func (h *holder) step() {
	if rand.IntN(4) == 0 {
		pause(time.Duration(rand.Int64N(int64(2 * tinyLease)))) // long enough to lose a lease
	}
	if h.token == 0 || rand.IntN(8) == 0 {
		h.begin()
		return
	}
	switch rand.IntN(20) {
	case 0:
		h.change(complete(fmt.Sprint(h.token)))
	case 1, 2:
		h.change(release)
	case 3:
		h.change(idempotency.Change{State: idempotency.StateRunning, Point: &idempotency.Point{Name: "p"}})
	default:
		h.change(idempotency.Change{State: idempotency.StateRunning, Lease: tinyLease})
	}
}

func pause(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	<-timer.C
}

func (h *holder) begin() {
	h.claim.Owner = owner()
	o := op{call: h.tick.Add(1), begin: true}
	a, err := h.store.Begin(context.Background(), h.claim)
	o.back, o.decision, o.token, o.ambiguous = h.tick.Add(1), a.Decision, a.Record.Token, err != nil
	if a.Decision == idempotency.DecisionRun {
		h.token = a.Record.Token
	}
	h.seen = append(h.seen, o)
}

func (h *holder) change(c idempotency.Change) {
	o := op{call: h.tick.Add(1), to: c.State, token: h.token}
	err := h.store.Apply(context.Background(), idempotency.Ref{ID: h.claim.ID, Token: h.token}, c)
	o.back, o.refused = h.tick.Add(1), errors.Is(err, idempotency.ErrLeaseLost)
	o.ambiguous = err != nil && !o.refused
	if err != nil || c.State == idempotency.StateDone || c.State == idempotency.StateRetryable {
		if rand.IntN(4) > 0 { // else a zombie: it goes on under the old token
			h.token = 0
		}
	}
	h.seen = append(h.seen, o)
}

// sound reports the first thing in a history of one key that no order of its
// operations could explain. It checks what matters rather than everything: tokens
// are unique and grow; who was succeeded changes nothing; and after a completion,
// or a loss under Hold, nothing runs.
func sound(history []op, g idempotency.Guarantee) error {
	slices.SortFunc(history, func(x, y op) int { return cmp.Compare(x.back, y.back) })
	var granted, last int64 // the largest token that was granted, and the one that completed, so far
	closed := false
	seen := map[int64]bool{}
	released := map[int64]bool{}
	pending := slices.Clone(history)
	slices.SortFunc(pending, func(x, y op) int { return cmp.Compare(x.call, y.call) })
	next := 0
	for _, o := range pending {
		// What came back before this one was called happened before it.
		for ; next < len(history) && history[next].back < o.call; next++ {
			h := history[next]
			switch {
			case h.begin && h.decision == idempotency.DecisionRun:
				granted = max(granted, h.token)
			case h.begin && (h.decision == idempotency.DecisionReplay || h.decision == idempotency.DecisionUnknown):
				closed = true
			case !h.begin && h.to == idempotency.StateDone && !h.refused && !h.ambiguous:
				closed, last = true, h.token
			}
		}
		switch {
		case o.begin && o.decision == idempotency.DecisionRun && seen[o.token]:
			return fmt.Errorf("token %d was granted twice", o.token)
		case o.begin && o.decision == idempotency.DecisionRun && o.token <= granted:
			return fmt.Errorf("token %d was granted after %d", o.token, granted)
		case o.begin && o.decision == idempotency.DecisionRun && closed:
			return fmt.Errorf("token %d was granted after the key was done or lost for good (done by %d)", o.token, last)
		case !o.begin && !o.refused && !o.ambiguous && o.token < granted:
			return fmt.Errorf("%v by %d was taken after %d was granted", o.to, o.token, granted)
		case !o.begin && !o.refused && !o.ambiguous && closed && last != o.token:
			return fmt.Errorf("%v by %d was taken after the key was done by %d or lost", o.to, o.token, last)
		}
		if o.begin && o.decision == idempotency.DecisionRun {
			seen[o.token] = true
		}
	}
	return onlyReleased(history, g, released)
}

// onlyReleased checks that under Hold a run was followed by another only after it
// had been released.
func onlyReleased(history []op, g idempotency.Guarantee, released map[int64]bool) error {
	if g != idempotency.GuaranteeHold {
		return nil
	}
	var runs []int64
	for _, o := range history {
		switch {
		case o.begin && o.decision == idempotency.DecisionRun:
			runs = append(runs, o.token)
		case !o.begin && o.to == idempotency.StateRetryable && !o.refused:
			released[o.token] = true
		}
	}
	slices.Sort(runs)
	for i := range max(0, len(runs)-1) {
		if !released[runs[i]] {
			return fmt.Errorf("hold: %d ran after %d, which was never released", runs[i+1], runs[i])
		}
	}
	return nil
}
