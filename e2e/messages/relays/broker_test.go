package relays

import (
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const stream = "ORDERS"

// dedup is the shortest window in which JetStream drops a message that is published twice.
// The tests are about what comes after it.
const dedup = 100 * time.Millisecond

// startBroker starts a JetStream server in this process, and returns its address and a
// client.
func startBroker(t testing.TB) (url string, js jetstream.JetStream) {
	t.Helper()
	s := serve(t, -1, t.TempDir())
	nc, js, err := connect(s.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	_, err = js.CreateStream(t.Context(), jetstream.StreamConfig{Name: stream, Subjects: []string{"orders", "orders.>"}, Duplicates: dedup})
	if err != nil {
		t.Fatal(err)
	}
	return s.ClientURL(), js
}

func serve(t testing.TB, port int, dir string) *server.Server {
	t.Helper()
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: port, JetStream: true, StoreDir: dir, NoSigs: true, NoLog: true})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(patience) {
		t.Fatal("the broker does not start")
	}
	return s
}

func connect(url string) (*nats.Conn, jetstream.JetStream, error) {
	nc, err := nats.Connect(url, nats.Timeout(patience), nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond))
	if err != nil {
		return nil, nil, err
	}
	js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(patience), jetstream.WithPublishAsyncMaxPending(4096))
	return nc, js, err
}
