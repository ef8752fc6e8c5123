package watermill

import (
	"context"
	"database/sql"
	"errors"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	wm "github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/contrib/gabionmsg"
	"github.com/gabion-go/gabion/e2e/messages/mortal"
	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/idempotency/sqlstore"
	"github.com/gabion-go/gabion/messages/consumer"
	"github.com/gabion-go/gabion/messages/inbox"
	"github.com/gabion-go/gabion/messages/message"
	"github.com/gabion-go/gabion/policy"
)

// The test binary is also the consumer: a process of its own, for it is killed.
const (
	kindVar  = "WATERMILL_KIND"
	urlVar   = "WATERMILL_URL"
	dirVar   = "WATERMILL_DIR"
	holdsVar = "WATERMILL_GUARANTEE" // a consumer.Guarantee
)

// points are the places where a consumer is killed: before the work, in it, between COMMIT and
// Ack, between a dead letter and Ack, between a copy for later and Ack.
var points = []string{"begin", "work", "ack", "letter", "later"}

func TestMain(m *testing.M) {
	mortal.Main(m, map[string]func(context.Context) error{
		"gabion": func(ctx context.Context) error { return consume(ctx, guarded) },
		"plain":  func(ctx context.Context) error { return consume(ctx, plain) },
	})
}

// exits, as a place to die, has the work of the first order end the process.
const (
	exits    = "exit"
	exitCode = 9
	exitRuns = 3 // the policy's attempts then
)

func keyOf(m *wm.Message) string {
	for name, value := range m.Metadata {
		if name == message.Key {
			return value
		}
	}
	return m.UUID
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
func guarantee() consumer.Guarantee {
	n, _ := strconv.Atoi(os.Getenv(holdsVar))
	return consumer.Guarantee(n)
}

// charge is the work: a booking, which fails now and then after it was made.
func charge(ctx context.Context, in execer, msg *wm.Message) error {
	key := keyOf(msg)
	if key == "0" && mortal.Place() == exits {
		var err error
		if guarantee() == consumer.Tx {
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
	mortal.Die("work")
	if mortal.Place() != exits && rand.IntN(20) == 0 {
		return errBank
	}
	return nil
}

// deadly passes messages on, and dies before one is acknowledged.
func deadly(next wm.HandlerFunc) wm.HandlerFunc {
	return func(msg *wm.Message) ([]*wm.Message, error) {
		mortal.Die("begin")
		out, err := next(msg)
		if err == nil {
			mortal.Die("ack")
		}
		return out, err
	}
}

// A deadlyPublisher dies after it has published a dead letter.
type deadlyPublisher struct{ wm.Publisher }

func (p deadlyPublisher) Publish(topic string, msgs ...*wm.Message) error {
	err := p.Publisher.Publish(topic, msgs...)
	if err == nil {
		mortal.Die("letter")
	}
	return err
}

// consume handles messages until the process is killed.
func consume(ctx context.Context, add func(*wm.Router, *line, *sql.DB, idempotency.Store) error) error {
	l, err := kinds[os.Getenv(kindVar)].open(os.Getenv(urlVar))
	if err != nil {
		return err
	}
	db, store, err := mortal.OpenBank(ctx, os.Getenv(dirVar))
	if err != nil {
		return err
	}
	router, err := wm.NewRouter(wm.RouterConfig{}, watermill.NopLogger{})
	if err != nil {
		return err
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
	config := idempotency.RunnerConfig{Lease: 3 * time.Second} // a run that is lost is waited for until its lease ends
	if mortal.Place() == exits {
		p.Retry.Attempts, config.Lease = exitRuns, time.Second
	}
	c, err := consumer.New(gabion.New("bank", p), store, consumer.Options{
		Guarantee: guarantee(), GiveUpAfter: -1,
		Inbox: inbox.Options{RunnerConfig: config},
	})
	if err != nil {
		return err
	}
	o := gabionmsg.Options{Poison: deadlyPublisher{l}, PoisonTopic: dead}
	if l.later != nil {
		o.Later = func(ctx context.Context, msg *wm.Message, wait time.Duration) error {
			err := l.later(ctx, msg, wait)
			if err == nil {
				mortal.Die("later")
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
			if guarantee() == consumer.Tx {
				in = sqlstore.TxFrom(msg.Context())
			}
			return charge(msg.Context(), in, msg)
		}).AddMiddleware(deadly, mw)
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
	}).AddMiddleware(deadly, poison, again.Middleware)
	return nil
}
