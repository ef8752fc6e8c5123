package lettercmd

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gabion-go/gabion/cmd/gabion/internal/operator"
	"github.com/gabion-go/gabion/internal/testservers"
	"github.com/gabion-go/gabion/messages/deadletter"
	"github.com/gabion-go/gabion/messages/deadletter/sqlletters"
)

// filled opens a database and puts letters in.
func filled(t *testing.T, d sqlletters.Dialect, driver, dsn, table string) (*sql.DB, *sqlletters.Store, map[string]string) {
	t.Helper()
	db, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	s, err := sqlletters.New(db, d, table, deadletter.Options{})
	if err == nil {
		err = s.Migrate(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	return db, s, fill(t, s)
}

// stores are the forms of --store, each with letters in it.
var stores = map[string]func(*testing.T) (s *sqlletters.Store, ids map[string]string, flags []string){
	"sqlite": func(t *testing.T) (*sqlletters.Store, map[string]string, []string) {
		file := filepath.Join(t.TempDir(), "dead letters.db")
		_, s, ids := filled(t, sqlletters.SQLite, "sqlite", "file:"+strings.ReplaceAll(file, " ", "%20")+"?_pragma=journal_mode(WAL)&_pragma=busy_timeout(5000)", "dead_letters")
		return s, ids, []string{"--store", "sqlite:" + file}
	},
	"postgres": func(t *testing.T) (*sqlletters.Store, map[string]string, []string) {
		dsn := testservers.Postgres(t)
		_, s, ids := filled(t, sqlletters.Postgres, "pgx", dsn, "letters")
		return s, ids, []string{"--store", dsn, "--table", "letters"}
	},
}

// A night with each store, from the first look to the last letter.
func TestEachStore(t *testing.T) {
	for name, make := range stores {
		t.Run(name, func(t *testing.T) {
			s, ids, flags := make(t)
			want := func(code int, text, args string) {
				t.Helper()
				var out, errs strings.Builder
				if got := Main(t.Context(), append(strings.Fields(args), flags...), &out, &errs); got != code || !strings.Contains(out.String()+errs.String(), text) {
					t.Errorf("%s: exit code %d, want %d and %q in:\n%s%s", args, got, code, text, &out, &errs)
				}
			}
			want(0, "2  attempts_exhausted", "stats")
			want(0, `bank: 503\n\x1b[31mred`, "ls --group billing --since 1h")
			want(0, "no such letters", "ls --before 1h")
			want(0, "took 1.5s  network", "show "+ids["order-1"][:7])
			want(0, `mail\xff-1`, "show "+ids["mail\xff-1"])
			want(0, "left out: 1 letter whose outcome is unknown", "redrive --group billing --dry-run")
			want(0, "is done", "resolve "+ids["order-3"]+" --as done --note ledger")
			want(0, "2 letters of billing at 100/s", "redrive --group billing --rate 100/s")
			for range 2 {
				leases, _, err := s.Take(t.Context(), "billing", 1, time.Minute)
				if err == nil && len(leases) == 0 { // the second is not due yet
					<-time.After(20 * time.Millisecond)
					leases, _, err = s.Take(t.Context(), "billing", 1, time.Minute)
				}
				if err != nil || len(leases) != 1 {
					t.Fatalf("%d letters, %v", len(leases), err)
				}
				if err := s.Settle(t.Context(), leases[0], deadletter.Verdict{State: deadletter.Done}); err != nil {
					t.Fatal(err)
				}
			}
			if none, _, err := s.Take(t.Context(), "billing", 1, time.Minute); len(none) != 0 || err != nil {
				t.Fatal(none, err)
			}
			want(0, "finished: 2 of 2 letters done", "redrives")
			want(1, "the redrive is finished", "stop "+drivesOf(t, s)[0].ID)
			want(0, "is dropped", "drop "+ids["mail\xff-1"]+" --note spam --yes")
			want(0, "no such letters", "ls")
			want(0, "4 letters were written", "export --state all --payload")
		})
	}
}

func drivesOf(t *testing.T, s deadletter.Store) []deadletter.Drive {
	t.Helper()
	all, err := s.Drives(t.Context(), "")
	if err != nil || len(all) == 0 {
		t.Fatal(len(all), err)
	}
	return all
}

// What can be wrong with a file is said with what to do about it, and nothing is changed.
func TestFilesThatAreNotWell(t *testing.T) {
	defer func(was time.Duration) { operator.LockTime = was }(operator.LockTime)
	operator.LockTime = 50 * time.Millisecond
	for _, c := range []struct {
		fact, args, says string
		spoil            func(t *testing.T, db *sql.DB, file string)
	}{
		{"of a newer program", "ls", "use the gabion command of the version", func(t *testing.T, db *sql.DB, _ string) {
			run(t, db, "UPDATE dead_letters_schema SET version = version + 1")
		}},
		{"of an older program", "ls", "start a consumer of this version first", func(t *testing.T, db *sql.DB, _ string) {
			run(t, db, "UPDATE dead_letters_schema SET version = version - 1")
		}},
		{"without tables", "ls", "is it the store that the consumers open?", func(t *testing.T, db *sql.DB, _ string) {
			run(t, db, "DROP TABLE dead_letters")
		}},
		{"damaged", "ls", "damaged", func(t *testing.T, db *sql.DB, file string) {
			run(t, db, "PRAGMA wal_checkpoint(TRUNCATE)")
			db.Close()
			f, err := os.OpenFile(file, os.O_WRONLY, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if _, err := f.WriteAt(make([]byte, 60_000), 4096); err != nil {
				t.Fatal(err)
			}
		}},
		{"locked by another process", "drop ID --yes --note x", "another process writes", func(t *testing.T, db *sql.DB, _ string) {
			conn, err := db.Conn(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { conn.Close() })
			if _, err := conn.ExecContext(t.Context(), "BEGIN IMMEDIATE"); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		t.Run(c.fact, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "letters.db")
			db, _, ids := filled(t, sqlletters.SQLite, "sqlite", "file:"+file+"?_pragma=journal_mode(WAL)", "dead_letters")
			c.spoil(t, db, file)
			var out, errs strings.Builder
			args := append(strings.Fields(strings.Replace(c.args, "ID", ids["order-1"], 1)), "--store", "sqlite:"+file)
			if code := Main(t.Context(), args, &out, &errs); code != failed || !strings.Contains(errs.String(), c.says) || strings.Contains(errs.String(), `\n`) || strings.Count(errs.String(), "\n") > 2 {
				t.Errorf("exit code %d\n%s%s", code, &out, &errs)
			}
		})
	}
}

// What an export needs of memory does not grow with the letters. With GABION_SOAK=1 they are a
// million.
func TestExportOfManyLetters(t *testing.T) {
	n := 8000
	if os.Getenv("GABION_SOAK") != "" {
		n = 1_000_000
	}
	file := filepath.Join(t.TempDir(), "letters.db")
	db, _, _ := filled(t, sqlletters.SQLite, "sqlite", "file:"+file+"?_pragma=journal_mode(WAL)", "dead_letters")
	const columns = `grp, source, reason, ord, state, held, since, token, until, redriven, resolved, drive, bytes, attempts, first, last, key, position, by_whom, note, newest, headers, failures, payload`
	db.SetMaxOpenConns(1) // for a temporary table
	run(t, db, `CREATE TEMP TABLE one AS SELECT * FROM dead_letters WHERE key = 'order-1'`)
	run(t, db, fmt.Sprintf(`INSERT INTO dead_letters (id, kept, %s) WITH RECURSIVE c (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < %d)
		SELECT lower(hex(randomblob(16))), kept + n, %s FROM c, one`, columns, n-4, columns))
	var errs strings.Builder
	w := &weighing{at: []int{n / 10, n - 1}}
	if code := Main(t.Context(), []string{"export", "--store", "sqlite:" + file}, w, &errs); code != 0 || w.lines != n || !strings.Contains(errs.String(), fmt.Sprintf("%d letters were written", n)) {
		t.Fatalf("exit code %d, %d lines\n%s", code, w.lines, &errs)
	}
	t.Logf("of %d letters: %d bytes more at the end than after a tenth", n, w.heap[1]-w.heap[0])
	if more := w.heap[1] - w.heap[0]; more > 256<<10 {
		t.Errorf("of %d letters the last tenths took %d bytes of memory", n, more)
	}
}

// A weighing writer measures the heap after a number of lines.
type weighing struct {
	lines int
	at    []int
	heap  []int64
}

func (w *weighing) Write(text []byte) (int, error) {
	if w.lines++; slices.Contains(w.at, w.lines) {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		w.heap = append(w.heap, int64(m.HeapAlloc))
	}
	return len(text), nil
}

func run(t *testing.T, db *sql.DB, statement string) {
	t.Helper()
	if _, err := db.ExecContext(context.WithoutCancel(t.Context()), statement); err != nil {
		t.Fatal(err)
	}
}
