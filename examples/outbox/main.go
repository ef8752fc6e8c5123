// Command outbox is a shop, a broker and a payment service, with a crash between them: each
// order that was committed is paid once, and no other.
//
// The shop writes an order and a message about it in one transaction (package outbox). A
// relay, a process of its own, publishes the messages to NATS JetStream, and dies before it
// has written down that it did. The next one publishes them again. The payment service
// charges each order once, since it looks their keys up (package consumer).
package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/contrib/natsmsg"
	"github.com/gabion-go/gabion/contrib/sqlitestore"
	"github.com/gabion-go/gabion/gabionsql"
	"github.com/gabion-go/gabion/messages/outbox"
	"github.com/gabion-go/gabion/policy"
)

// Variables by which this program starts itself again, as the relay.
const (
	relayVar = "OUTBOX_RELAY" // the broker's address
	fileVar  = "OUTBOX_FILE"  // the shop's database
	dieVar   = "OUTBOX_DIE"   // die once something was published
)

func main() {
	if err := role(context.Background(), os.Stdout); err != nil {
		log.Fatal(err)
	}
}

func role(ctx context.Context, out io.Writer) error {
	if url := os.Getenv(relayVar); url != "" {
		return relay(ctx, url, os.Getenv(fileVar))
	}
	return run(ctx, out)
}

// run is the whole story.
func run(ctx context.Context, out io.Writer) error {
	dir, err := os.MkdirTemp("", "outbox")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	url, stop, err := startBroker(ctx, dir)
	if err != nil {
		return err
	}
	defer stop()
	file := filepath.Join(dir, "shop.db")
	shop, err := openShop(ctx, file)
	if err != nil {
		return err
	}
	defer shop.db.Close()
	bank, err := openBank(ctx, url, filepath.Join(dir, "bank.db"))
	if err != nil {
		return err
	}
	defer bank.close()

	for n := 1; n <= 3; n++ {
		if err := shop.order(ctx, fmt.Sprint("order-", n), nil); err != nil {
			return err
		}
	}
	err = shop.order(ctx, "order-4", errSoldOut)
	fmt.Fprintf(out, "The shop committed three orders and rolled a fourth back: %v.\n", errors.Is(err, errSoldOut))

	if err := start(ctx, url, file, "yes").Wait(); err == nil {
		return errors.New("the relay did not die")
	}
	s, err := shop.box.Stats(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "A relay died after it had published. %d messages still wait in the table.\n", s.Waiting)
	if err := bank.await(ctx, 3, 0); err != nil {
		return err
	}

	second := start(ctx, url, file, "")
	defer func() { _ = second.Process.Kill(); _ = second.Wait() }()
	if err := bank.await(ctx, 3, 3); err != nil {
		return err
	}
	charged, again := bank.counts()
	fmt.Fprintf(out, "The next relay published them again. Charged: %s. Dropped as duplicates: %d.\n", strings.Join(charged, " "), again)
	return nil
}

// start starts this program as the relay.
func start(ctx context.Context, url, file, die string) *exec.Cmd {
	self := exec.CommandContext(ctx, os.Args[0]) //nolint:gosec // it is this program
	self.Env = append(os.Environ(), relayVar+"="+url, fileVar+"="+file, dieVar+"="+die)
	self.Stderr = os.Stderr
	if err := self.Start(); err != nil {
		log.Fatal(err)
	}
	return self
}

// A shop has orders and messages in one database.
type shop struct {
	db     *sql.DB
	orders *gabion.Dependency
	box    *outbox.Outbox
}

func openShop(ctx context.Context, file string) (*shop, error) {
	db, _, err := sqlitestore.Open(ctx, file, "keys")
	if err != nil {
		return nil, err
	}
	box, err := outbox.New(db, outbox.SQLite, "outbox", outbox.Options{})
	if err == nil {
		err = box.Migrate(ctx)
	}
	if err == nil {
		_, err = db.ExecContext(ctx, "CREATE TABLE IF NOT EXISTS orders (id text PRIMARY KEY)")
	}
	p, _ := policy.Preset("database")
	return &shop{db, gabion.New("shop", p), box}, err
}

var errSoldOut = errors.New("sold out")

// order writes an order and a message about it: both or none.
func (s *shop) order(ctx context.Context, id string, trouble error) error {
	return gabionsql.RunTx(ctx, s.orders, s.db, func(ctx context.Context, tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, "INSERT INTO orders VALUES (?)", id); err != nil {
			return err
		}
		placed := outbox.Message{Topic: "orders.placed", Aggregate: id, Payload: []byte(id)}
		if err := s.box.Enqueue(ctx, tx, placed); err != nil {
			return err
		}
		return trouble
	})
}

// relay publishes what the shop committed, until it is killed.
func relay(ctx context.Context, url, file string) error {
	shop, err := openShop(ctx, file)
	if err != nil {
		return err
	}
	defer shop.db.Close()
	js, err := connect(url)
	if err != nil {
		return err
	}
	p, _ := policy.Preset("internal-rpc")
	quiet := func(outbox.Notice) {}
	r, err := shop.box.Relay(mortal{natsmsg.Publisher(js)}, gabion.New("broker", p), outbox.RelayOptions{Lease: time.Second, Notify: quiet})
	if err != nil {
		return err
	}
	return r.Run(ctx)
}

// A mortal publisher can end its process after it has published.
type mortal struct{ outbox.Publisher }

// Publish implements outbox.Publisher.
func (p mortal) Publish(ctx context.Context, messages []outbox.Message) []error {
	errs := p.Publisher.Publish(ctx, messages)
	if os.Getenv(dieVar) != "" {
		os.Exit(137) // nothing is written down, and the lease is not given back
	}
	return errs
}

// startBroker starts JetStream in this process. Its window for duplicates is short: the
// consumer must not rely on it.
func startBroker(ctx context.Context, dir string) (url string, stop func(), err error) {
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: -1, JetStream: true, StoreDir: dir, NoSigs: true, NoLog: true})
	if err != nil {
		return "", nil, err
	}
	s.Start()
	stop = sync.OnceFunc(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(time.Minute) {
		stop()
		return "", nil, errors.New("the broker does not start")
	}
	js, err := connect(s.ClientURL())
	if err == nil {
		_, err = js.CreateStream(ctx, jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"orders.>"}, Duplicates: 100 * time.Millisecond})
	}
	return s.ClientURL(), stop, err
}

func connect(url string) (jetstream.JetStream, error) {
	nc, err := nats.Connect(url)
	if err != nil {
		return nil, err
	}
	return jetstream.New(nc)
}

var silent = slog.New(slog.DiscardHandler)
