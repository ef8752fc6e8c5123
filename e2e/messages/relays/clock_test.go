package relays

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/e2e/messages/clocks"
	"github.com/gabion-go/gabion/e2e/messages/mortal"
	"github.com/gabion-go/gabion/internal/testservers"
	"github.com/gabion-go/gabion/messages/outbox"
)

// The database's clock is set forward, so that a lease ends early and a second relay leads beside
// the first, and back after a leader was killed, so that its lease would last for hours more. Nothing
// waits for that, nothing is lost, nothing is booked twice, and the order is kept.
func TestTheDatabasesClockIsStepped(t *testing.T) {
	rigs := map[string]func(*testing.T) (*rig, func(time.Duration)){
		"PostgreSQL": func(t *testing.T) (*rig, func(time.Duration)) {
			dsn, step := clocks.Postgres(t, testservers.Postgres(t))
			return newRig(t, dsn), step
		},
		"SQLite": func(t *testing.T) (*rig, func(time.Duration)) {
			dir := t.TempDir()
			r := newRig(t, filepath.Join(dir, "shop.db"))
			r.clock = clocks.File(filepath.Join(dir, "clock"))
			return r, func(off time.Duration) { r.clock.Step(t, off) }
		},
	}
	steps := []time.Duration{time.Hour, -2 * time.Hour, 3 * time.Minute, 0}
	steps = slices.Repeat(steps, mortal.Size(1, 16))
	for name, open := range rigs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, step := open(t)
			n := 0
			order := func() {
				r.order(n, n+20)
				n += 20
			}
			pair := []*mortal.Child{r.start("", 0), r.start("", 0)}
			for round, off := range steps {
				order()
				r.wantStats(0, 0, 0)
				order()
				if at := r.leading(pair); round%2 == 1 {
					pair[at].Kill()
					step(off)
					pair[at] = r.start("", 0)
				} else { // it goes on, and another takes the lease
					step(off)
				}
				order()
				r.wantStats(0, 0, 0)
			}
			r.bank.wantOnce(r.shop, n)
			r.wantOrder(n)
			for _, c := range pair {
				c.End(r, 0)
			}
		})
	}
}

// leading returns which relay had the lease last.
func (r *rig) leading(all []*mortal.Child) int {
	r.Helper()
	var owner string
	if err := r.db.QueryRowContext(r.Context(), "SELECT owner FROM outbox_relay").Scan(&owner); err != nil {
		r.Fatal(err)
	}
	for n, c := range all {
		if strings.HasSuffix(owner, "/"+strconv.Itoa(c.Process.Pid)) {
			return n
		}
	}
	r.Fatalf("the leader %s is not one of the relays", owner)
	return 0
}

// A message rests for a backoff at most, also where the clock is set back by an hour while it rests.
func whatRestsWhileTheClockIsSetBack(s *shop) {
	b := &memory{}
	b.refuse("b1", errNo)
	s.enqueue(about("b", "b1"), about("b", "b2"), about("a", "a1"))
	r := s.relay(b, outbox.RelayOptions{Backoff: backoff.Const(10 * time.Minute)})
	s.wantStats(1, 1, 0)
	if _, err := s.db.ExecContext(s.Context(), "UPDATE outbox SET due = due + 300000000000 WHERE state = 2"); err != nil { // five minutes are no step that can be seen
		s.Fatal(err)
	}
	r.stop()
	b.refuse("b1", nil)
	s.relay(b, outbox.RelayOptions{Backoff: backoff.Const(16 * time.Minute)})
	s.enqueue(about("c", "c1"))
	s.wantIDs(b, "a1", "c1")
	s.wantStats(1, 1, 0)
	if _, err := s.db.ExecContext(s.Context(), "UPDATE outbox SET due = due + 3600000000000 WHERE state = 2"); err != nil {
		s.Fatal(err)
	}
	s.wantIDs(b, "a1", "c1", "b1", "b2")
	s.wantStats(0, 0, 0)
}
