package outbox

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gabion-go/gabion/messages/message"
)

// A script is a transaction that keeps what it was told.
type script struct {
	texts []string
	args  [][]any
	err   error
	fewer int64 // rows that were there already
}

func (s *script) ExecContext(ctx context.Context, text string, args ...any) (sql.Result, error) {
	s.texts, s.args = append(s.texts, text), append(s.args, args)
	rows := int64(strings.Count(text, ", now)")+strings.Count(text, "AS bytea))")) - s.fewer
	return driver.RowsAffected(rows), errors.Join(s.err, ctx.Err())
}

// now stands for the clock, so that rows can be counted.
func scripted(t *testing.T, d Dialect, o Options) *Outbox {
	t.Helper()
	d.kit.Now = "now"
	box, err := New(nil, d, "shop.outbox", o)
	if err != nil {
		t.Fatal(err)
	}
	return box
}

func TestStatementsOfEnqueue(t *testing.T) {
	loose, ordered := Message{ID: "k1", Topic: "t"}, Message{ID: "k2", Topic: "t", Aggregate: "a"}
	for _, c := range []struct {
		name     string
		d        Dialect
		messages []Message
		begins   string
		args     int
	}{
		{"one writer needs no lock", SQLite, []Message{loose, ordered}, "INSERT INTO shop.outbox (id, topic, aggregate, payload, headers, created) VALUES (?, ?, ?, ?, ?, now), (?,", 10},
		{"without an aggregate no lock", Postgres, []Message{loose}, "INSERT INTO shop.outbox (id, topic, aggregate, payload, headers, created) VALUES ($1, $2, $3, $4, $5, now) ON", 5},
		{"each aggregate is locked once, and before the row is numbered", Postgres, []Message{loose, ordered, {ID: "k3", Topic: "t", Aggregate: "a"}},
			"WITH locks AS MATERIALIZED (SELECT count(pg_advisory_xact_lock(k)) AS held FROM (VALUES (CAST($1 AS bigint))) AS keys(k)) INSERT", 16},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &script{}
			if err := scripted(t, c.d, Options{}).Enqueue(t.Context(), s, c.messages...); err != nil {
				t.Fatal(err)
			}
			if len(s.texts) != 1 || !strings.HasPrefix(s.texts[0], c.begins) || len(s.args[0]) != c.args {
				t.Errorf("%q with %d arguments\nwant %q with %d", s.texts, len(s.args[0]), c.begins, c.args)
			}
		})
	}
}

// All transactions take their locks in the same order, and tables do not share them.
func TestLockKeys(t *testing.T) {
	box := scripted(t, Postgres, Options{})
	some := []Message{{Aggregate: "a"}, {Aggregate: "b"}, {}, {Aggregate: "c"}, {Aggregate: "b"}}
	other := []Message{{Aggregate: "c"}, {Aggregate: "b"}, {Aggregate: "a"}}
	if x, y := fmt.Sprint(box.lockKeys(some)), fmt.Sprint(box.lockKeys(other)); x != y || strings.Count(x, " ") != 2 {
		t.Errorf("%s, %s", x, y)
	}
	second, err := New(nil, Postgres, "other", Options{})
	if err != nil || fmt.Sprint(second.lockKeys(some)) == fmt.Sprint(box.lockKeys(some)) {
		t.Error("two tables have the same locks", err)
	}
}

func TestEnqueueThatFails(t *testing.T) {
	down, good := errors.New("down"), Message{ID: "k", Topic: "t"}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, c := range []struct {
		name     string
		ctx      context.Context
		s        script
		messages []Message
		want     error
		says     string
		sent     int
	}{
		{"one message is bad: nothing is sent", t.Context(), script{}, []Message{good, {Topic: ""}}, ErrMalformed, "no topic", 0},
		{"one is too large", t.Context(), script{}, []Message{good, {Topic: "t", Payload: make([]byte, 1<<20+1)}}, ErrTooLarge, "1048577 bytes", 0},
		{"an ID twice", t.Context(), script{}, []Message{good, good}, ErrDuplicate, `"k"`, 0},
		{"an ID that is there", t.Context(), script{fewer: 1}, []Message{good}, ErrDuplicate, `"k"`, 1},
		{"the database fails", t.Context(), script{err: down}, []Message{good}, down, "enqueue", 1},
		{"the context has ended", ended, script{}, []Message{good}, context.Canceled, "enqueue", 1},
		{"no messages", t.Context(), script{}, nil, nil, "", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := scripted(t, SQLite, Options{}).Enqueue(c.ctx, &c.s, c.messages...)
			if !errors.Is(err, c.want) || err != nil && !strings.Contains(err.Error(), c.says) || len(c.s.texts) != c.sent {
				t.Errorf("%v after %d statements, want %v after %d", err, len(c.s.texts), c.want, c.sent)
			}
		})
	}
}

func TestDeadlinesTravelIfAskedFor(t *testing.T) {
	end := time.Now().Add(time.Hour).Truncate(time.Millisecond)
	limited, cancel := context.WithDeadline(t.Context(), end)
	defer cancel()
	own := message.Headers{{Name: message.Deadline, Value: "5"}}
	for _, c := range []struct {
		name    string
		ctx     context.Context
		asked   bool
		headers message.Headers
		want    time.Time
	}{
		{"not by itself", limited, false, nil, time.Time{}},
		{"if asked for", limited, true, nil, end},
		{"the context has no deadline", t.Context(), true, nil, time.Time{}},
		{"the message has its own", limited, true, own, time.UnixMilli(5)},
	} {
		messages, err := scripted(t, SQLite, Options{Deadlines: c.asked}).checked(c.ctx, []Message{{Topic: "t", Headers: c.headers}})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := messages[0].Headers.Deadline(); err != nil || !got.Equal(c.want) {
			t.Errorf("%s: %v, %v, want %v", c.name, got, err, c.want)
		}
	}
	if len(own) != 1 {
		t.Error("the caller's headers were changed")
	}
}

// A handler whose context has a deadline must not cost its messages what the sender wrote about them. The
// key is among that: without it, a message gets another ID each time it is enqueued.
func TestHeadersOfTheSenderStayBesideTheDeadline(t *testing.T) {
	end := time.Now().Add(time.Hour).Truncate(time.Millisecond)
	limited, cancel := context.WithDeadline(t.Context(), end)
	defer cancel()
	all := message.Headers{{Name: message.Key, Value: "k"}, {Name: "traceparent", Value: "00"}, {Name: "tenant", Value: "t7"}, {Name: "theirs", Value: "z"}}
	before, ours := fmt.Sprint(all), all[:3] // which has room for one more, which is not ours
	for _, c := range []struct {
		name    string
		ctx     context.Context
		options Options
		want    message.Headers
	}{
		{"no deadlines", limited, Options{}, ours},
		{"a context without a deadline", t.Context(), Options{Deadlines: true}, ours},
		{"a context with a deadline", limited, Options{Deadlines: true}, ours.WithDeadline(end)},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &script{}
			m := Message{Topic: "t", Headers: ours}
			if err := scripted(t, SQLite, c.options).Enqueue(c.ctx, s, m); err != nil {
				t.Fatal(err)
			}
			id, stored := s.args[0][0], s.args[0][4].([]byte)
			if got, err := decode(stored); err != nil || id != "k" || fmt.Sprint(got) != fmt.Sprint(c.want) {
				t.Errorf("stored %v with the ID %v, %v, want %v with the ID k", got, id, err, c.want)
			}
			if after := fmt.Sprint(all); after != before {
				t.Errorf("the caller's headers were %s and are %s", before, after)
			}
		})
	}
}
