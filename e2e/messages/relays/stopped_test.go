//go:build unix

package relays

import (
	"syscall"
	"testing"

	"github.com/gabion-go/gabion/e2e/messages/mortal"
	"github.com/gabion-go/gabion/internal/testservers"
)

// A leader that is stopped for longer than its lease finds another one when it goes on. What
// it has at hand comes twice, and changes no order.
func TestLeaderThatWasStopped(t *testing.T) {
	t.Parallel()
	r := newRig(t, testservers.Postgres(t)) // with SQLite, it may be stopped with the one write lock
	first, n := r.start("", 0), 0
	order := func() {
		r.order(n, n+20)
		n += 20
	}
	order()
	r.wantStats(0, 0, 0)
	was := r.stats().Leader
	second := r.start("", 0)
	leading, other := first, second
	for range 2 {
		order()
		if err := leading.Process.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		order()
		r.wantStats(0, 0, 0)
		is := r.stats().Leader
		if is == was {
			t.Errorf("%s leads, and is stopped", is)
		}
		was = is
		order()
		if err := leading.Process.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		order()
		r.wantStats(0, 0, 0)
		leading, other = other, leading
	}
	r.bank.wantOnce(r.shop, n)
	r.wantOrder(n)
	for _, c := range []*mortal.Child{first, second} {
		c.End(r, 0)
	}
}
