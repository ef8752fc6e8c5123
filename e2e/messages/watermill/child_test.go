package watermill

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	wm "github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/contrib/gabionmsg"
	"github.com/gabion-go/gabion/contrib/sqlitestore"
	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/idempotency/sqlstore"
	"github.com/gabion-go/gabion/messages/consumer"
	"github.com/gabion-go/gabion/messages/inbox"
	"github.com/gabion-go/gabion/messages/message"
	"github.com/gabion-go/gabion/policy"
)

// The test binary is also the consumer: a process of its own, for it is killed.
const (
	roleVar  = "WATERMILL_ROLE" // gabion or plain
	kindVar  = "WATERMILL_KIND"
	urlVar   = "WATERMILL_URL"
	dirVar   = "WATERMILL_DIR"
	dieVar   = "WATERMILL_DIE"       // where to die, of points
	afterVar = "WATERMILL_DIE_AFTER" // the how manyth time
	holdsVar = "WATERMILL_GUARANTEE" // a idempotency.Guarantee
)

// points are the places where a consumer is killed: before the work, in it, between COMMIT and
// Ack, between a dead letter and Ack, between a copy for later and Ack.
var points = []string{"begin", "work", "ack", "letter", "later"}

func TestMain(m *testing.M) {
	role := os.Getenv(roleVar)
	if role == "" {
		os.Exit(m.Run())
	}
	go func() { // no child outlives the test
		_, _ = os.Stdin.Read(make([]byte, 1))
		os.Exit(3)
	}()
	if err := consume(context.Background(), role); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(2)
}

// exits, as a place to die, has the work of the first order end the process.
const (
	exits    = "exit"
	exitCode = 9
	exitRuns = 3 // the policy's attempts then
)

var passed = make(chan int, 1) // how often the place to die at was passed

// die kills this process, by a signal that it can't handle, if it is to die here.
func die(here string) {
	if os.Getenv(dieVar) != here {
		return
	}
	n := 1
	select {
	case n = <-passed:
		n++
	default:
	}
	passed <- n
	if after, _ := strconv.Atoi(os.Getenv(afterVar)); n < after {
		return
	}
	if self, err := os.FindProcess(os.Getpid()); err == nil {
		_ = self.Kill()
	}
	select {}
}

func keyOf(m *wm.Message) string {
	for name, value := range m.Metadata {
		if name == message.Key {
			return value
		}
	}
	return m.UUID
}

// openBank opens the database with the bookings, the witness: a line for each effect.
func openBank(ctx context.Context, dir string) (*sql.DB, idempotency.Store, error) {
	db, store, err := sqlitestore.Open(ctx, filepath.Join(dir, "bank.db"), "inbox")
	if err != nil {
		return nil, nil, err
	}
	_, err = db.ExecContext(ctx, "CREATE TABLE IF NOT EXISTS bookings (message text, amount text)")
	return db, store, err
}

type execer interface {
	ExecContext(context.Context, string, ...any) (sql.Result, error)
}

var errBank = errors.New("the bank is busy")

// isPoison says which messages cannot be handled.
func isPoison(key string) bool {
	n, err := strconv.Atoi(key)
	return err == nil && n%50 == 7
}

// guarantee is what this process was told.
func guarantee() idempotency.Guarantee {
	n, _ := strconv.Atoi(os.Getenv(holdsVar))
	return idempotency.Guarantee(n)
}

// charge is the work: a booking, which fails now and then after it was made.
func charge(ctx context.Context, in execer, msg *wm.Message) error {
	key := keyOf(msg)
	if key == "0" && os.Getenv(dieVar) == exits {
		var err error
		if guarantee() == idempotency.GuaranteeTx {
			_, err = in.ExecContext(ctx, "INSERT INTO bookings VALUES (?, ?)", key, "by work that ends its process")
		}
		if err == nil {
			os.Exit(exitCode)
		}
	}
	if isPoison(key) {
		return inbox.Reject(errors.New("there is no such account"))
	}
	if _, err := in.ExecContext(ctx, "INSERT INTO bookings VALUES (?, ?)", key, string(msg.Payload)); err != nil {
		return err
	}
	die("work")
	if os.Getenv(dieVar) != exits && rand.IntN(20) == 0 {
		return errBank
	}
	return nil
}

// mortal passes messages on, and dies before one is acknowledged.
func mortal(next wm.HandlerFunc) wm.HandlerFunc {
	return func(msg *wm.Message) ([]*wm.Message, error) {
		die("begin")
		out, err := next(msg)
		if err == nil {
			die("ack")
		}
		return out, err
	}
}

// A mortalPublisher dies after it has published a dead letter.
type mortalPublisher struct{ wm.Publisher }

func (p mortalPublisher) Publish(topic string, msgs ...*wm.Message) error {
	err := p.Publisher.Publish(topic, msgs...)
	if err == nil {
		die("letter")
	}
	return err
}

// consume handles messages until the process is killed.
func consume(ctx context.Context, role string) error {
	l, err := kinds[os.Getenv(kindVar)].open(os.Getenv(urlVar))
	if err != nil {
		return err
	}
	db, store, err := openBank(ctx, os.Getenv(dirVar))
	if err != nil {
		return err
	}
	router, err := wm.NewRouter(wm.RouterConfig{}, watermill.NopLogger{})
	if err != nil {
		return err
	}
	add := plain
	if role == "gabion" {
		add = guarded
	}
	if err := add(router, l, db, store); err != nil {
		return err
	}
	return router.Run(ctx)
}

// guarded puts gabion before the handlers.
func guarded(router *wm.Router, l *line, db *sql.DB, store idempotency.Store) error {
	p, _ := policy.Preset("message-queue")
	p.Retry.Attempts, p.Retry.Backoff, p.Bulkhead.Limit = 64, backoff.Const(20*time.Millisecond), 4
	var config idempotency.RunnerConfig
	if os.Getenv(dieVar) == exits { // a run that is lost is waited for until its lease ends
		p.Retry.Attempts, config.Lease = exitRuns, time.Second
	}
	c, err := consumer.New(gabion.New("bank", p), store, consumer.Options{
		Guarantee: guarantee(), GiveUpAfter: -1,
		Inbox: inbox.Options{RunnerConfig: config},
	})
	if err != nil {
		return err
	}
	o := gabionmsg.Options{Poison: mortalPublisher{l}, PoisonTopic: dead}
	if l.later != nil {
		o.Later = func(ctx context.Context, msg *wm.Message, wait time.Duration) error {
			err := l.later(ctx, msg, wait)
			if err == nil {
				die("later")
			}
			return err
		}
	}
	for _, topic := range l.topics {
		mw, err := gabionmsg.Middleware(c, o)
		if err != nil {
			return err
		}
		sub, err := l.subscribe()
		if err != nil {
			return err
		}
		router.AddConsumerHandler(topic, topic, gabionmsg.Subscriber(sub, c), func(msg *wm.Message) error {
			var in execer = db
			if guarantee() == idempotency.GuaranteeTx {
				in = sqlstore.TxFrom(msg.Context())
			}
			return charge(msg.Context(), in, msg)
		}).AddMiddleware(mortal, mw)
	}
	return nil
}

// plain is what Watermill has: the rig must see what it does.
func plain(router *wm.Router, l *line, db *sql.DB, _ idempotency.Store) error {
	poison, err := middleware.PoisonQueue(l, dead)
	if err != nil {
		return err
	}
	sub, err := l.subscribe()
	if err != nil {
		return err
	}
	again := middleware.Retry{MaxRetries: 100, InitialInterval: 5 * time.Millisecond, Multiplier: 1, Logger: watermill.NopLogger{}}
	router.AddConsumerHandler("bank", orders, sub, func(msg *wm.Message) error {
		return charge(msg.Context(), db, msg)
	}).AddMiddleware(mortal, poison, again.Middleware)
	return nil
}
