package fleet

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gabion-go/gabion/internal/fleetlook"
)

// limit is what all processes may do together in a second.
const limit = 1000.0

// A stage is one run, and what the table says of it.
type stage struct {
	*testing.T
	witness *witness
	crew    *crew
	rows    strings.Builder
}

// newStage starts processes that use a store, and lets them find their shares.
func newStage(t *testing.T, store string, way string, processes int, lease time.Duration) *stage {
	t.Helper()
	w, err := newWitness()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.close)
	c := &crew{job: job{Store: store, Witness: w.listener.Addr().String(), Rate: limit, Lease: lease, Wait: 300 * time.Millisecond, Way: way}}
	t.Cleanup(c.end)
	if err := c.start(processes); err != nil {
		t.Fatal(err)
	}
	s := &stage{T: t, witness: w, crew: c}
	s.rows.WriteString("\n| What | Wanted | Used of the limit | Most in any second, sent | came | Jain | Median | p99 | p99.9 | Failed but for the limit |\n|---|---|---|---|---|---|---|---|---|---|\n")
	return s
}

func (s *stage) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// figures are what came of a while.
type figures struct {
	used, sent, came, sentBusy, jain float64
	p999                             time.Duration // of a call of the median process
}

// busy is the time over which the ordinary tests judge what was sent. Where a machine does ten things at once, a process sends late
// what was due a tenth of a second ago, and that is much of one second.
const busy = 2 * time.Second

// during measures a while, in which do happens. Settle is how long before it does not count.
func (s *stage) during(what string, settle, d time.Duration, do func()) figures {
	s.Helper()
	time.Sleep(settle)
	_, err := s.crew.ask()
	s.must(err)
	from := s.witness.now()
	done := make(chan struct{})
	go func() { defer close(done); do() }()
	<-done
	time.Sleep(d - (s.witness.now() - from))
	to := s.witness.now()
	t, err := s.crew.ask()
	s.must(err)
	all := s.witness.between(from, to)
	most := func(span time.Duration, of func(seen) time.Duration) float64 {
		n, _ := worst(all, span, of)
		return float64(n) / limit / span.Seconds()
	}
	f := figures{
		float64(len(all)) / limit / (to - from).Seconds(), most(time.Second, bySent), most(time.Second, byCame), most(busy, bySent), jain(all, s.crew.numbers()), t.P999,
	}
	failed := t.Wanted - t.Sent
	for text, n := range t.Failures {
		if strings.Contains(text, "limited") {
			failed -= n
		}
	}
	fmt.Fprintf(&s.rows, "| %s | %.0f %% | %.1f %% | %.1f %% | %.1f %% | %.3f | %v | %v | %v | %d |\n", what, 100*float64(t.Wanted)/limit/(to-from).Seconds(), 100*f.used, 100*f.sent, 100*f.came, f.jain,
		t.P50.Round(10*time.Microsecond), t.P99.Round(10*time.Microsecond), t.P999.Round(10*time.Microsecond), failed)
	if s.crew.job.Way != wayRate {
		s.look(what)
	}
	if failed > 0 {
		s.Logf("%s: %v", what, t.Failures)
	}
	return f
}

// look logs what the store has of the fleet.
func (s *stage) look(what string) {
	ctx, cancel := context.WithTimeout(s.Context(), time.Second) // it may be gone
	defer cancel()
	store, err := openStore(ctx, s.crew.job.Store)
	if err != nil {
		s.Logf("%s: %v", what, err)
		return
	}
	v, err := fleetlook.Look(ctx, store, "e2e")
	if err != nil {
		s.Logf("%s: %v", what, err)
		return
	}
	var held, wanted, of float64
	text := ""
	for i := range v.Members {
		m := &v.Members[i]
		for _, share := range m.Shares {
			held, wanted, of = held+share.Amount, wanted+share.Wants, share.Of
			if share.Wants > limit/10 || share.Amount > limit/10 || share.Amount == 0 {
				text += fmt.Sprintf("; %s wants %.1f and has %.1f", m.ID, share.Wants, share.Amount)
			}
		}
	}
	s.Logf("%s: %d members want %.1f and have %.1f of %.1f%s", what, len(v.Members), wanted, held, of, text)
}

func nothing() {}

// want says which figures are too bad.
func (s *stage) want(what string, f figures, used, most float64) {
	s.Helper()
	if f.used < used || f.sent > most {
		s.Errorf("%s: %.1f %% of the limit was used, want at least %.0f %%; %.1f %% in one second, want at most %.0f %%", what, 100*f.used, 100*used, 100*f.sent, 100*most)
	}
}

// wantBusily is want with bounds for a machine that runs other tests as well, with the race detector, so that processes
// and witness are late. Without shares half as much again as the limit would be sent.
func (s *stage) wantBusily(what string, f figures) {
	s.Helper()
	f.sent = f.sentBusy
	s.want(what, f, 0.5, 1.3)
}

// settle waits until each process has a share and all of the limit is in shares.
func (s *stage) settle() {
	s.Helper()
	store, err := openStore(s.Context(), s.crew.job.Store)
	s.must(err)
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		v, err := fleetlook.Look(s.Context(), store, "e2e")
		if err != nil {
			continue
		}
		held, have := 0.0, 0
		for i := range v.Members {
			for _, share := range v.Members[i].Shares {
				if held += share.Amount; share.Amount > 0 {
					have++
				}
			}
		}
		if have == len(s.crew.members) && held > 0.98*limit {
			return
		}
	}
	s.look("after two minutes")
	s.Fatal("shares do not settle")
}

// all says what the most was in any second since the stage began, between what was measured too.
func (s *stage) all() float64 {
	all := s.witness.between(0, s.witness.now())
	n, at := worst(all, time.Second, bySent)
	s.Logf("%s\n%d calls in all; the most in any second was %d, from %v on", s.rows.String(), len(all), n, at.Round(time.Millisecond))
	return float64(n) / limit
}
