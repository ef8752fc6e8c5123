package idemcmd

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"github.com/gabion-go/gabion/cmd/gabion/internal/cli"
	"github.com/gabion-go/gabion/contrib/boltstore"
	"github.com/gabion-go/gabion/contrib/gabionpgx/pgxstore"
	"github.com/gabion-go/gabion/contrib/gabionredis/redisstore"
	"github.com/gabion-go/gabion/contrib/mysqlstore"
	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/idempotency/sqlstore"
	"github.com/gabion-go/gabion/internal/testservers"
)

// run runs the command and returns its exit code and what it printed.
func run(t *testing.T, args ...string) (code int, out, errs string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code = cli.Run(t.Context(), Command(), args, &stdout, &stderr)
	return code, stdout.String(), stderr.String()
}

var idUnknown, idDone, idRunning = idempotency.IDOf("shop", "lost"), idempotency.IDOf("shop", "paid"), idempotency.IDOf("shop", "busy")

// fill gives a store a record in each state of interest.
func fill(t *testing.T, s idempotency.Store) {
	t.Helper()
	for id, end := range map[idempotency.ID]idempotency.State{idUnknown: idempotency.StateUnknown, idDone: idempotency.StateDone, idRunning: 0} {
		a, err := s.Begin(t.Context(), idempotency.Claim{ID: id, Owner: [16]byte{id[0], 1}, Lease: time.Hour, Retention: time.Hour})
		if err != nil || a.Decision != idempotency.DecisionRun {
			t.Fatalf("%v, %v", a.Decision, err)
		}
		if end == 0 {
			continue
		}
		change := idempotency.Change{State: end, Result: idempotency.Result{Status: 201, Body: []byte("secret"), Header: []idempotency.Field{{Name: "Location", Value: "/1"}}}}
		if err := s.Apply(t.Context(), idempotency.Ref{ID: id, Token: a.Record.Token}, change); err != nil {
			t.Fatal(err)
		}
	}
}

// stores are the forms of --store, each with records in it.
var stores = map[string]func(*testing.T) (flags []string){
	"bolt": func(t *testing.T) []string {
		file := filepath.Join(t.TempDir(), "keys.db")
		s, err := boltstore.Open(file, boltstore.Options{})
		if err != nil {
			t.Fatal(err)
		}
		fill(t, s)
		if _, _, errs := run(t, "ls", "--store", "bolt:"+file); !strings.Contains(errs, "stop the service first") {
			t.Errorf("a file that another has: %s", errs)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		return []string{"--store", "bolt:" + file}
	},
	"sqlite": func(t *testing.T) []string {
		file := filepath.Join(t.TempDir(), "keys db")
		db, err := sql.Open("sqlite", file)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		s, err := sqlstore.New(db, sqlstore.SQLite, "records")
		if err == nil {
			err = s.Migrate(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		fill(t, s)
		return []string{"--store", "sqlite:" + file, "--table", "records"}
	},
	"postgres": func(t *testing.T) []string {
		dsn := testservers.Postgres(t)
		pool, err := pgxpool.New(t.Context(), dsn)
		if err != nil {
			t.Fatal(err)
		}
		defer pool.Close()
		s, err := pgxstore.New(pool, "idempotency_records")
		if err == nil {
			err = s.Migrate(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		fill(t, s)
		return []string{"--store", dsn}
	},
	"mysql": func(t *testing.T) []string {
		dsn := testservers.MariaDB(t)
		db, s, err := mysqlstore.Open(t.Context(), dsn, "idempotency_records")
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		fill(t, s)
		for _, text := range []string{"CREATE USER 'till'@'127.0.0.1' IDENTIFIED BY 'a:b/c@d'", "GRANT SELECT, INSERT, UPDATE, DELETE ON test.* TO 'till'@'127.0.0.1'"} {
			if _, err := db.ExecContext(t.Context(), text); err != nil {
				t.Fatal(err)
			}
		}
		addr := strings.TrimSuffix(strings.TrimPrefix(dsn, "root@tcp("), ")/test")
		return []string{"--store", "mysql://till:a%3Ab%2Fc%40d@" + addr + "/test?timeout=10s"}
	},
	"redis": func(t *testing.T) []string {
		addr := testservers.Redis(t)
		client := redis.NewClient(&redis.Options{Addr: addr})
		defer client.Close()
		s, err := redisstore.New(t.Context(), client, redisstore.Options{Prefix: "k:"})
		if err != nil {
			t.Fatal(err)
		}
		fill(t, s)
		return []string{"--store", "redis://" + addr, "--prefix", "k:"}
	},
}

func TestEachStore(t *testing.T) {
	for name, open := range stores {
		t.Run(name, func(t *testing.T) {
			flags := open(t)
			with := func(args ...string) (int, string, string) { return run(t, append(args, flags...)...) }
			want := func(code int, text string, args ...string) {
				t.Helper()
				got, out, errs := with(args...)
				if got != code || !strings.Contains(out+errs, text) {
					t.Errorf("%v: exit code %d, want %d and %q in:\n%s%s", args, got, code, text, out, errs)
				}
			}
			running, state := idRunning.Hex(), "running"
			if name == "bolt" { // no other process has the file: its runs are lost
				state = "unknown"
			}
			want(0, running+" "+state, "ls")
			want(0, idUnknown.Hex()+" unknown", "ls", "--state", "unknown")
			if _, out, _ := with("ls", "--state", "done", "--json"); true {
				var p page
				if err := json.Unmarshal([]byte(out), &p); err != nil || len(p.Records) != 1 || p.Records[0].ID != idDone.Hex() || p.Records[0].State != "done" || strings.Contains(out, "secret") {
					t.Errorf("%v: %s", err, out)
				}
			}
			keys := filepath.Join(t.TempDir(), "keys")
			os.WriteFile(keys, []byte("lost\n\nnever\npaid\n"), 0o600)
			for _, text := range []string{idUnknown.Hex() + " unknown ", "s lost\n", idDone.Hex() + " done ", "s paid\n", "1 key without a record"} {
				want(0, text, "ls", "--scope", "shop", "--keys", keys)
			}

			if code, out, errs := with("show", idDone.Hex()); code != 0 || !strings.Contains(out, "201") || !strings.Contains(out, "Location") || strings.Contains(out, "secret") {
				t.Errorf("%d %s%s", code, out, errs)
			}
			want(0, "secret", "show", "--scope", "shop", "--key", "paid", "--body")
			want(0, "c2VjcmV0", "show", "--scope", "shop", "--key", `"paid"`, "--body", "--json")
			want(1, "there is no record", "show", "--scope", "other", "--key", "paid")

			want(1, "the outcome is known, the record is done", "resolve", idDone.Hex(), "--nothing")
			if name != "bolt" {
				want(1, "the record is running, with", "resolve", running, "--done")
				want(1, "the record is running, with", "forget", running, "--yes")
				want(0, running+" running", "ls")
			}
			body := filepath.Join(t.TempDir(), "body")
			os.WriteFile(body, []byte("found"), 0o600)
			want(0, "is done", "resolve", idUnknown.Hex(), "--done", "--status", "202", "--body-file", body)
			want(0, "found", "show", idUnknown.Hex(), "--body")
			want(1, "the outcome is known", "resolve", idUnknown.Hex(), "--nothing")
			want(2, "say --yes", "forget", idUnknown.Hex())
			want(0, `"state": "absent"`, "forget", idUnknown.Hex(), "--yes", "--json")
			want(1, "there is no record", "forget", idUnknown.Hex(), "--yes")
		})
	}
}

// What is wrong with the call is said before anything is opened.
func TestWrongCalls(t *testing.T) {
	t.Setenv("GABION_STORE", "")
	id := idDone.Hex()
	missing := filepath.Join(t.TempDir(), "no.db")
	empty := filepath.Join(t.TempDir(), "empty.db")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args string
		code int
		text string
	}{
		{"", 2, "usage"},
		{"help", 0, "postgres://"},
		{"delete", 2, "unknown command"},
		{"ls", 2, "--store is missing"},
		{"ls --store oracle://x", 2, "--store begins with"},
		{"ls --store mysql://u:pass@127.0.0.1:1/shop", 3, "refused"},
		{"ls --store mysql://u:pass@127.0.0.1:1/shop?tls=nonsense", 2, "nonsense"},
		{"ls --store postgres://u:pass\x7f@h/", 2, "no URL"},
		{"ls --store bolt:x --state lost", 2, "running, retryable, done or unknown"},
		{"ls --store bolt:x --scope s", 2, "can't be listed by scope"},
		{"ls --store bolt:x --keys f", 2, "needs --scope"},
		{"ls --store bolt:x --limit 0", 2, "at least 1"},
		{"ls --store bolt:x extra", 2, "not expected"},
		{"ls --store bolt:" + missing, 3, "no such file"},
		{"ls --store sqlite:" + missing, 3, "no such file"},
		{"ls --store nats://127.0.0.1:1", 2, "--bucket"},
		{"ls --store nats://127.0.0.1:1 --bucket b", 3, "nats"},
		{"show --store bolt:x", 2, "which record"},
		{"show --store bolt:x 12", 2, "64 hex digits"},
		{"show --store bolt:x --key k", 2, "which record"},
		{"show --store bolt:x --key k", 2, "the scope of idempotency.Global is '*'"},
		{"help", 0, "for idempotency.Global it is '*'"},
		{"ls --store sqlite:" + empty, 3, "--table names the one"},
		{"show --store bolt:x --scope s --key k " + id, 2, "one record at a time"},
		{"resolve --store bolt:x " + id, 2, "either --done or --nothing"},
		{"resolve --store bolt:x --done --nothing " + id, 2, "either --done or --nothing"},
		{"resolve --store bolt:x --nothing --status 200 " + id, 2, "--nothing means"},
		{"resolve --store bolt:x --done --status 100 " + id, 2, "no final status"},
		{"show -h", 0, "--store"},
	} {
		var args []string
		if c.args != "" {
			args = strings.Split(c.args, " ")
		}
		code, out, errs := run(t, args...)
		if all := out + errs; code != c.code || !strings.Contains(strings.ReplaceAll(all, " -store", " --store"), c.text) || strings.Contains(all, "pass\x7f") {
			t.Errorf("%q: exit code %d, want %d and %q in:\n%s", c.args, code, c.code, c.text, all)
		}
	}
	if _, err := os.Stat(missing); err == nil {
		t.Error("a file was made")
	}
}

// What is sealed is not shown as if it were the answer, and no unsealed result is put beside it.
func TestSealedResults(t *testing.T) {
	file := filepath.Join(t.TempDir(), "db")
	s, err := boltstore.Open(file, boltstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	sealer, err := idempotency.NewSealer(idempotency.SealKey{Name: "a", Secret: make([]byte, 32)})
	if err != nil {
		t.Fatal(err)
	}
	fill(t, idempotency.Sealed(s, sealer))
	s.Close()
	for _, c := range []struct {
		args string
		code int
		text string
		not  string
	}{
		{"show --body " + idDone.Hex(), 0, "sealed: this command has no key", "header  "},
		{"show --body " + idDone.Hex(), 0, "201", "body  "},
		{"show --body --json " + idDone.Hex(), 0, `"sealed": true`, `"body":`},
		{"ls", 0, idDone.Hex() + " done", "secret"},
		{"resolve --done --status 202 " + idUnknown.Hex(), 2, "results are sealed", "is done"},
		{"resolve --nothing " + idUnknown.Hex(), 0, "is retryable", "sealed"},
		{"forget --yes " + idDone.Hex(), 0, "is absent", "sealed"},
	} {
		code, out, errs := run(t, append(strings.Split(c.args, " "), "--store", "bolt:"+file)...)
		if all := out + errs; code != c.code || !strings.Contains(all, c.text) || strings.Contains(all, c.not) {
			t.Errorf("%s: exit code %d, want %d and %q, without %q, in:\n%s", c.args, code, c.code, c.text, c.not, all)
		}
	}
}

// Pages are bounded, and go on where the last one ended.
func TestPages(t *testing.T) {
	file := filepath.Join(t.TempDir(), "db")
	s, err := boltstore.Open(file, boltstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for n := range 25 {
		id := idempotency.IDOf("s", string(rune('a'+n)))
		if _, err := s.Begin(context.Background(), idempotency.Claim{ID: id, Lease: time.Hour, Retention: time.Hour}); err != nil {
			t.Fatal(err)
		}
	}
	s.Close()
	seen, after := map[string]bool{}, ""
	for range 10 {
		_, out, _ := run(t, "ls", "--store", "bolt:"+file, "--limit", "10", "--after", after, "--json")
		var p page
		if err := json.Unmarshal([]byte(out), &p); err != nil || len(p.Records) > 10 {
			t.Fatalf("%v: %s", err, out)
		}
		for _, r := range p.Records {
			seen[r.ID] = true
		}
		if after = p.Next; after == "" {
			break
		}
	}
	if len(seen) != 25 {
		t.Errorf("%d records, want 25", len(seen))
	}
}
