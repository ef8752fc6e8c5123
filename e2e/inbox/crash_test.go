package inbox

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/gabion-go/gabion/contrib/sqlitestore"
	"github.com/gabion-go/gabion/idempotency/sqlstore"
	"github.com/gabion-go/gabion/messages/inbox"
	"github.com/gabion-go/gabion/policy"
)

// The test binary is also the relay and the consumer: processes of their own, for
// they are killed.
const (
	roleVar  = "INBOX_ROLE"
	urlVar   = "INBOX_BROKER"
	dirVar   = "INBOX_DIR"
	dieVar   = "INBOX_DIE"       // where to die: publish, work or ack
	afterVar = "INBOX_DIE_AFTER" // the how manyth time
)

var roles = map[string]func(context.Context) error{"relay": relay, "consumer": consumer, "naive": naive}

func TestMain(m *testing.M) {
	role := roles[os.Getenv(roleVar)]
	if role == nil {
		os.Exit(m.Run())
	}
	go func() { // no child outlives the test
		os.Stdin.Read(make([]byte, 1))
		os.Exit(3)
	}()
	if err := role(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	os.Exit(0)
}

var passed int // of the place to die at

// die kills this process, by a signal that it can't handle, if it is to die here.
func die(here string) {
	if os.Getenv(dieVar) != here {
		return
	}
	passed++
	if after, _ := strconv.Atoi(os.Getenv(afterVar)); passed < after {
		return
	}
	if self, err := os.FindProcess(os.Getpid()); err == nil {
		self.Kill()
	}
	select {}
}

// relay publishes the rows of an outbox in order, each under its id, and marks it.
func relay(ctx context.Context) error {
	nc, js, err := connect(os.Getenv(urlVar))
	if err != nil {
		return err
	}
	defer nc.Close()
	db, err := openOutbox(ctx, os.Getenv(dirVar))
	if err != nil {
		return err
	}
	defer db.Close()
	for {
		var id, sum int
		err := db.QueryRowContext(ctx, "SELECT id, amount FROM outbox WHERE NOT sent ORDER BY id LIMIT 1").Scan(&id, &sum)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := publish(ctx, js, orders, strconv.Itoa(id), []byte(strconv.Itoa(sum))); err != nil {
			return err
		}
		die("publish")
		if _, err := db.ExecContext(ctx, "UPDATE outbox SET sent = 1 WHERE id = ?", id); err != nil {
			return err
		}
	}
}

func openOutbox(ctx context.Context, dir string) (*sql.DB, error) {
	db, _, err := sqlitestore.Open(ctx, filepath.Join(dir, "shop.db"), "unused")
	if err != nil {
		return nil, err
	}
	_, err = db.ExecContext(ctx, "CREATE TABLE IF NOT EXISTS outbox (id integer PRIMARY KEY, amount integer, sent integer DEFAULT 0)")
	return db, err
}

// consumer books what the relay published.
func consumer(ctx context.Context) error {
	return consume(ctx, func(k *bank, m jetstream.Msg) inbox.Disposition {
		return k.in.Handle(ctx, message(m), func(ctx context.Context) error {
			if err := book(ctx, sqlstore.TxFrom(ctx), m); err != nil {
				return err
			}
			time.Sleep(rand.N(4 * time.Millisecond)) // for a kill to fall into
			die("work")
			return nil
		})
	})
}

// naive is a consumer without an inbox: the rig must see what it does.
func naive(ctx context.Context) error {
	return consume(ctx, func(k *bank, m jetstream.Msg) inbox.Disposition {
		if err := book(ctx, k.db, m); err != nil {
			return inbox.Disposition{Err: err}
		}
		return inbox.Disposition{Verb: inbox.Ack}
	})
}

func consume(ctx context.Context, handle func(*bank, jetstream.Msg) inbox.Disposition) error {
	nc, js, err := connect(os.Getenv(urlVar))
	if err != nil {
		return err
	}
	defer nc.Close()
	k, err := openBank(ctx, os.Getenv(dirVar), inbox.Options{Retry: policy.Retry{Attempts: 1_000_000}, Visibility: rigAckWait})
	if err != nil {
		return err
	}
	defer k.db.Close()
	c, err := js.Consumer(ctx, stream, reader)
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
		d := handle(k, m)
		if d.Verb == inbox.Ack {
			die("ack")
		}
		if err := settle(ctx, js, m, d); err != nil {
			return err
		}
		fmt.Println(d.Cause)
	}
}

const rigAckWait = 400 * time.Millisecond

// A rig is a shop with an outbox, a broker and a bank, and processes between them.
type rig struct {
	*broker
	dir  string
	shop *sql.DB
	bank *bank
	told bytes.Buffer // the consumers' reasons; read when none runs
}

func newRig(t *testing.T, rows int) *rig {
	t.Helper()
	t.Parallel()
	r := &rig{broker: startBroker(t, rigAckWait), dir: t.TempDir()}
	var err error
	if r.shop, err = openOutbox(t.Context(), r.dir); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.shop.Close() })
	if r.bank, err = openBank(t.Context(), r.dir, inbox.Options{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.bank.db.Close() })
	_, err = r.shop.ExecContext(t.Context(), "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i < ?) INSERT INTO outbox SELECT i, i, 0 FROM n", rows)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// A child is a process of the rig.
type child struct {
	*exec.Cmd
	trouble bytes.Buffer
	ended   chan error
}

func (r *rig) start(role, die string, after int) *child {
	c := &child{Cmd: exec.CommandContext(r.Context(), os.Args[0]), ended: make(chan error, 1)}
	c.Env = append(os.Environ(), roleVar+"="+role, urlVar+"="+r.url, dirVar+"="+r.dir, dieVar+"="+die, afterVar+"="+strconv.Itoa(after))
	c.Stderr = &c.trouble
	if role != "relay" {
		c.Stdout = &r.told
	}
	stdin, err := c.StdinPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		panic(err) // any goroutine may call this
	}
	go func() {
		c.ended <- c.Wait()
		stdin.Close()
	}()
	return c
}

// killAfter kills the child unless it ends by itself before, and reports whether it
// did. The child must have been killed, by whomever, or be done. Any goroutine may
// call it.
func (r *rig) killAfter(d time.Duration, c *child) (byItself bool) {
	r.Helper()
	select {
	case <-c.ended:
		byItself = true
	case <-time.After(d):
		c.Process.Kill()
		<-c.ended
	}
	if c.ProcessState.Exited() && !c.ProcessState.Success() {
		r.Errorf("a child failed: %s", &c.trouble)
	}
	return byItself
}

// wait waits for the child's end.
func (r *rig) wait(c *child) {
	r.Helper()
	if !r.killAfter(time.Minute, c) {
		r.Errorf("a child does not end: %s", &c.trouble)
	}
}

// relayWithKills runs the relay until the outbox is empty; it dies kills times between publishing a row
// and marking it.
func (r *rig) relayWithKills(kills int) {
	for range kills {
		r.wait(r.start("relay", "publish", 2+rand.IntN(3)))
		time.Sleep(2 * dedup) // or the broker would drop what comes twice
	}
	r.wait(r.start("relay", "", 0))
}

// consumeWithKills runs consumers, one after the other, that are killed: at any
// moment, in the work before COMMIT, and between COMMIT and the acknowledgement.
func (r *rig) consumeWithKills(role string, kills int) {
	for n := range kills {
		place := []string{"", "work", "ack"}[n%3]
		within := 150*time.Millisecond + rand.N(200*time.Millisecond)
		if place != "" {
			within = 5 * time.Second // when there is no message left to die of
		}
		r.killAfter(within, r.start(role, place, 1+rand.IntN(4)))
	}
}

// drain runs a consumer until the broker has nothing left.
func (r *rig) drain(role string) {
	r.Helper()
	c := r.start(role, "", 0)
	empty := func() bool {
		got, err := r.js.Consumer(r.Context(), stream, reader)
		if err != nil {
			r.Fatal(err)
		}
		info, err := got.Info(r.Context())
		return err == nil && info.NumPending == 0 && info.NumAckPending == 0
	}
	for end := time.Now().Add(2 * time.Minute); !empty(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			r.Errorf("the broker still has messages: %s", &c.trouble)
			break
		}
	}
	r.killAfter(0, c)
}

func sizes(t *testing.T) (rows, relayKills, consumerKills int) {
	t.Helper()
	if os.Getenv("GABION_SOAK") == "1" {
		return 5000, 40, 300
	}
	return 150, 10, 21
}

// An outbox whose relay dies between publishing and marking publishes twice, and a
// consumer that dies gets messages again. Each row is booked once.
func TestOutboxToInboxUnderKills(t *testing.T) { // 75, 70
	rows, relayKills, consumerKills := sizes(t)
	r := newRig(t, rows)
	relayed := make(chan struct{})
	go func() {
		defer close(relayed)
		r.relayWithKills(relayKills)
	}()
	r.consumeWithKills("consumer", consumerKills)
	<-relayed
	r.drain("consumer")

	if n := r.count(orders); n < rows+relayKills {
		t.Errorf("%d messages for %d rows: the relay published less than %d twice", n, rows, relayKills)
	}
	if n := r.count(letters); n != 0 {
		t.Errorf("%d dead letters", n)
	}
	doubles := bytes.Count(r.told.Bytes(), []byte("duplicate"))
	if doubles < relayKills {
		t.Errorf("%d duplicates were acknowledged, want at least %d", doubles, relayKills)
	}
	r.bank.wantBalance(t, rows*(rows+1)/2, rows)
	if n := r.bank.number(t, "SELECT count(DISTINCT message) FROM bookings"); n != rows {
		t.Errorf("%d of %d rows were booked", n, rows)
	}
	t.Logf("%d rows, %d messages, %d duplicates acknowledged, %d kills of the relay, %d of the consumer", rows, r.count(orders), doubles, relayKills, consumerKills)
}

// The same rig finds the consumer out that has no inbox.
func TestTheRigSeesAConsumerWithoutAnInbox(t *testing.T) {
	r := newRig(t, 20)
	r.relayWithKills(2)
	r.wait(r.start("naive", "ack", 3))
	r.drain("naive")
	if n := r.bank.number(t, "SELECT count(*) FROM bookings"); n <= 20 {
		t.Errorf("%d bookings of 20 rows", n)
	}
}
