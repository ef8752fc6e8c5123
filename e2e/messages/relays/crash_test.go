package relays

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/gabion-go/gabion/contrib/natsmsg"
	"github.com/gabion-go/gabion/contrib/sqlitestore"
	"github.com/gabion-go/gabion/e2e/messages/clocks"
	"github.com/gabion-go/gabion/e2e/messages/mortal"
	"github.com/gabion-go/gabion/internal/testservers"
	"github.com/gabion-go/gabion/messages/message"
	"github.com/gabion-go/gabion/messages/outbox"
)

// The test binary is also the relay: a process of its own, for it is killed.
const (
	brokerVar = "RELAYS_BROKER"
	dsnVar    = "RELAYS_DSN"   // of PostgreSQL, or the name of SQLite's file
	clockVar  = "RELAYS_CLOCK" // the file of SQLite's clock
)

// Where a relay may die. What comes after a mark is what comes before the next publishing.
const (
	beforePublish = "before publishing"
	amidPublish   = "when half is published"
	afterPublish  = "after publishing, before the rows are marked"
	afterMark     = "after the rows are marked"
)

func TestMain(m *testing.M) {
	mortal.Main(m, map[string]func(context.Context) error{"relay": child})
}

func child(ctx context.Context) error {
	if clock := clocks.File(os.Getenv(clockVar)); clock != "" {
		if err := clock.Follow(); err != nil {
			return err
		}
	}
	nc, js, err := connect(os.Getenv(brokerVar))
	if err != nil {
		return err
	}
	defer nc.Close()
	db, d, err := openDSN(ctx, os.Getenv(dsnVar))
	if err != nil {
		return err
	}
	defer db.Close()
	box, err := outbox.New(db, d, "outbox", outbox.Options{})
	if err != nil {
		return err
	}
	relay, err := box.Relay(deadly{natsmsg.Publisher(js)}, dependency(quick), outbox.RelayOptions{Batch: 10, Poll: 10 * time.Millisecond, Lease: time.Second})
	if err != nil {
		return err
	}
	return relay.Run(ctx)
}

func openDSN(ctx context.Context, dsn string) (*sql.DB, outbox.Dialect, error) {
	if strings.HasPrefix(dsn, "postgres") {
		db, err := sql.Open("pgx", dsn)
		return db, outbox.Postgres, err
	}
	db, _, err := sqlitestore.Open(ctx, dsn, "keys")
	return db, outbox.SQLite, err
}

// A deadly publisher kills its process.
type deadly struct{ outbox.Publisher }

// Publish implements outbox.Publisher.
func (p deadly) Publish(ctx context.Context, messages []outbox.Message) []error {
	mortal.Die(beforePublish)
	mortal.Die(afterMark) // of the messages before
	if half := len(messages) / 2; mortal.Place() == amidPublish && half > 0 {
		p.Publisher.Publish(ctx, messages[:half])
		mortal.Die(amidPublish)
	}
	errs := p.Publisher.Publish(ctx, messages)
	mortal.Die(afterPublish)
	return errs
}

// A rig is a shop, a broker, a bank, and relays that are processes of their own.
type rig struct {
	*shop
	dsn, url string
	clock    clocks.File // of SQLite in the relays; empty for the machine's
	js       jetstream.JetStream
	bank     *bank
}

func newRig(t *testing.T, dsn string) *rig {
	t.Helper()
	db, d, err := openDSN(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	r := &rig{shop: newShop(t, db, d, outbox.Options{}), dsn: dsn}
	r.url, r.js = startBroker(t)
	r.bank = newBank(t, r.js)
	r.bank.work()
	return r
}

// order commits messages of several aggregates, some in each transaction.
func (r *rig) order(from, to int) {
	r.Helper()
	for n := from; n < to; n += 5 {
		var some []outbox.Message
		for i := n; i < min(n+5, to); i++ {
			m := about(fmt.Sprint("a", i%3), fmt.Sprintf("m%05d", i))
			m.Headers = message.Headers{{Name: "Aggregate", Value: m.Aggregate}}
			some = append(some, m)
		}
		r.enqueue(some...)
	}
}

func (r *rig) start(die string, after int) *mortal.Child {
	r.Helper()
	return mortal.Start(r, mortal.Birth{Role: "relay", Die: die, After: after, Env: []string{brokerVar + "=" + r.url, dsnVar + "=" + r.dsn, clockVar + "=" + string(r.clock)}})
}

// endLease ends the lease of a relay that is dead: the test need not wait for that.
func (r *rig) endLease() {
	r.Helper()
	if _, err := r.db.ExecContext(r.Context(), "UPDATE outbox_relay SET until = 0"); err != nil {
		r.Fatal(err)
	}
}

// wantOrder looks at all that the broker got: of each aggregate, each message came for the
// first time before the later ones. It returns how many came more than once.
func (r *rig) wantOrder(messages int) (doubles int) {
	r.Helper()
	s, err := r.js.Stream(r.Context(), stream)
	if err != nil {
		r.Fatal(err)
	}
	info, err := s.Info(r.Context())
	if err != nil {
		r.Fatal(err)
	}
	seen, last := map[string]bool{}, map[string]string{}
	for seq := uint64(1); seq <= info.State.LastSeq; seq++ {
		m, err := s.GetMsg(r.Context(), seq)
		if err != nil {
			r.Fatal(err)
		}
		id, aggregate := m.Header.Get(message.Key), m.Header.Get("Aggregate")
		if !seen[id] && id < last[aggregate] {
			r.Errorf("%s came after %s of the same aggregate", id, last[aggregate])
		}
		if !seen[id] {
			last[aggregate] = id
		} else {
			doubles++
		}
		seen[id] = true
	}
	if len(seen) != messages {
		r.Errorf("%d messages were published, want %d", len(seen), messages)
	}
	return doubles
}

// IDEMPOTENCY case 75: a relay that dies between publishing and marking publishes twice, and
// the effect is one.
func TestRelayKilledAtEveryPoint(t *testing.T) {
	rigs := map[string]func(*testing.T) string{
		"PostgreSQL": func(t *testing.T) string { return testservers.Postgres(t) },
		"SQLite":     func(t *testing.T) string { return filepath.Join(t.TempDir(), "shop.db") },
	}
	for name, dsn := range rigs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, dsn(t))
			const each = 30
			rounds, n := mortal.Size(1, 25), 0
			for round := range rounds {
				for _, point := range []string{afterPublish, beforePublish, amidPublish, afterMark} {
					var writing sync.WaitGroup
					writing.Go(func() { r.order(n, n+each) })
					r.start(point, 2+round%2).MustDie(r)
					writing.Wait()
					if point != afterPublish { // in the others' time the lease ends by itself
						r.endLease()
					}
					n += each
				}
			}
			last := r.start("", 0)
			r.wantStats(0, 0, 0)
			r.bank.wantOnce(r.shop, n)
			doubles := r.wantOrder(n)
			if r.bank.reasons["duplicate"] < doubles || doubles == 0 {
				t.Errorf("%d messages came twice, %d duplicates were acknowledged", doubles, r.bank.reasons["duplicate"])
			}
			t.Logf("%d messages, %d kills, %d came twice", n, 4*rounds, doubles)
			last.Kill()
		})
	}
}
