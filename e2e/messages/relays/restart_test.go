package relays

import (
	"fmt"
	"net"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/gabion-go/gabion/contrib/natsmsg"
	"github.com/gabion-go/gabion/internal/testservers"
	"github.com/gabion-go/gabion/messages/outbox"
)

func TestDatabaseIsKilledAndRestarts(t *testing.T) {
	t.Parallel()
	server := testservers.StartPostgres(t)
	s, b := newShop(t, openPostgres(t, server.DSN), outbox.Postgres, outbox.Options{}), &memory{}
	r := s.relay(b, outbox.RelayOptions{})
	s.enqueue(about("a", "m1"), about("a", "m2"))
	s.wantIDs(b, "m1", "m2")
	server.Kill()
	s.eventually(func() bool { return r.notices("broken")+r.notices("lease_lost") > 0 }, func() string { return "the relay says nothing" })
	server.Restart()
	s.eventually(func() bool { return s.db.PingContext(t.Context()) == nil }, func() string { return "the server does not start" })
	s.enqueue(about("a", "m3"))
	s.wantIDs(b, "m1", "m2", "m3")
	r.stop()
	s.eventually(func() bool { return s.db.Stats().InUse == 0 }, func() string { return fmt.Sprintf("%+v", s.db.Stats()) })
}

func TestBrokerIsStoppedAndRestarts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	server := serve(t, -1, dir)
	nc, js, err := connect(server.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	ordersOf := jetstream.StreamConfig{Name: stream, Subjects: []string{"orders"}}
	if _, err := js.CreateStream(t.Context(), ordersOf); err != nil {
		t.Fatal(err)
	}
	s := newShop(t, openPostgres(t, testservers.Postgres(t)), outbox.Postgres, outbox.Options{})
	r := s.relay(natsmsg.Publisher(js), outbox.RelayOptions{})
	s.enqueue(about("a", "m1"), about("b", "m2"))
	s.wantStats(0, 0, 0)
	port := server.Addr().(*net.TCPAddr).Port
	server.Shutdown()
	server.WaitForShutdown()
	s.enqueue(about("a", "m3"), about("b", "m4"), about("a", "m5"))
	s.eventually(func() bool { return r.notices("resting") > 0 }, func() string { return "the relay says nothing" })
	serve(t, port, dir)
	s.wantStats(0, 0, 0)
	kept, err := js.Stream(t.Context(), stream)
	if err != nil {
		t.Fatal(err)
	}
	info, err := kept.Info(t.Context())
	if err != nil || info.State.Msgs != 5 {
		t.Errorf("%+v, %v, want 5 messages", info, err)
	}
}
