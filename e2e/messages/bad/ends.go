package bad

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver pgx

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/idempotency/sqlstore"
	"github.com/gabion-go/gabion/internal/testservers"
	"github.com/gabion-go/gabion/messages/consumer"
	"github.com/gabion-go/gabion/messages/deadletter"
	"github.com/gabion-go/gabion/messages/inbox"
	"github.com/gabion-go/gabion/policy"
)

// A Broker is what messages go through on their way to a consumer.
type Broker struct {
	Serial  bool // it delivers one message at a time, and that until it is acknowledged
	Publish func(id, payload string) error
	// Consume hands messages to the consumer until ctx ends, and returns when it has stopped.
	Consume func(ctx context.Context, c *consumer.Consumer, work func(context.Context) error) error
}

// What the work of bad messages does. A message of that name is one of it.
var hostile = map[string]func(over <-chan struct{}) error{
	"hangs":  func(over <-chan struct{}) error { <-over; return nil },
	"spins":  spin,
	"locks":  deadlock,
	"panics": func(<-chan struct{}) error { panic("a bug") },
	"exits":  func(<-chan struct{}) error { runtime.Goexit(); return nil },
	"fails":  func(<-chan struct{}) error { return errors.New("the bank is away") },
	"huge":   nil, // it does not begin
}

// spin keeps a processor busy until the test is over.
func spin(over <-chan struct{}) error {
	for {
		select {
		case <-over:
			return nil
		default: //nolint:staticcheck // spinning is what the test is about
		}
	}
}

// deadlock waits for a lock that nothing gives back until the test is over.
func deadlock(over <-chan struct{}) error {
	var mu sync.Mutex
	mu.Lock()
	go func() {
		<-over
		mu.Unlock()
	}()
	mu.Lock()
	return nil
}

// What the consumer is given, and how many messages there are.
const (
	runs    = 3
	timeout = time.Second
	grace   = 300 * time.Millisecond
	pause   = 5 * time.Millisecond  // between two runs
	lasts   = 10 * time.Millisecond // the work of a good message
	stuck   = 3                     // kinds of work that do not return
	slots   = 4
	lag     = 2 * time.Second // that brokers and a busy machine may add to a message's end
)

// Ends tests what docs/messages.md promises, for each guarantee: every message is acknowledged or a
// letter within attempts × (timeout + grace) and the waits between, whatever its work does; the
// good ones beside it are done; and work that stays behind is reported, lends its slot, and does
// not hold up the stop. With GABION_SOAK=1, on a quiet machine, the good ones are done at 95 % of
// the rate that they have alone. consumer.TestEveryMessageHasItsEndWhateverItsWorkDoes has that in
// virtual time.
func Ends(t *testing.T, open func(t *testing.T) Broker) {
	if testing.Short() {
		t.Skip("long: it waits for what hangs. consumer.TestEveryMessageHasItsEndWhateverItsWorkDoes is short")
	}
	for name, g := range map[string]consumer.Guarantee{"hold": consumer.Hold, "reexecute": consumer.Reexecute, "tx": consumer.Tx} {
		t.Run(name, func(t *testing.T) { newCourt(t, open(t), g).sit() })
	}
}

// A court watches until each message has its end.
type court struct {
	*testing.T
	Broker
	*consumer.Consumer
	d       *gabion.Dependency
	good    int // messages whose work is done
	letters deadletter.Store
	bank    *sql.DB // nil unless under Tx

	mu       sync.Mutex // guards all below
	over     chan struct{}
	done     map[string]time.Time
	outlived int // events
}

func newCourt(t *testing.T, b Broker, g consumer.Guarantee) *court {
	t.Helper()
	c := &court{T: t, Broker: b, good: 100, over: make(chan struct{}), done: map[string]time.Time{}}
	var store idempotency.Store = idempotency.NewMemoryStore(0, 0)
	var err error
	if soak() {
		c.good = 1000
	}
	if g == consumer.Tx {
		c.bank, store = openBank(t)
	}
	if c.letters, err = deadletter.NewMemory(deadletter.Options{}); err != nil {
		t.Fatal(err)
	}
	p := policy.Policy{
		Timeout: policy.Timeout{Call: 5 * time.Second, Attempt: timeout}, Breaker: policy.Breaker{Off: true}, Bulkhead: policy.Bulkhead{Limit: slots},
		Retry: policy.Retry{Attempts: runs, Backoff: backoff.Const(pause), Budget: policy.Budget{Off: true}},
	}
	log := slog.New(slog.DiscardHandler)
	c.d = gabion.New("bank", p, gabion.WithLogger(log), gabion.WithObserver(gabion.ObserverFunc(c.observe)))
	c.Consumer, err = consumer.New(c.d, store, consumer.Options{
		Guarantee: g, Grace: grace, GiveUpAfter: -1, Letters: c.letters, Logger: log,
		Inbox: inbox.Options{MaxPayload: maxPayload, RunnerConfig: idempotency.RunnerConfig{Observer: quiet{}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func soak() bool { return os.Getenv("GABION_SOAK") == "1" }

// openBank returns a database for bookings, and an inbox in it.
func openBank(t *testing.T) (*sql.DB, idempotency.Store) {
	t.Helper()
	db, err := sql.Open("pgx", testservers.StartPostgres(t).DSN)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	db.SetMaxIdleConns(3 * slots)
	store, err := sqlstore.New(db, sqlstore.Postgres, "inbox")
	if err == nil {
		err = store.Migrate(t.Context())
	}
	if err == nil {
		_, err = db.ExecContext(t.Context(), "CREATE TABLE bookings (message text)")
	}
	if err != nil {
		t.Fatal(err)
	}
	return db, store
}

type quiet struct{}

func (quiet) Observe(context.Context, idempotency.Event) {}

func (c *court) observe(_ context.Context, e gabion.Event) {
	if e.Kind == policy.KindOutlived {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.outlived++
	}
}

// work is what is done with a message.
func (c *court) work(ctx context.Context) error {
	m := consumer.MessageFrom(ctx)
	if c.bank != nil {
		if _, err := sqlstore.TxFrom(ctx).ExecContext(ctx, "INSERT INTO bookings VALUES ($1)", m.ID); err != nil {
			return err
		}
	}
	if does := hostile[string(m.Payload)]; does != nil {
		c.mu.Lock()
		over := c.over
		c.mu.Unlock()
		return does(over)
	}
	time.Sleep(lasts)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.done[m.ID] = time.Now()
	return nil
}

// sit plays a round, and up to three until one was not disturbed by what else the machine does.
func (c *court) sit() {
	c.Helper()
	ctx, stop := context.WithCancel(c.Context())
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- c.Consume(ctx, c.Consumer, c.work) }()
	var slow string
	for n := range 3 {
		if n > 0 {
			c.release()
		}
		if slow = c.play(n); slow == "" {
			break
		}
		c.Log(slow)
	}
	if slow != "" {
		c.Error("three times: " + slow)
	}
	begun := time.Now()
	stop()
	select {
	case err := <-ended:
		var left *consumer.LeftError
		if err != nil && !errors.Is(err, context.Canceled) || errors.As(err, &left) && len(left.Runs) != stuck {
			c.Errorf("it stopped with %v", err)
		}
	case <-time.After(30 * time.Second):
		c.Error("it does not stop")
	}
	c.Logf("it stopped after %v", time.Since(begun).Round(time.Millisecond))
	if left := c.Left(); len(left) != stuck {
		c.Errorf("%d runs are left, not %d: %v", len(left), stuck, &consumer.LeftError{Runs: left})
	}
	c.release()
	c.booked()
}

// release lets the work return that was left.
func (c *court) release() {
	c.Helper()
	c.mu.Lock()
	close(c.over)
	c.over = make(chan struct{})
	c.mu.Unlock()
	c.eventually("what was left is forgotten", func() bool {
		s := c.d.Stats()
		return len(c.Left()) == 0 && s.Bulkhead.InUse == 0 && s.Streams == 0
	})
}

// play has good messages done alone, and then behind bad ones. It returns what was too slow.
func (c *court) play(n int) (slow string) {
	c.Helper()
	over := make(chan struct{})
	go func() { _ = spin(over) }() // for work that spins takes a processor
	alone := c.goods(fmt.Sprint("alone ", n))
	close(over)
	from, letters := time.Now(), len(c.all())
	for kind := range hostile {
		payload := kind
		if kind == "huge" {
			payload = strings.Repeat("x", maxPayload+1)
		}
		c.publish(fmt.Sprint(kind, " ", n), payload)
	}
	beside := c.goods(fmt.Sprint("beside ", n))
	c.eventually("all bad messages are letters", func() bool { return len(c.all()) == letters+len(hostile) })
	c.eventually("good messages have given their slots back", func() bool { return c.d.Stats().Bulkhead.InUse == 0 })
	least := timeout + grace                            // without slots for the good
	most := runs*(timeout+grace) + (runs-1)*pause + lag // for a letter
	if c.Serial {                                       // one bad message after the other
		least *= stuck
		most = stuck*(timeout+grace) + time.Duration(len(hostile))*((runs-1)*pause+lag)
	}
	most += beside // what comes again may wait behind good ones
	for _, l := range c.all()[letters:] {
		if took := l.Last.Sub(from); took > most {
			slow += fmt.Sprintf("%s is a letter after %v, and not within %v; ", l.Key, took, most)
		}
	}
	if s := c.d.Stats(); s.Streams != stuck || s.Outlived != int64(stuck*(n+1)) || c.events() != stuck*(n+1) || len(c.Left()) != stuck {
		c.Errorf("round %d: %d are open, %d outlived in stats and %d in events, left %v", n, s.Streams, s.Outlived, c.events(), c.Left())
	}
	c.Logf("round %d: %d messages in %v alone, and in %v beside bad ones", n, c.good, alone.Round(time.Millisecond), beside.Round(time.Millisecond))
	if allowed := least + alone*100/95; beside > allowed && soak() {
		slow += fmt.Sprintf("%d messages took %v beside bad ones, and %v alone", c.good, beside, alone)
	}
	return slow
}

// goods publishes good messages, and returns how long it takes until all are done.
func (c *court) goods(name string) time.Duration {
	c.Helper()
	begun := time.Now()
	for i := range c.good {
		c.publish(fmt.Sprint(name, " ", i), "good")
	}
	var last time.Time
	c.eventually("good messages are done", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		n := 0
		for id, at := range c.done {
			if strings.HasPrefix(id, name+" ") {
				if n++; at.After(last) {
					last = at
				}
			}
		}
		return n == c.good
	})
	return last.Sub(begun)
}

func (c *court) publish(id, payload string) {
	c.Helper()
	if err := c.Publish(id, payload); err != nil {
		c.Fatal(err)
	}
}

func (c *court) events() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.outlived
}

// all returns the letters, in the order of their ends.
func (c *court) all() []deadletter.Letter {
	c.Helper()
	page, err := c.letters.List(c.Context(), deadletter.Query{}, "", 100)
	if err != nil {
		c.Fatal(err)
	}
	slices.SortFunc(page.Letters, func(a, b deadletter.Letter) int { return a.Last.Compare(b.Last) })
	return page.Letters
}

func (c *court) eventually(what string, is func() bool) {
	c.Helper()
	for end := time.Now().Add(2 * time.Minute); !is(); <-time.After(5 * time.Millisecond) {
		if time.Now().After(end) {
			c.Fatalf("it does not come that %s: letters %v, left %v", what, c.all(), c.Left())
		}
	}
}

// booked checks that good messages are booked once each, and nothing else is.
func (c *court) booked() {
	c.Helper()
	if c.bank == nil {
		return
	}
	var messages, bookings, wrong, want int
	const query = "SELECT count(DISTINCT message), count(*), count(*) FILTER (WHERE message NOT LIKE 'alone %' AND message NOT LIKE 'beside %') FROM bookings"
	if err := c.bank.QueryRowContext(c.Context(), query).Scan(&messages, &bookings, &wrong); err != nil {
		c.Fatal(err)
	}
	c.mu.Lock()
	want = len(c.done)
	c.mu.Unlock()
	if messages != want || bookings != want || wrong > 0 {
		c.Errorf("%d messages are done, and %d have %d bookings, of which %d are of bad ones", want, messages, bookings, wrong)
	}
}
