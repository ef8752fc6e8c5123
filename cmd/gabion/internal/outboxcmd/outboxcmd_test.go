package outboxcmd

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/cmd/gabion/internal/cli"
	"github.com/gabion-go/gabion/internal/testservers"
	"github.com/gabion-go/gabion/messages/message"
	"github.com/gabion-go/gabion/messages/outbox"
	"github.com/gabion-go/gabion/policy"
)

// A shop is an outbox with messages, of which a relay has parked those whose topic the broker does
// not have, until it has them all.
type shop struct {
	*testing.T
	db    *sql.DB
	box   *outbox.Outbox
	flags []string
	sent  []string // topics, as they were published
}

// stores are the forms of --store.
var stores = map[string]func(*testing.T) *shop{
	"sqlite": func(t *testing.T) *shop {
		file := filepath.Join(t.TempDir(), "a shop.db")
		return newShop(t, outbox.SQLite, "sqlite", "file:"+strings.ReplaceAll(file, " ", "%20")+"?_txlock=immediate&_pragma=journal_mode(WAL)&_pragma=busy_timeout(5000)", "outbox", "sqlite:"+file)
	},
	"postgres": func(t *testing.T) *shop {
		dsn := testservers.Postgres(t)
		return newShop(t, outbox.Postgres, "pgx", dsn, "mails", dsn)
	},
}

func newShop(t *testing.T, d outbox.Dialect, driver, dsn, table, store string) *shop {
	t.Helper()
	db, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	box, err := outbox.New(db, d, table, outbox.Options{})
	if err == nil {
		err = box.Migrate(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	return &shop{T: t, db: db, box: box, flags: []string{"--store", store, "--table", table}}
}

func (s *shop) enqueue(all ...outbox.Message) {
	s.Helper()
	tx, err := s.db.BeginTx(s.Context(), nil)
	for _, m := range all {
		if err == nil {
			err = s.box.Enqueue(s.Context(), tx, m)
		}
	}
	if err == nil {
		err = tx.Commit()
	}
	if err != nil {
		s.Fatal(err)
	}
}

// relay runs a relay until n messages are parked, or, if missing is empty, until n are published.
func (s *shop) relay(missing string, n int) {
	s.Helper()
	ctx, cancel := context.WithCancel(s.Context())
	publish := func(_ context.Context, m outbox.Message) error {
		if missing != "" && strings.HasPrefix(m.Topic, missing) {
			return fmt.Errorf("%w: %s\x1b[31m", outbox.ErrNoTopic, m.Topic)
		}
		s.sent = append(s.sent, m.Topic)
		return nil
	}
	r, err := s.box.Relay(outbox.Each(1, publish), gabion.New("broker", policy.Policy{Retry: policy.Retry{Attempts: 1}}), outbox.RelayOptions{
		MaxFailures: 1, Notify: func(e outbox.Notice) {
			switch {
			case e.Kind == "parked" && missing != "":
				n--
			case e.Kind == "published" && missing == "":
				n -= e.Messages
			}
			if n == 0 {
				cancel()
			}
		},
	})
	if err != nil {
		s.Fatal(err)
	}
	_ = r.Run(ctx)
}

// want runs the command.
func (s *shop) want(code int, text, args string) (stdout string) {
	s.Helper()
	var out, errs strings.Builder
	if got := cli.Run(s.Context(), Command(), append(strings.Fields(args), s.flags...), &out, &errs); got != code || !strings.Contains(out.String()+errs.String(), text) {
		s.Errorf("%s: exit code %d, want %d and %q in:\n%s%s", args, got, code, text, &out, &errs)
	}
	return out.String()
}

// The way from an alert to an empty list, with each database.
func TestParkedMessagesAreListedRetriedAndDiscarded(t *testing.T) {
	for name, open := range stores {
		t.Run(name, func(t *testing.T) {
			s := open(t)
			s.want(0, "nothing is parked", "ls")
			s.enqueue(
				outbox.Message{ID: "a1", Topic: "no.orders", Aggregate: "a", Payload: []byte("secret")},
				outbox.Message{ID: "a2", Topic: "orders", Aggregate: "a", Payload: []byte("secret"), Headers: message.Headers{{Name: "Card", Value: "secret"}}},
				outbox.Message{ID: "b1", Topic: "no.mails", Payload: []byte("secret")},
				outbox.Message{ID: "b2", Topic: "no.mails", Payload: []byte("secret")},
				outbox.Message{ID: "c1", Topic: "no.news", Payload: []byte("secret")},
			)
			s.relay("no.", 4)
			out := s.want(0, `a1  no.orders`, "ls")
			if !strings.Contains(out, "failed 1 time  1 behind it") || !strings.Contains(out, `no.orders\x1b[31m`) || strings.Contains(out, "secret") || strings.Contains(out, "\x1b") {
				t.Errorf("%s", out)
			}
			s.want(0, "there may be more: --after", "ls --limit 2")
			if out := s.want(0, "b2", "ls --topic no.mails"); strings.Contains(out, "a1") {
				t.Errorf("another topic: %s", out)
			}
			s.want(0, "waiting  1", "stats")
			s.want(0, "parked   4", "stats")

			s.want(1, "no message with that ID has failed", "retry a2")
			s.want(1, "no such message is parked", "retry --topic orders")
			s.want(2, "say --yes", "discard c1")
			s.want(0, "c1 is removed", "discard c1 --yes")
			s.want(0, "a1 will be published again", "retry a1")
			s.want(0, `"b2"`, "retry --topic no.mails --json")
			s.want(0, "nothing is parked", "ls")
			s.relay("", 4)
			if got := strings.Join(s.sent, " "); strings.Count(got, "no.mails") != 2 || strings.Contains(got, "no.news") || strings.Index(got, "no.orders") > strings.Index(got, " orders") {
				t.Errorf("published: %s", got)
			}
			s.want(0, "waiting  0", "stats")
		})
	}
}

func TestJSONOfAList(t *testing.T) {
	s := stores["sqlite"](t)
	s.want(0, `"parked": []`, "ls --json")
	s.enqueue(outbox.Message{ID: "a1", Topic: "no.orders", Aggregate: "a", Payload: []byte("12345")})
	s.relay("no.", 1)
	var got struct {
		Version int
		Parked  []struct {
			ID, Topic, Aggregate, Failure string
			Bytes, Attempts               int
		}
	}
	if err := json.Unmarshal([]byte(s.want(0, "", "ls --json")), &got); err != nil || got.Version != 1 || len(got.Parked) != 1 || got.Parked[0].Bytes != 5 || got.Parked[0].Topic != "no.orders" {
		t.Errorf("%+v, %v", got, err)
	}
	s.want(0, `"parked": 1`, "stats --json")
}

func TestWrongCallsChangeNothing(t *testing.T) {
	s := stores["sqlite"](t)
	dir := t.TempDir()
	for _, c := range []struct {
		fact, args, says string
		code             int
	}{
		{"no verb", "", "usage: gabion outbox", 2},
		{"another verb", "drop", "unknown command", 2},
		{"help", "help", "usage: gabion outbox", 0},
		{"help of a verb", "retry -h", "usage: gabion outbox retry", 0},
		{"nothing is named", "retry", "say which messages", 2},
		{"two ways are named", "discard a1 --all --yes", "say which messages", 2},
		{"a word too many", "ls a1", `"a1" is not expected`, 2},
		{"a limit of zero", "ls --limit 0", "--limit is at least 1", 2},
		{"an invalid cursor", "ls --after x", "is no cursor", 3},
	} {
		t.Run(c.fact, func(t *testing.T) {
			s := *s
			s.T = t
			if strings.Fields(c.args + " x")[0] == "x" {
				s.flags = nil
			}
			s.want(c.code, c.says, c.args)
		})
	}
	for store, says := range map[string]string{
		"": "--store is missing", "bolt:x": "--store begins with", "sqlite:": "names no file", "sqlite:" + dir: "is no file",
		"sqlite:" + filepath.Join(dir, "none"): "give the path of the program's database", "postgres://ann:secret@[": "--store is no URL",
	} {
		var out, errs strings.Builder
		if code := cli.Run(t.Context(), Command(), []string{"ls", "--store", store}, &out, &errs); code < 2 || !strings.Contains(errs.String(), says) || strings.Contains(errs.String(), "secret") {
			t.Errorf("--store %q: %d, %s", store, code, &errs)
		}
	}
	s.flags = []string{s.flags[0], s.flags[1], "--table", "another"}
	s.want(3, "it has no outbox of that name", "ls")
}
