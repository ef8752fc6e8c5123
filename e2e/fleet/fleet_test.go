package fleet

import (
	"fmt"
	"os"
	"os/signal"
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

// The wants of processes are known some ten seconds after they fell: see internal/fleet's Estimate.
const shifts = 12 * time.Second

// ordinary is a length of leases with which a test is short, and with which a busy machine still renews them in time.
const ordinary = 4 * time.Second

// Fifty processes and Redis, with leases so short that the test is.
func TestFiftyProcessesOnRedis(t *testing.T) {
	if testing.Short() {
		t.Skip("long: fifty processes for half a minute")
	}
	server := testservers.StartRedis(t, "--appendonly", "yes")
	s := newStage(t, "redis://"+server.Addr, wayGabion, 50, ordinary)
	t.Cleanup(func() { s.all() })
	s.must(s.crew.evenly(1.5 * limit))
	s.settle()
	f := s.during("even", time.Second, 3*time.Second, nothing)
	if s.wantBusily("even", f); f.jain < 0.7 {
		t.Errorf("among equals Jain's index is %.3f", f.jain)
	}
	s.wantBusily("one is stopped for longer than its lease", s.during("one is stopped for longer than its lease", 0, 6*time.Second, func() { s.must(s.crew.members[3].pause(5 * time.Second)) }))
	s.wantBusily("the store is gone", s.during("the store is gone", 0, 5*time.Second, func() {
		server.Kill()
		time.Sleep(4500 * time.Millisecond)
		server.Restart()
	}))
	s.must(s.crew.mostly(7, 1.5*limit))
	// One process may not get to send four fifths beside other tests. What it must not is send too much.
	f = s.during("four fifths at one", shifts, 3*time.Second, nothing)
	f.sent = f.sentBusy
	s.want("four fifths at one", f, 0.1, 1.3)
}

// Fewer processes on the other stores: what differs is the store.
func TestTenProcessesOnOtherStores(t *testing.T) {
	if testing.Short() {
		t.Skip("long: ten processes for ten seconds, twice")
	}
	for name, start := range map[string]func(testing.TB) *testservers.Server{
		"PostgreSQL": func(t testing.TB) *testservers.Server { return testservers.StartPostgres(t) },
		"NATS":       testservers.StartOwnNATS,
	} {
		t.Run(name, func(t *testing.T) {
			server := start(t)
			s := newStage(t, server.DSN, wayGabion, 10, ordinary)
			t.Cleanup(func() { s.all() })
			s.must(s.crew.evenly(1.5 * limit))
			s.settle()
			s.wantBusily("even", s.during("even", time.Second, 2*time.Second, nothing))
			s.wantBusily("the store is gone", s.during("the store is gone", 0, 5*time.Second, func() {
				server.Kill()
				time.Sleep(4500 * time.Millisecond)
				server.Restart()
			}))
		})
	}
}

// GABION_MEASURE=1 go test ./e2e/fleet -run Measure -v -timeout 30m measures leases of ten seconds, which is the table of
// docs/fleet.md.
func TestMeasure(t *testing.T) {
	if os.Getenv("GABION_MEASURE") == "" {
		t.Skip("set GABION_MEASURE=1: it takes some eight minutes")
	}
	server := testservers.StartRedis(t, "--appendonly", "yes")
	s := newStage(t, "redis://"+server.Addr, wayGabion, 50, 10*time.Second)
	t.Cleanup(func() { s.all() })
	const least, most = 0.97, 1.02
	s.must(s.crew.evenly(0.7 * limit))
	s.settle()
	s.during("seven tenths of the limit", 20*time.Second, 30*time.Second, nothing)
	s.must(s.crew.evenly(1.5 * limit))
	f := s.during("even", 20*time.Second, 30*time.Second, nothing)
	if s.want("even", f, least, most); f.jain < 0.98 {
		t.Errorf("among equals Jain's index is %.3f, want 0.98 at least", f.jain)
	}
	s.want("one is stopped for 30 s", s.during("one is stopped for 30 s", 0, 35*time.Second, func() { s.must(s.crew.members[3].pause(30 * time.Second)) }), 0.95, most)
	s.want("twenty are replaced", s.during("twenty are replaced", 0, 60*time.Second, func() {
		for n := range 20 {
			s.must(s.crew.replace(1.5*limit/50, n%4 == 0))
			time.Sleep(2 * time.Second)
		}
	}), 0.90, most)
	s.must(s.crew.mostly(7, 1.5*limit))
	s.want("four fifths at one", s.during("four fifths at one", shifts, 30*time.Second, nothing), least, most)
	s.want("and then at another", s.during("and then at another", 0, 60*time.Second, func() { s.must(s.crew.mostly(8, 1.5*limit)) }), 0.80, most)
	s.must(s.crew.evenly(1.5 * limit))
	s.want("the store is gone for 60 s", s.during("the store is gone for 60 s", 20*time.Second, 60*time.Second, func() {
		server.Kill()
		time.Sleep(60 * time.Second)
	}), 0.90, most)
	server.Restart()
	s.want("and is back", s.during("and is back", 10*time.Second, 20*time.Second, nothing), least, most)
}

// The same with a round trip for each call: redis_rate as it comes.
func TestMeasureRedisRate(t *testing.T) {
	if os.Getenv("GABION_MEASURE") == "" {
		t.Skip("set GABION_MEASURE=1: it takes two minutes")
	}
	server := testservers.StartRedis(t, "--appendonly", "yes")
	s := newStage(t, "redis://"+server.Addr, wayRate, 50, 10*time.Second)
	t.Cleanup(func() { s.all() })
	s.must(s.crew.evenly(0.7 * limit))
	s.during("seven tenths of the limit", 5*time.Second, 20*time.Second, nothing)
	s.must(s.crew.evenly(1.5 * limit))
	s.during("even", 5*time.Second, 20*time.Second, nothing)
	s.must(s.crew.mostly(7, 1.5*limit))
	s.during("four fifths at one", 5*time.Second, 20*time.Second, nothing)
	s.must(s.crew.evenly(1.5 * limit))
	s.during("the store is gone for 20 s", 5*time.Second, 20*time.Second, func() {
		server.Kill()
		time.Sleep(20 * time.Second)
	})
}
