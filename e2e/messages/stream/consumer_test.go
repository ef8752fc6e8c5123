package stream

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/classify"
	"github.com/gabion-go/gabion/contrib/natsmsg"
	"github.com/gabion-go/gabion/e2e/messages/clocks"
	"github.com/gabion-go/gabion/e2e/messages/mortal"
	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/idempotency/sqlstore"
	"github.com/gabion-go/gabion/internal/terms"
	"github.com/gabion-go/gabion/messages/consumer"
	"github.com/gabion-go/gabion/messages/deadletter"
	"github.com/gabion-go/gabion/messages/inbox"
	"github.com/gabion-go/gabion/policy"
)

// The test binary is also the brokers and the consumers: processes of their own, for they are
// killed.
const (
	urlVar   = "STREAM_BROKER"
	dirVar   = "STREAM_DIR"
	clockVar = "STREAM_CLOCK" // the file of SQLite's clock
	keepVar  = "STREAM_KEEP"  // for how long the inbox knows what was done
)

// takes is the header that says how long the work of a message takes.
const takes = "Takes"

// A consumer may die where it has fetched a message, in the work, after COMMIT, and before and after it
// has put away a letter.
func TestMain(m *testing.M) {
	mortal.Main(m, map[string]func(context.Context) error{"consumer": consume, "naive": naive, "node": serve})
}

func connect(url string) (*nats.Conn, jetstream.JetStream, error) {
	nc, err := nats.Connect(url, nats.Timeout(patience), nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond), nats.RetryOnFailedConnect(true),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
	if err != nil {
		return nil, nil, err
	}
	js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(5*time.Second))
	return nc, js, err
}

// An execer is a database or a transaction.
type execer interface {
	ExecContext(context.Context, string, ...any) (sql.Result, error)
}

func book(ctx context.Context, in execer, id string, payload []byte) error {
	n, err := strconv.Atoi(string(payload))
	if err != nil {
		return inbox.Reject(err)
	}
	_, err = in.ExecContext(ctx, "INSERT INTO bookings VALUES (?, ?)", id, n)
	return err
}

// work books a message, now and then fails at first, and now and then takes longer than the
// broker waits.
func work(ctx context.Context) error {
	m := consumer.MessageFrom(ctx)
	for _, h := range m.Headers {
		if h.Name == takes {
			linger(ctx, h.Value)
		}
	}
	if err := book(ctx, sqlstore.TxFrom(ctx), m.ID, m.Payload); err != nil {
		return err
	}
	mortal.Die("work")
	if rand.IntN(50) == 0 {
		return classify.Transient(errors.New("the bank is away"))
	}
	return nil
}

// linger takes so long.
func linger(ctx context.Context, text string) {
	d, _ := time.ParseDuration(text)
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// letters are stored in the stream, in a subject of their own.
type letters struct{ js jetstream.JetStream }

func (letters) Fail(context.Context, deadletter.ID, deadletter.Failure) error { return nil }
func (letters) Forget(context.Context, deadletter.ID) error                   { return nil }
func (l letters) Put(ctx context.Context, one deadletter.Letter) error {
	mortal.Die("letter")
	_, err := l.js.PublishMsg(ctx, &nats.Msg{Subject: "letters", Header: nats.Header{"Reason": {one.Reason}}, Data: []byte(one.Key)}, jetstream.WithMsgID(string(one.ID)))
	if err == nil {
		mortal.Die("term")
	}
	return err
}

// A witness hears what becomes of messages, before the broker does.
type witness struct{}

func (witness) Observe(_ context.Context, e policy.Event) {
	if e.Kind != policy.KindMessageDisposed {
		return
	}
	fmt.Println(e.Code)
	if strings.HasPrefix(e.Code, "ack/done") {
		mortal.Die("commit")
	}
}

type quiet struct{}

func (quiet) Observe(context.Context, idempotency.Event) {}

// ackWait is short, so that what died with a process comes again soon.
const ackWait = 700 * time.Millisecond

// lease is how long the inbox waits for a run that is silent.
const lease = time.Second

// consume books messages until it is killed.
func consume(ctx context.Context) error {
	if clock := clocks.File(os.Getenv(clockVar)); clock != "" {
		if err := clock.Follow(); err != nil {
			return err
		}
	}
	keep, _ := time.ParseDuration(os.Getenv(keepVar))
	nc, js, err := connect(os.Getenv(urlVar))
	if err != nil {
		return err
	}
	defer nc.Close()
	db, store, err := mortal.OpenBank(ctx, os.Getenv(dirVar))
	if err != nil {
		return err
	}
	defer db.Close()
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	p := policy.Policy{
		Timeout:  policy.Timeout{Call: time.Minute, Attempt: 20 * time.Second},
		Retry:    policy.Retry{Attempts: terms.MaxSends, Backoff: backoff.Const(50 * time.Millisecond), Budget: policy.Budget{Off: true}},
		Breaker:  policy.Breaker{Off: true},
		Bulkhead: policy.Bulkhead{Limit: 4},
	}
	c, err := consumer.New(gabion.New("bank", p, gabion.WithLogger(log)), store, consumer.Options{
		Letters: letters{js}, Logger: log, GiveUpAfter: -1,
		Inbox: inbox.Options{RunnerConfig: idempotency.RunnerConfig{Guarantee: idempotency.GuaranteeTx, Lease: lease, Retention: keep, Observer: quiet{}, Stream: witness{}}},
	})
	if err != nil {
		return err
	}
	o := natsmsg.Options{Logger: log, Tenant: func(*nats.Msg) string { mortal.Die("fetch"); return "" }}
	for {
		err := natsmsg.Consume(ctx, js, "ORDERS", "bank", c, work, o)
		if !errors.Is(err, nats.ErrTimeout) && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, nats.ErrNoResponders) && !errors.Is(err, jetstream.ErrJetStreamNotEnabled) && !temporary(err) {
			return err
		}
		<-time.After(50 * time.Millisecond) // it was not there when this process began
	}
}

// temporary reports whether the broker said that it can't say now.
func temporary(err error) bool {
	var api *jetstream.APIError
	return errors.As(err, &api) && api.Code >= 500
}

// naive books messages and acknowledges them, without an inbox: the rig must see what it does.
func naive(ctx context.Context) error {
	nc, js, err := connect(os.Getenv(urlVar))
	if err != nil {
		return err
	}
	defer nc.Close()
	db, _, err := mortal.OpenBank(ctx, os.Getenv(dirVar))
	if err != nil {
		return err
	}
	defer db.Close()
	c, err := js.Consumer(ctx, "ORDERS", "bank")
	if err != nil {
		return err
	}
	all, err := c.Messages(jetstream.PullMaxMessages(4))
	if err != nil {
		return err
	}
	for {
		m, err := all.Next()
		if err != nil {
			return err
		}
		linger(ctx, m.Headers().Get(takes))
		if err := book(ctx, db, m.Headers().Get("Idempotency-Key"), m.Data()); err == nil {
			mortal.Die("commit")
		}
		if err := m.DoubleAck(ctx); err != nil {
			return err
		}
	}
}
