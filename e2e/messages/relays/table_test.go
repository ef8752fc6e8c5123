package relays

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/classify"
	"github.com/gabion-go/gabion/messages/message"
	"github.com/gabion-go/gabion/messages/outbox"
)

func about(aggregate, id string) outbox.Message {
	return outbox.Message{ID: id, Topic: "orders", Aggregate: aggregate, Payload: []byte(id)}
}

func TestTables(t *testing.T) {
	onBoth(t, map[string]func(*shop){
		"what comes later for a parked aggregate waits":       whatComesLaterForAParkedAggregateWaits,
		"a leader that lost its lease parks nothing":          whatALeaderParksThatLostItsLease,
		"what is published is what was committed":             whatIsPublishedIsWhatWasCommitted,
		"many messages at once":                               enqueueManyAtOnce,
		"an id that is there":                                 enqueueTwice,
		"ids of kept rows are taken":                          idsOfKeptRowsAreTaken,
		"many kept rows are removed at once":                  manyKeptRowsAreRemovedAtOnce,
		"a message that commits late is not lost":             aMessageThatCommitsLateIsNotLost,
		"the order of an aggregate, by eight writers":         orderOfAnAggregate,
		"what the broker refuses does not stop others":        whatTheBrokerRefusesDoesNotStopOthers,
		"what is discarded lets others go":                    discardLetsOthersGo,
		"what fails rests and comes again":                    whatFailsRestsAndComesAgain,
		"what rests while the clock is set back":              whatRestsWhileTheClockIsSetBack,
		"tables made by many at once, and by a newer program": migrateByMany,
		"large messages":                                      largeMessages,
		"a lease that a failover lost is not given out again": aLeaseThatAFailoverLost,
		"rows that a failover lost are not those that follow": rowsThatAFailoverLost,
	})
}

func whatIsPublishedIsWhatWasCommitted(s *shop) {
	b := &memory{}
	undone := errors.New("undone")
	if err := s.in(func(tx *sql.Tx) error {
		return errors.Join(s.box.Enqueue(s.Context(), tx, about("", "never")), undone)
	}); !errors.Is(err, undone) || errors.Is(err, outbox.ErrMalformed) {
		s.Fatal(err)
	}
	full := outbox.Message{
		ID: "k1", Topic: "orders.new", Aggregate: "ünïcode ☃", Payload: []byte("\x00\xff'\"\\"),
		Headers: message.Headers{{Name: "A", Value: "\x00\xfe"}, {Name: "A", Value: ""}, {Name: message.Deadline, Value: "5"}},
	}
	s.enqueue(full, outbox.Message{Topic: "bare"}, outbox.Message{Topic: "keyed", Headers: message.Headers{{Name: "idempotency-key", Value: "k2"}}})
	s.relay(b, outbox.RelayOptions{})
	s.wantStats(0, 0, 0)
	got := b.got
	if len(got) != 3 || got[0].Topic != "orders.new" {
		s.Fatalf("published %+v", got)
	}
	full.Headers = full.Headers.With(message.Key, "k1")
	if !reflect.DeepEqual(got[0], full) {
		s.Errorf("published %+v\nwant %+v", got[0], full)
	}
	if key := got[1].Headers.Get(message.Key); len(key) != 36 || key != got[1].ID || got[1].Payload == nil || len(got[1].Payload) != 0 {
		s.Errorf("published %+v", got[1])
	}
	if got[2].ID != "k2" || len(got[2].Headers) != 1 {
		s.Errorf("published %+v", got[2])
	}
}

func enqueueManyAtOnce(s *shop) {
	b, want, messages := &memory{}, []string{}, []outbox.Message{}
	for n := range 351 { // several statements
		m := about("a", fmt.Sprintf("m%03d", n))
		messages, want = append(messages, m), append(want, m.ID)
	}
	s.enqueue(messages...)
	s.enqueue() // none
	s.relay(b, outbox.RelayOptions{Batch: 100})
	s.wantIDs(b, want...)
}

func enqueueTwice(s *shop) {
	s.enqueue(about("a", "m1"))
	for _, again := range [][]outbox.Message{{about("b", "m1")}, {about("", "m1")}, {about("", "new"), about("", "m1")}} {
		err := s.in(func(tx *sql.Tx) error { return s.box.Enqueue(s.Context(), tx, again...) })
		if !errors.Is(err, outbox.ErrDuplicate) || !strings.Contains(err.Error(), "m1") {
			s.Errorf("%v", err)
		}
	}
	// the transaction is not lost by it
	if err := s.in(func(tx *sql.Tx) error {
		if err := s.box.Enqueue(s.Context(), tx, about("a", "m1")); !errors.Is(err, outbox.ErrDuplicate) {
			return fmt.Errorf("not a duplicate: %w", err)
		}
		return s.box.Enqueue(s.Context(), tx, about("a", "m2"))
	}); err != nil {
		s.Error(err)
	}
	b := &memory{}
	s.relay(b, outbox.RelayOptions{})
	s.wantIDs(b, "m1", "m2")
	s.wantStats(0, 0, 0)
	s.enqueue(about("a", "m1")) // it is forgotten by now
}

func idsOfKeptRowsAreTaken(s *shop) {
	b := &memory{}
	s.enqueue(about("a", "m1"))
	r := s.relay(b, outbox.RelayOptions{Keep: time.Hour})
	s.wantStats(0, 0, 0)
	again := func() error {
		return s.in(func(tx *sql.Tx) error { return s.box.Enqueue(s.Context(), tx, about("a", "m1")) })
	}
	if err := again(); !errors.Is(err, outbox.ErrDuplicate) {
		s.Error(err)
	}
	r.stop()
	if _, err := s.db.ExecContext(s.Context(), "UPDATE outbox SET due = 1"); err != nil { // as if the hour were over
		s.Fatal(err)
	}
	s.relay(b, outbox.RelayOptions{Keep: time.Hour})
	s.eventually(func() bool { return again() == nil }, func() string { return "kept for ever" })
}

// A relay publishes more in a second than a thousand messages.
func manyKeptRowsAreRemovedAtOnce(s *shop) {
	b, messages := &memory{}, []outbox.Message{}
	for n := range 1100 { // more than one statement removes
		messages = append(messages, about("", fmt.Sprint("m", n)))
	}
	s.enqueue(messages...)
	r := s.relay(b, outbox.RelayOptions{Keep: time.Hour})
	s.wantStats(0, 0, 0)
	r.stop()
	if _, err := s.db.ExecContext(s.Context(), "UPDATE outbox SET due = 1"); err != nil { // as if the hour were over
		s.Fatal(err)
	}
	s.relay(b, outbox.RelayOptions{Keep: time.Hour, Poll: time.Hour}) // it looks once
	left := -1
	s.eventually(func() bool {
		if err := s.db.QueryRowContext(s.Context(), "SELECT count(*) FROM outbox").Scan(&left); err != nil {
			s.Fatal(err)
		}
		return left == 0
	}, func() string { return fmt.Sprint(left, " rows are left") })
}

// A lower number may become visible after a higher one, when its transaction commits later.
func aMessageThatCommitsLateIsNotLost(s *shop) {
	if !s.postgres {
		s.Skip("has one writer at a time")
	}
	// Outboxes of several schemas share the locks of aggregates with one name: no other test uses this one.
	b := &memory{}
	s.relay(b, outbox.RelayOptions{})
	slow, err := s.db.BeginTx(s.Context(), nil)
	if err != nil {
		s.Fatal(err)
	}
	defer slow.Rollback()
	if err := s.box.Enqueue(s.Context(), slow, about("tardy", "early"), about("", "loose")); err != nil {
		s.Fatal(err)
	}
	s.enqueue(about("b", "other"))
	s.wantIDs(b, "other")
	late := make(chan error, 1)
	go func() { // it waits: the order of an aggregate is that of its calls
		late <- s.in(func(tx *sql.Tx) error {
			return s.box.Enqueue(s.Context(), tx, about("c", "free"), about("tardy", "late"))
		})
	}()
	s.eventually(func() bool { // others of the server wait for locks of their own
		var n int
		err := slow.QueryRowContext(s.Context(), "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND pg_backend_pid() = ANY(pg_blocking_pids(pid))").Scan(&n)
		return err == nil && n == 1
	}, func() string { return "no transaction waits for the lock" })
	if err := slow.Commit(); err != nil {
		s.Fatal(err)
	}
	if err := <-late; err != nil {
		s.Fatal(err)
	}
	s.wantIDs(b, "other", "early", "loose", "free", "late")
}

func orderOfAnAggregate(s *shop) {
	const writers, each, aggregates = 8, 15, 3
	b := &memory{}
	relays := []*relaying{s.relay(b, outbox.RelayOptions{Batch: 7, Lease: time.Second}), s.relay(b, outbox.RelayOptions{Batch: 7, Lease: time.Second})}
	if _, err := s.db.ExecContext(s.Context(), "CREATE TABLE turns (aggregate text, n integer)"); err != nil {
		s.Fatal(err)
	}
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			for n := range each {
				aggregate := fmt.Sprint("a", (w+n)%aggregates)
				if err := s.takeTurn(aggregate); err != nil {
					s.Error(err)
				}
			}
		})
	}
	for range 4 { // leaders come and go during that
		for i, r := range relays {
			if r.Leads() {
				r.stop()
				relays[i] = s.relay(b, outbox.RelayOptions{Batch: 7, Lease: time.Second})
			}
		}
		s.eventually(func() bool { return relays[0].Leads() || relays[1].Leads() }, func() string { return "no relay leads" })
	}
	all.Wait()
	s.wantStats(0, 0, 0)
	last := map[string]int{}
	for _, id := range b.ids() {
		var aggregate string
		var n int
		if _, err := fmt.Sscanf(id, "%2s-%d", &aggregate, &n); err != nil {
			s.Fatal(id, err)
		}
		if n != last[aggregate]+1 {
			s.Errorf("%s after %d", id, last[aggregate])
		}
		last[aggregate] = n
	}
	if sum := last["a0"] + last["a1"] + last["a2"]; sum != writers*each {
		s.Errorf("%d messages, want %d", sum, writers*each)
	}
}

// takeTurn enqueues first and then learns which turn it was: the lock of Enqueue orders the
// transactions, and nothing of their own does.
func (s *shop) takeTurn(aggregate string) error {
	return s.in(func(tx *sql.Tx) error {
		ctx := s.Context()
		if err := s.box.Enqueue(ctx, tx, about(aggregate, "turn")); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, "INSERT INTO turns SELECT CAST($1 AS text), 1 + count(*) FROM turns WHERE aggregate = $1", aggregate); err != nil {
			return err
		}
		var n int
		if err := tx.QueryRowContext(ctx, "SELECT max(n) FROM turns WHERE aggregate = $1", aggregate).Scan(&n); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, "UPDATE outbox SET id = $1 WHERE id = 'turn'", fmt.Sprintf("%s-%d", aggregate, n))
		return err
	})
}

func whatTheBrokerRefusesDoesNotStopOthers(s *shop) {
	b := &memory{}
	b.refuse("poison", classify.Permanent(errNo))
	s.enqueue(about("a", "a1"), about("b", "poison"), about("b", "b2"), about("", "loose"), about("b", "b3"))
	r := s.relay(b, outbox.RelayOptions{})
	s.wantStats(2, 0, 1)
	s.enqueue(about("b", "b4"), about("a", "a2"))
	s.wantStats(3, 0, 1)
	s.wantIDs(b, "a1", "loose", "a2")
	if n := r.notices("parked"); n != 1 {
		s.Errorf("%d notices of a parked message", n)
	}
	parked, next, err := s.box.Parked(s.Context(), "", 10)
	if err != nil || next != "" || len(parked) != 1 || parked[0].Message.ID != "poison" || parked[0].Behind != 3 || parked[0].Attempts != 1 ||
		parked[0].Bytes != 6 || !strings.Contains(parked[0].Failure, "does not want") || time.Since(parked[0].Enqueued) > time.Hour || len(parked[0].Message.Payload) != 0 {
		s.Errorf("%+v, %q, %v", parked, next, err)
	}
	if err := s.box.Retry(s.Context(), "poison"); err != nil {
		s.Error(err)
	}
	s.eventually(func() bool { return r.notices("resting") > 0 }, func() string { return "not tried again" })
	s.wantStats(4, 0, 0) // there is no other by which to know that the broker is well
	s.enqueue(about("a", "a3"))
	s.wantStats(3, 0, 1)
	b.refuse("poison", nil)
	if err := s.box.Retry(s.Context(), "poison"); err != nil {
		s.Error(err)
	}
	s.wantIDs(b, "a1", "loose", "a2", "a3", "poison", "b2", "b3", "b4")
	s.wantStats(0, 0, 0)
	for _, id := range []string{"poison", "b4", "unknown"} {
		if err := s.box.Retry(s.Context(), id); !errors.Is(err, outbox.ErrNotParked) {
			s.Errorf("%s: %v", id, err)
		}
	}
}

func discardLetsOthersGo(s *shop) {
	b := &memory{}
	b.refuse("b1", classify.Permanent(errNo))
	b.refuse("x1", classify.Permanent(errNo))
	b.refuse("x2", classify.Permanent(errNo))
	s.enqueue(about("b", "b1"), about("b", "b2"), about("", "x1"), about("", "x2"), about("", "x3"))
	s.relay(b, outbox.RelayOptions{})
	s.wantStats(1, 0, 3)
	var ids []string
	for cursor, more := "", true; more; more = cursor != "" {
		page, next, err := s.box.Parked(s.Context(), cursor, 2)
		if err != nil {
			s.Fatal(err)
		}
		for _, p := range page {
			ids = append(ids, p.Message.ID)
		}
		cursor = next
	}
	if !slices.Equal(ids, []string{"b1", "x1", "x2"}) {
		s.Errorf("parked: %q", ids)
	}
	for _, id := range ids {
		if err := s.box.Discard(s.Context(), id); err != nil {
			s.Error(err)
		}
	}
	s.wantStats(0, 0, 0)
	s.wantIDs(b, "x3", "b2")
}

func whatFailsRestsAndComesAgain(s *shop) {
	b := &memory{}
	b.refuse("b1", errNo) // an unclassified error
	r := s.relay(b, outbox.RelayOptions{Backoff: backoff.Const(time.Hour)})
	s.enqueue(about("b", "b1"), about("b", "b2"), about("a", "a1"))
	s.wantStats(1, 1, 0)
	s.wantIDs(b, "a1")
	r.stop()
	if _, err := s.db.ExecContext(s.Context(), "UPDATE outbox SET due = 1 WHERE due > 1"); err != nil { // as if the hour were over
		s.Fatal(err)
	}
	b.refuse("b1", nil)
	s.relay(b, outbox.RelayOptions{})
	s.wantIDs(b, "a1", "b1", "b2")
	s.wantStats(0, 0, 0)
}

func migrateByMany(s *shop) {
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			box, err := outbox.New(s.db, s.dialect, "fresh", outbox.Options{})
			if err == nil {
				err = box.Migrate(s.Context())
			}
			if err != nil {
				s.Error(err)
			}
		})
	}
	all.Wait()
	if _, err := s.db.ExecContext(s.Context(), "UPDATE outbox_relay SET version = 99"); err != nil {
		s.Fatal(err)
	}
	if err := s.box.Migrate(s.Context()); !errors.Is(err, outbox.ErrNewer) {
		s.Error(err)
	}
	r, err := s.box.Relay(&memory{}, dependency(quick), outbox.RelayOptions{})
	if err == nil {
		err = r.Run(s.Context())
	}
	if !errors.Is(err, outbox.ErrNewer) {
		s.Error(err)
	}
}

// The relay holds a bounded part of large messages in memory, and still comes through.
func largeMessages(s *shop) {
	if !s.postgres {
		s.Skip("the limit is not the database's, and that one syncs")
	}
	b, large := &memory{}, bytes.Repeat([]byte("x"), 1_000_000)
	var want []string
	for n := range 20 {
		m := about("a", fmt.Sprintf("m%02d", n))
		want, m.Payload = append(want, m.ID), large
		s.enqueue(m)
	}
	s.relay(b, outbox.RelayOptions{})
	s.wantIDs(b, want...)
}

// Between two rounds of tidying nothing passes a message that is parked, and an operator's
// word counts at once.
func whatComesLaterForAParkedAggregateWaits(s *shop) {
	b := &memory{}
	b.refuse("b1", classify.Permanent(errNo))
	s.enqueue(about("b", "b1"), about("b", "b2"), about("", "x1"))
	r := s.relay(b, outbox.RelayOptions{Poll: time.Hour})
	s.wantStats(1, 0, 1)
	s.enqueue(about("b", "b3"), about("", "x2"))
	r.Wake()
	s.wantStats(2, 0, 1)
	s.wantIDs(b, "x1", "x2")
	if err := s.box.Discard(s.Context(), "b1"); err != nil {
		s.Error(err)
	}
	r.Wake()
	s.wantStats(0, 0, 0)
	s.wantIDs(b, "x1", "x2", "b2", "b3")
}

// A relay that lost its lease while it published parks nothing: the next one may have
// published it. What the broker confirmed is marked.
func whatALeaderParksThatLostItsLease(s *shop) {
	b := &memory{}
	stolen := false
	steals := publisherFunc(func(ctx context.Context, messages []outbox.Message) []error {
		if !stolen {
			stolen = true
			if _, err := s.db.ExecContext(s.Context(), "UPDATE outbox_relay SET token = token + 1"); err != nil {
				s.Error(err)
			}
			b.refuse("a1", classify.Permanent(errNo))
			defer b.refuse("a1", nil)
		}
		return b.Publish(ctx, messages)
	})
	s.enqueue(about("a", "a1"), about("a", "a2"), about("", "x1"))
	r := s.relay(steals, outbox.RelayOptions{Lease: time.Second})
	s.wantStats(0, 0, 0)
	s.wantIDs(b, "x1", "a1", "a2")
	if n := r.notices("parked"); n != 0 {
		s.Errorf("%d parked", n)
	}
	if n := len(b.got); n != 3 {
		s.Errorf("%d published, want 3", n)
	}
}

type publisherFunc func(context.Context, []outbox.Message) []error

// Publish implements outbox.Publisher.
func (f publisherFunc) Publish(ctx context.Context, messages []outbox.Message) []error {
	return f(ctx, messages)
}

// A replica that takes over may not know the last lease. If the next one were called the same, both who have it would renew it.
func aLeaseThatAFailoverLost(s *shop) {
	lead := func() (token int64) {
		r := s.relay(&memory{}, outbox.RelayOptions{})
		s.eventually(r.Leads, func() string { return "it does not lead" })
		if err := s.db.QueryRowContext(s.Context(), "SELECT token FROM outbox_relay").Scan(&token); err != nil {
			s.Fatal(err)
		}
		r.stop()
		return token
	}
	first := lead()
	if _, err := s.db.ExecContext(s.Context(), "UPDATE outbox_relay SET token = 0, until = 0"); err != nil {
		s.Fatal(err)
	}
	if second := lead(); second == first {
		s.Errorf("two leases have the token %d", first)
	}
}

// A failing is a broker during whose first call the database fails over.
type failing struct {
	memory
	once sync.Once
	over func()
}

// Publish implements outbox.Publisher.
func (b *failing) Publish(ctx context.Context, messages []outbox.Message) []error {
	b.once.Do(b.over)
	return b.memory.Publish(ctx, messages)
}

// A replica that takes over may not know the last rows, and number those that follow in the same way. What was
// published of the first must not be taken for these.
func rowsThatAFailoverLost(s *shop) {
	restart := "DELETE FROM sqlite_sequence"
	if s.postgres {
		restart = "ALTER TABLE outbox ALTER COLUMN seq RESTART"
	}
	b := &failing{over: func() {
		for _, text := range []string{"DELETE FROM outbox", restart} {
			if _, err := s.db.ExecContext(s.Context(), text); err != nil {
				s.Error(err)
			}
		}
		s.enqueue(about("", "following"))
	}}
	s.enqueue(about("", "lost"))
	s.relay(b, outbox.RelayOptions{})
	s.wantIDs(&b.memory, "lost", "following")
	s.wantStats(0, 0, 0)
}
