package redrives

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver pgx

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/classify"
	"github.com/gabion-go/gabion/contrib/sqlitestore/sqliteletters"
	"github.com/gabion-go/gabion/e2e/messages/clocks"
	"github.com/gabion-go/gabion/e2e/messages/mortal"
	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/idempotency/sqlstore"
	"github.com/gabion-go/gabion/messages/consumer"
	"github.com/gabion-go/gabion/messages/deadletter"
	"github.com/gabion-go/gabion/messages/deadletter/sqlletters"
	"github.com/gabion-go/gabion/messages/inbox"
	"github.com/gabion-go/gabion/policy"
)

// The test binary is also the consumer: a process of its own, for it is killed.
const (
	dirVar     = "REDRIVES_DIR"
	lettersVar = "REDRIVES_LETTERS" // the address of PostgreSQL, or the name of SQLite's file
	clockVar   = "REDRIVES_CLOCK"   // the file of the clock of letters in SQLite
)

// points are where a consumer may die: with letters at hand, in the work, after COMMIT but before
// it settles the letter, and after that.
var points = []string{"taken", "work", "commit", "settled"}

const group = "bank"

func TestMain(m *testing.M) {
	mortal.Main(m, map[string]func(context.Context) error{"redrive": redrive})
}

// openLetters opens the store of letters. In SQLite its clock is that of the file, if there is one.
func openLetters(ctx context.Context, where string, clock clocks.File) (deadletter.Store, io.Closer, error) {
	if !strings.HasPrefix(where, "postgres") {
		s, err := sqliteletters.Open(ctx, where, deadletter.Options{Clock: func() time.Time { return time.Now().Add(clock.Off()) }})
		return s, s, err
	}
	db, err := sql.Open("pgx", where)
	if err != nil {
		return nil, nil, err
	}
	s, err := sqlletters.New(db, sqlletters.Postgres, "dead_letters", deadletter.Options{})
	if err == nil {
		err = s.Migrate(ctx)
	}
	return s, db, err
}

type quiet struct{}

// Observe implements idempotency.Observer.
func (quiet) Observe(context.Context, idempotency.Event) {}

// newConsumer returns a consumer as the test and its processes have it.
func newConsumer(store idempotency.Store, letters deadletter.Store) (*consumer.Consumer, error) {
	p := policy.Policy{Breaker: policy.Breaker{Off: true}, Retry: policy.Retry{Attempts: 3, Budget: policy.Budget{Off: true}}}
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	return consumer.New(gabion.New(group, p, gabion.WithLogger(log)), store, consumer.Options{
		Letters: letters, Logger: log, GiveUpAfter: -1,
		Inbox: inbox.Options{RunnerConfig: idempotency.RunnerConfig{Guarantee: idempotency.GuaranteeTx, Lease: 3 * time.Second, Observer: quiet{}}},
	})
}

// Deadly orders kill their process.
type deadly struct{ deadletter.Store }

// Take implements consumer.Orders.
func (m deadly) Take(ctx context.Context, group string, n int, lease time.Duration) ([]deadletter.Lease, time.Duration, error) {
	taken, again, err := m.Store.Take(ctx, group, n, lease)
	if len(taken) > 0 {
		mortal.Die("taken")
	}
	return taken, again, err
}

// Settle implements consumer.Orders.
func (m deadly) Settle(ctx context.Context, l deadletter.Lease, v deadletter.Verdict) error {
	mortal.Die("commit")
	err := m.Store.Settle(ctx, l, v)
	mortal.Die("settled")
	return err
}

var errDown = classify.Transient(errors.New("the bank is down"))

// down is the file that is there while the bank is down.
func down(dir string) string { return filepath.Join(dir, "down") }

// redrive runs letters again until the process is killed.
func redrive(ctx context.Context) error {
	dir := os.Getenv(dirVar)
	letters, closer, err := openLetters(ctx, os.Getenv(lettersVar), clocks.File(os.Getenv(clockVar)))
	if err != nil {
		return err
	}
	defer closer.Close()
	db, store, err := mortal.OpenBank(ctx, dir)
	if err != nil {
		return err
	}
	defer db.Close()
	c, err := newConsumer(store, letters)
	if err != nil {
		return err
	}
	return c.Redrive(ctx, deadly{letters}, func(ctx context.Context) error {
		fmt.Println("run")
		_, err := sqlstore.TxFrom(ctx).ExecContext(ctx, "INSERT INTO bookings VALUES (?, 1)", consumer.MessageFrom(ctx).ID)
		mortal.Die("work")
		if _, is := os.Stat(down(dir)); err == nil && is == nil {
			err = errDown
		}
		return err
	}, consumer.Redrive{Workers: 3, Lease: time.Second, Idle: 50 * time.Millisecond})
}
