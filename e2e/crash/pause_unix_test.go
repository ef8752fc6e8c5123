//go:build unix

package crash

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// I: the holder is stopped for up to three leases while others ask for its keys.
// Under hold nothing is repeated; under reexecute it is taken over; and what the
// holder says when it wakes changes no record.
func TestStoppedHolders(t *testing.T) {
	t.Parallel()
	var seen teeth
	t.Run("stores", func(t *testing.T) { // a group: it returns when its tests have
		for _, kind := range stores {
			if !kind.shared {
				continue
			}
			pauses := 12
			if kind.name != "postgres" {
				pauses = 5
			}
			for lane := range 2 {
				t.Run(fmt.Sprintf("%s/%d", kind.name, lane), func(t *testing.T) {
					t.Parallel()
					stopAgain(t, kind, soak(pauses, 250), &seen)
				})
			}
		}
	})
	unknown, taken, refused := seen.unknown.Load(), seen.taken.Load(), seen.refused.Load()
	if unknown == 0 || taken == 0 || refused == 0 {
		t.Error("the rig has no teeth")
	}
	t.Logf("%d outcomes unknown, %d takeovers, %d late answers not recorded", unknown, taken, refused)
}

// teeth count what must happen now and then, or nothing was tested.
type teeth struct{ unknown, taken, refused atomic.Int64 }

func stopAgain(t *testing.T, kind *storeKind, pauses int, seen *teeth) {
	const lease = 300 * time.Millisecond
	r := newRig(t, kind, "", lease)
	var servers [2]*process
	for i := range servers {
		p, err := launch(r.settings)
		if err != nil {
			t.Fatal(err)
		}
		defer p.kill()
		servers[i] = p
	}
	for n := range pauses {
		if err := r.stopOnce(servers[n%2], servers[(n+1)%2], n, lease/2+r.draw(5*lease/2)); err != nil {
			t.Fatal(err)
		}
	}
	r.verify(t)
	for _, h := range r.histories {
		last := h.Answers[len(h.Answers)-1]
		if h.Guarantee == hold && last.Problem == string("outcome-unknown") {
			seen.unknown.Add(1)
		}
		if h.Guarantee == reexecute && h.count(Debit) > 1 {
			seen.taken.Add(1)
		}
		for _, a := range h.Answers {
			if !a.ok() || !a.Unrecorded {
				continue
			}
			seen.refused.Add(1)
			if h.Guarantee == hold {
				t.Errorf("others were told that the outcome is unknown, and this client that it is known\n%v", h)
			}
		}
	}
}

// stopOnce lets one server begin a few charges, stops it, asks the other for them,
// and lets the first go on.
func (r *rig) stopOnce(holder, other *process, episode int, pause time.Duration) error {
	var qs []request
	for i := range 9 {
		g := guarantees[i%len(guarantees)]
		if g == tx && !r.kind.tx {
			g = hold
		}
		qs = append(qs, request{scope: "a", key: fmt.Sprintf("%v-%d-%d", g, episode, i), guarantee: g, amount: i})
	}
	var holding sync.WaitGroup
	for _, q := range qs {
		q.order.work = 50*time.Millisecond + r.draw(100*time.Millisecond)
		if q.guarantee == tx && r.kind.name == "sqlite" {
			q.order.work = 0 // it would hold the one write lock
		}
		holding.Go(func() { r.charge(context.Background(), holder, q) })
	}
	time.Sleep(20*time.Millisecond + r.draw(100*time.Millisecond))
	if err := holder.signal(syscall.SIGSTOP); err != nil {
		return err
	}
	woken := time.AfterFunc(pause, func() { holder.signal(syscall.SIGCONT) })
	crowd(len(qs), func(i int) {
		work := time.Duration(0)
		if i%2 == 0 && qs[i].guarantee == reexecute {
			work = 3 * r.settings.Lease // so that the holder wakes while the next one works
		}
		r.settle(other, qs[i], work)
	})
	holding.Wait()
	woken.Stop()
	if err := holder.signal(syscall.SIGCONT); err != nil { // settled before the pause was over
		return err
	}
	crowd(len(qs), func(i int) {
		r.settle(holder, qs[i], 0)
		r.settle(other, qs[i], 0)
	})
	return nil
}
