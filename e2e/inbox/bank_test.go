package inbox

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/contrib/sqlitestore"
	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/idempotency/sqlstore"
	"github.com/gabion-go/gabion/messages/inbox"
	"github.com/gabion-go/gabion/policy"
)

// A bank books messages in a database that has the inbox too. Bookings are the
// witness: a line for each effect.
type bank struct {
	db *sql.DB
	in *inbox.Inbox
}

func openBank(ctx context.Context, dir string, o inbox.Options) (*bank, error) {
	db, store, err := sqlitestore.Open(ctx, filepath.Join(dir, "bank.db"), "inbox")
	if err != nil {
		return nil, err
	}
	for _, text := range []string{
		"CREATE TABLE IF NOT EXISTS bookings (message text, amount integer)",
		"CREATE TABLE IF NOT EXISTS balance (sum integer)",
		"INSERT INTO balance SELECT 0 WHERE NOT EXISTS (SELECT 1 FROM balance)",
	} {
		if _, err := db.ExecContext(ctx, text); err != nil {
			db.Close()
			return nil, err
		}
	}
	o.Guarantee, o.Retry.Backoff = idempotency.GuaranteeTx, backoff.Const(50*time.Millisecond)
	in, err := inbox.New("bank", store, o)
	return &bank{db, in}, err
}

func testBank(t *testing.T, o inbox.Options) *bank {
	t.Helper()
	k, err := openBank(t.Context(), t.TempDir(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { k.db.Close() })
	return k
}

// An execer is a database or a transaction.
type execer interface {
	ExecContext(context.Context, string, ...any) (sql.Result, error)
}

func book(ctx context.Context, in execer, m jetstream.Msg) error {
	n, err := amount(m)
	if err != nil {
		return err
	}
	if _, err := in.ExecContext(ctx, "INSERT INTO bookings VALUES (?, ?)", m.Headers().Get(jetstream.MsgIDHeader), n); err != nil {
		return err
	}
	_, err = in.ExecContext(ctx, "UPDATE balance SET sum = sum + ?", n)
	return err
}

func (k *bank) handle(ctx context.Context, m jetstream.Msg, and func() error) inbox.Disposition {
	return k.in.Handle(ctx, message(m), func(ctx context.Context) error {
		return errors.Join(book(ctx, sqlstore.TxFrom(ctx), m), and())
	})
}

func (k *bank) number(t *testing.T, query string) (n int) {
	t.Helper()
	if err := k.db.QueryRowContext(t.Context(), query).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func (k *bank) wantBalance(t *testing.T, sum, bookings int) {
	t.Helper()
	if s, n := k.number(t, "SELECT sum FROM balance"), k.number(t, "SELECT count(*) FROM bookings"); s != sum || n != bookings {
		t.Errorf("balance %d after %d bookings, want %d after %d", s, n, sum, bookings)
	}
}

func want(t *testing.T, d inbox.Disposition, v inbox.Verb, why inbox.Cause) {
	t.Helper()
	if d.Verb != v || d.Cause != why {
		t.Errorf("%v because %s (%v), want %v because %s", d.Verb, d.Cause, d.Err, v, why)
	}
}

func fine() error { return nil }

func (b *broker) wantNext(delivery int) (m jetstream.Msg) {
	b.Helper()
	for end := time.Now().Add(patience); m == nil; m = b.next(2 * time.Second) {
		if time.Now().After(end) {
			b.Fatalf("no delivery within %v", patience)
		}
	}
	if got := deliveries(m); got != delivery {
		b.Errorf("delivery %d, want %d", got, delivery)
	}
	return m
}

// again has a message delivered again at once.
func (b *broker) again(m jetstream.Msg) {
	b.Helper()
	if err := m.Nak(); err != nil {
		b.Fatal(err)
	}
}

func (b *broker) wantNothing(within time.Duration) {
	b.Helper()
	if m := b.next(within); m != nil {
		b.Errorf("delivered: %s, delivery %d", m.Data(), deliveries(m))
	}
}

func TestRedeliveryAfterCommitIsAckedWithoutEffect(t *testing.T) { // 70
	t.Parallel() // the tests mostly wait
	b, k := startBroker(t, patience), testBank(t, inbox.Options{})
	b.publish("m1", "12")
	m := b.wantNext(1)
	want(t, k.handle(t.Context(), m, fine), inbox.Ack, "done")
	b.again(m) // as if the acknowledgement had been lost
	m = b.wantNext(2)
	d := k.handle(t.Context(), m, fine)
	want(t, d, inbox.Ack, "duplicate")
	b.settle(m, d)
	b.wantNothing(500 * time.Millisecond)
	k.wantBalance(t, 12, 1)
}

func TestRedeliveryAfterAnErrorRunsAgain(t *testing.T) { // 71
	t.Parallel()
	b, k := startBroker(t, patience), testBank(t, inbox.Options{Retry: policy.Retry{Attempts: 3}})
	b.publish("m1", "12")
	m := b.wantNext(1)
	d := k.handle(t.Context(), m, func() error { return errors.New("no") })
	want(t, d, inbox.Retry, "failed")
	b.settle(m, d)
	k.wantBalance(t, 0, 0)
	m = b.wantNext(2)
	d = k.handle(t.Context(), m, fine)
	want(t, d, inbox.Ack, "done")
	b.settle(m, d)
	b.wantNothing(500 * time.Millisecond)
	k.wantBalance(t, 12, 1)

	b.publish("m2", "99") // and what fails three times is a dead letter
	for n := 1; n <= 3; n++ {
		m = b.wantNext(n)
		b.settle(m, k.handle(t.Context(), m, func() error { panic("no") }))
	}
	b.wantNothing(500 * time.Millisecond)
	k.wantBalance(t, 12, 1)
	b.wantLetter("99", "attempts_exhausted")
}

func (b *broker) wantLetter(payload string, why inbox.Cause) {
	b.Helper()
	s, err := b.js.Stream(b.Context(), stream)
	if err != nil {
		b.Fatal(err)
	}
	m, err := s.GetLastMsgForSubject(b.Context(), letters)
	if err != nil {
		b.Fatal(err)
	}
	if string(m.Data) != payload || m.Header.Get("Reason") != string(why) || b.count(letters) != 1 {
		b.Errorf("%d dead letters, the last: %s because %s, want %s because %s", b.count(letters), m.Data, m.Header.Get("Reason"), payload, why)
	}
}

func TestDuplicateWhileRunningIsDelayed(t *testing.T) { // 72
	t.Parallel()
	b := startBroker(t, patience)
	in, err := inbox.New("bank", idempotency.NewMemoryStore(0, 0), inbox.Options{RunnerConfig: idempotency.RunnerConfig{Guarantee: idempotency.GuaranteeReexecute}})
	if err != nil {
		t.Fatal(err)
	}
	b.publish("m1", "12")
	runs, seen, ended := 0, make(chan struct{}), make(chan inbox.Disposition, 1)
	work := func(context.Context) error {
		runs++
		<-seen
		return nil
	}
	first := b.wantNext(1)
	silent := message(first)
	silent.Extend = nil // the broker has it back
	var all sync.WaitGroup
	all.Go(func() { ended <- in.Handle(t.Context(), silent, work) })
	b.again(first)
	m := b.wantNext(2)
	d := in.Handle(t.Context(), message(m), work)
	want(t, d, inbox.Retry, "in_progress")
	delayed := time.Now()
	b.settle(m, d)
	close(seen)
	want(t, <-ended, inbox.Ack, "done") // and this acknowledgement is lost
	m = b.wantNext(3)
	if early := d.After - time.Since(delayed); d.After < time.Second || early > 50*time.Millisecond {
		t.Errorf("delivered %v before the delay of %v was over", early, d.After)
	}
	want(t, in.Handle(t.Context(), message(m), work), inbox.Ack, "duplicate")
	all.Wait()
	if runs != 1 {
		t.Errorf("%d runs", runs)
	}
}

func TestSameIDOtherPayloadIsADeadLetter(t *testing.T) { // 73
	t.Parallel()
	b, k := startBroker(t, patience), testBank(t, inbox.Options{})
	for _, payload := range []string{"12", "99"} {
		b.publish("m1", payload)
		m := b.wantNext(1)
		b.settle(m, k.handle(t.Context(), m, fine))
		time.Sleep(2 * dedup) // or the broker would drop the second
	}
	b.wantNothing(500 * time.Millisecond)
	k.wantBalance(t, 12, 1)
	b.wantLetter("99", "mismatch")
}

func TestSlowWorkIsDeliveredOnce(t *testing.T) {
	t.Parallel()
	var again jetstream.Msg
	for s := range slownesses {
		b, k := startBroker(t, s.ackWait), testBank(t, inbox.Options{Visibility: s.ackWait})
		b.publish("m1", "12")
		m := b.wantNext(1)
		var all sync.WaitGroup
		all.Go(func() {
			d := k.handle(t.Context(), m, func() error { time.Sleep(s.work); return nil })
			want(t, d, inbox.Ack, "done")
			b.settle(m, d)
		})
		again = b.next(s.work + s.ackWait)
		all.Wait()
		k.wantBalance(t, 12, 1)
		if again == nil {
			return
		}
	}
	t.Errorf("delivered again: %s, delivery %d", again.Data(), deliveries(again))
}
