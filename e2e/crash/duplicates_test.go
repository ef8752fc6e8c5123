package crash

import (
	"context"
	"fmt"
	"testing"
	"time"
)

// C: many duplicates of each request reach three servers on one store, some with
// another body, some from clients that do not wait; and another tenant uses the
// same keys. Nothing is broken, so every key has exactly one effect.
func TestDuplicatesOnThreeServers(t *testing.T) {
	t.Parallel()
	for _, kind := range stores {
		if !kind.shared {
			continue
		}
		keys := soak(80, 5000)
		if kind.name != "postgres" {
			keys = soak(12, 500)
		}
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			duplicates(t, kind, keys, 64)
		})
	}
}

// atOnce is how many keys are under way at any time.
const atOnce = 6

func duplicates(t *testing.T, kind *storeKind, keys, copies int) {
	r := newRig(t, kind, "", 30*time.Second)
	r.calm = true
	var servers []*process
	for _, wait := range []time.Duration{0, 100 * time.Millisecond, 2 * time.Second} {
		c := r.settings
		c.Wait = wait
		p, err := launch(c)
		if err != nil {
			t.Fatal(err)
		}
		defer p.kill()
		servers = append(servers, p)
	}
	r.duplicates(servers, keys, copies, 15*time.Millisecond)
	r.verify(t)
	t.Logf("%d keys, %d requests", len(r.histories), r.requests())
}

// duplicates sends requests for keys of two tenants, who use the same ones, and
// copies of each. The work takes up to most.
func (r *rig) duplicates(servers []*process, keys, copies int, most time.Duration) {
	next := make(chan request)
	go func() {
		for n := range keys {
			g := guarantees[n/2%len(guarantees)]
			if g == tx && !r.kind.tx {
				g = hold
			}
			next <- request{scope: string(rune('a' + n%2)), key: fmt.Sprintf("%v-%d", g, n/2), guarantee: g, amount: n &^ 1}
		}
		close(next)
	}()
	crowd(atOnce, func(int) {
		for q := range next {
			r.duplicate(servers, q, copies, most)
		}
	})
}

// duplicate sends a request many times at about the same time.
func (r *rig) duplicate(servers []*process, q request, copies int, most time.Duration) {
	crowd(copies, func(i int) {
		q := q
		if i > 0 && r.chance(5) {
			q.amount++ // another request
		}
		q.order.work = r.draw(most)
		ctx, cancel := context.Background(), func() {}
		if i > 0 && r.chance(10) {
			ctx, cancel = context.WithTimeout(ctx, r.draw(most))
		}
		defer cancel()
		time.Sleep(r.draw(2 * most))
		r.charge(ctx, servers[r.draw(time.Duration(len(servers)-1))], q)
	})
	for _, to := range servers {
		r.settle(to, q, 0)
	}
}

func (r *rig) requests() (n int) {
	for _, h := range r.histories {
		n += len(h.Answers)
	}
	return n
}
