package fleet

import (
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/gabion-go/gabion/internal/testservers"
)

// TestMain is a process of a fleet or a NATS server, if this process was started as one.
func TestMain(m *testing.M) {
	var err error
	if text := os.Getenv(childEnv); text != "" {
		err = child(text)
	} else if port, dir, name, is := testservers.OwnNATS(); is {
		err = serveNATS(port, dir, name)
	} else {
		os.Exit(m.Run())
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

func serveNATS(port int, dir, name string) error {
	n, err := server.NewServer(&server.Options{ServerName: name, Host: "127.0.0.1", Port: port, JetStream: true, StoreDir: dir, NoSigs: true, NoLog: true})
	if err != nil {
		return err
	}
	n.Start()
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGTERM)
	<-end
	n.Shutdown()
	return nil
}

// limit is what all processes may do together in a second.
const limit = 1000.0

// A stage is one run, and what the table says of it.
type stage struct {
	*testing.T
	witness *witness
	crew    *crew
	rows    strings.Builder
	began   time.Duration
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
	s.rows.WriteString("\n| What | Used of the limit | Most in any second, sent | came | Jain | Median | p99 | p99.9 | Failed but for the limit |\n|---|---|---|---|---|---|---|---|---|\n")
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
	used, sent, came, jain float64
}

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
	sent, _ := worst(all, bySent)
	came, _ := worst(all, byCame)
	f := figures{
		float64(len(all)) / limit / (to - from).Seconds(), float64(sent) / limit, float64(came) / limit, jain(all, s.crew.numbers()),
	}
	failed := t.Wanted - t.Sent
	for text, n := range t.Failures {
		if strings.Contains(text, "limited") {
			failed -= n
		}
	}
	fmt.Fprintf(&s.rows, "| %s | %.1f %% | %.1f %% | %.1f %% | %.3f | %v | %v | %v | %d |\n", what, 100*f.used, 100*f.sent, 100*f.came, f.jain,
		t.P50.Round(10*time.Microsecond), t.P99.Round(10*time.Microsecond), t.P999.Round(10*time.Microsecond), failed)
	if failed > 0 {
		s.Logf("%s: %v", what, t.Failures)
	}
	return f
}

func nothing() {}

// want says which figures are too bad. Those of the whole run are wider in the ordinary test, as the machine may do something else.
func (s *stage) want(what string, f figures, used, most float64) {
	s.Helper()
	if f.used < used || f.sent > most {
		s.Errorf("%s: %.1f %% of the limit was used, want at least %.0f %%; %.1f %% in one second, want at most %.0f %%", what, 100*f.used, 100*used, 100*f.sent, 100*most)
	}
}

// all says what the most was in any second since the stage began, between what was measured too.
func (s *stage) all() float64 {
	all := s.witness.between(0, s.witness.now())
	n, at := worst(all, bySent)
	s.Logf("%s\n%d calls in all; the most in any second was %d, from %v on", s.rows.String(), len(all), n, at.Round(time.Millisecond))
	return float64(n) / limit
}

// Fifty processes and Redis, with leases so short that the test is.
func TestFiftyProcessesOnRedis(t *testing.T) {
	if testing.Short() {
		t.Skip("long: fifty processes for half a minute")
	}
	server := testservers.StartRedis(t, "--appendonly", "yes")
	s := newStage(t, "redis://"+server.Addr, wayGabion, 50, 2*time.Second)
	s.must(s.crew.evenly(1.5 * limit))
	f := s.during("even", 3*time.Second, 4*time.Second, nothing)
	s.want("even", f, 0.95, 1.04)
	if f.jain < 0.97 {
		t.Errorf("among equals Jain's index is %.3f", f.jain)
	}
	s.must(s.crew.mostly(7, 1.5*limit))
	s.want("four fifths at one", s.during("four fifths at one", 2*time.Second, 3*time.Second, nothing), 0.95, 1.04)
	s.want("the store is gone", s.during("the store is gone", 0, 5*time.Second, func() {
		server.Kill()
		time.Sleep(4 * time.Second)
		server.Restart()
	}), 0.85, 1.04)
	s.want("and is back", s.during("and is back", time.Second, 2*time.Second, nothing), 0.90, 1.04)
	s.must(s.crew.evenly(1.5 * limit))
	s.want("one is stopped for two leases", s.during("one is stopped for two leases", 2*time.Second, 5*time.Second, func() { s.must(s.crew.members[3].pause(4 * time.Second)) }), 0.90, 1.04)
	if most := s.all(); most > 1.05 {
		t.Errorf("%.1f %% of the limit in one second", 100*most)
	}
}
