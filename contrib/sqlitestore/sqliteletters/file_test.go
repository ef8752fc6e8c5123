package sqliteletters

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gabion-go/gabion/internal/testservers"
	"github.com/gabion-go/gabion/messages/deadletter"
	"github.com/gabion-go/gabion/messages/deadletter/sqlletters"
)

func exec1(t testing.TB, db *sql.DB, text string) {
	t.Helper()
	if _, err := db.ExecContext(t.Context(), text); err != nil {
		t.Fatal(text, err)
	}
}

// raw opens a file beside the store, as sqlite3 would.
func raw(t *testing.T, file string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+file)
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	t.Cleanup(func() { db.Close() })
	return db
}

func wantSays(t *testing.T, err error, words ...string) {
	t.Helper()
	for _, w := range words {
		if err == nil || !strings.Contains(err.Error(), w) {
			t.Errorf("error %v, want one that says %q", err, w)
		}
	}
}

func TestFileIsForItsOwnerOnly(t *testing.T) {
	file := filepath.Join(t.TempDir(), "letters")
	s := openFile(t, file, deadletter.Options{})
	if err := s.Put(t.Context(), letter(1)); err != nil {
		t.Fatal(err)
	}
	for _, end := range []string{"", "-wal", "-shm"} {
		if info, err := os.Stat(file + end); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", end, info, err)
		}
	}
}

func TestFilesThatAreNone(t *testing.T) {
	dir := t.TempDir()
	if _, err := OpenExisting(t.Context(), filepath.Join(dir, "none"), deadletter.Options{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "none")); err == nil {
		t.Error("it was made")
	}
	garbage := filepath.Join(dir, "garbage")
	os.WriteFile(garbage, []byte(strings.Repeat("no database ", 1000)), 0o600)
	_, err := Open(t.Context(), garbage, deadletter.Options{})
	wantSays(t, err, garbage, "the file is no database")
	if text, _ := os.ReadFile(garbage); !strings.HasPrefix(string(text), "no database") {
		t.Error("it was written over")
	}
	for _, file := range []string{"", ":memory:", filepath.Join(dir, "no", "folder"), dir} {
		if _, err := Open(t.Context(), file, deadletter.Options{}); err == nil {
			t.Errorf("%q was opened", file)
		}
	}
	_, err = Open(t.Context(), filepath.Join(dir, "new"), deadletter.Options{Overflow: 7})
	wantSays(t, err, "overflow")
}

func TestTablesOfANewerProgram(t *testing.T) {
	file := filepath.Join(t.TempDir(), "letters")
	s := openFile(t, file, deadletter.Options{})
	if err := s.Put(t.Context(), letter(1)); err != nil {
		t.Fatal(err)
	}
	exec1(t, raw(t, file), "UPDATE dead_letters_schema SET version = 3")
	if err := s.Put(t.Context(), letter(2)); !errors.Is(err, deadletter.ErrSchema) {
		t.Errorf("a program that was there before: %v", err)
	}
	_, err := Open(t.Context(), file, deadletter.Options{})
	if !errors.Is(err, deadletter.ErrSchema) {
		t.Errorf("a program that opens it: %v", err)
	}
	wantSays(t, err, "version 3", "newer program")
	exec1(t, raw(t, file), "UPDATE dead_letters_schema SET version = 2")
	if st, err := s.Stats(t.Context(), ""); err != nil || st.Put != 1 {
		t.Errorf("%+v, %v", st, err)
	}
}

// A version 0 is what an interrupted first Migrate leaves.
func TestTablesOfAnOlderProgramAreMigrated(t *testing.T) {
	file := filepath.Join(t.TempDir(), "letters")
	exec1(t, raw(t, file), "CREATE TABLE dead_letters_schema (one integer PRIMARY KEY, version integer NOT NULL)")
	exec1(t, raw(t, file), "INSERT INTO dead_letters_schema VALUES (1, 0)")
	s := openFile(t, file, deadletter.Options{})
	if err := s.Put(t.Context(), letter(1)); err != nil {
		t.Error(err)
	}
}

func TestDatabaseWithoutTables(t *testing.T) {
	db := raw(t, filepath.Join(t.TempDir(), "letters"))
	s, err := sqlletters.New(db, sqlletters.SQLite, "dead_letters", deadletter.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Put(t.Context(), letter(1)); err == nil {
		t.Error("a letter was put into no table")
	}
	if err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.Put(t.Context(), letter(1)); err != nil {
		t.Errorf("after Migrate: %v", err)
	}
	for _, table := range []string{"", "a b", "x;", strings.Repeat("a", 41), "1"} {
		if _, err := sqlletters.New(db, sqlletters.SQLite, table, deadletter.Options{}); err == nil {
			t.Errorf("table %q was taken", table)
		}
	}
	if _, err := sqlletters.New(db, sqlletters.Dialect{}, "a", deadletter.Options{}); err == nil {
		t.Error("no dialect was taken")
	}
}

func TestReadOnlyFileCanBeRead(t *testing.T) {
	file := filepath.Join(t.TempDir(), "letters")
	s := openFile(t, file, deadletter.Options{})
	if err := s.Put(t.Context(), letter(1)); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", "file:"+file+"?_pragma=query_only(1)")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	read, err := sqlletters.New(db, sqlletters.SQLite, Table, deadletter.Options{})
	if err == nil {
		err = read.Migrate(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := read.Get(t.Context(), letter(1).ID); err != nil {
		t.Error(err)
	}
	wantSays(t, read.Put(t.Context(), letter(2)), "the database is read-only")
	if _, err := s.Get(t.Context(), letter(2).ID); !errors.Is(err, deadletter.ErrNotFound) {
		t.Errorf("%v", err)
	}
}

// A file of another user's, in a directory of another user's, can be read when no process has it
// open. Root may write anywhere, so a test that runs as root asks a child that may not.
func TestFileOfAnotherUserCanBeRead(t *testing.T) {
	if file := os.Getenv("GABION_LETTERS_OF_ANOTHER"); file != "" {
		readOnly(t, file)
		return
	}
	dir := filepath.Join(t.TempDir(), "theirs")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "letters")
	s := openFile(t, file, deadletter.Options{})
	if err := errors.Join(s.Put(t.Context(), letter(1)), s.Close(), os.Chmod(file, 0o444), os.Chmod(dir, 0o555)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Chmod(dir, 0o700) })
	if os.Geteuid() != 0 {
		readOnly(t, file)
		return
	}
	asNobody(t, "TestFileOfAnotherUserCanBeRead", file)
}

func readOnly(t *testing.T, file string) {
	t.Helper()
	s, err := OpenExisting(t.Context(), file, deadletter.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Get(t.Context(), letter(1).ID); err != nil {
		t.Error(err)
	}
	if page, err := s.List(t.Context(), deadletter.Query{}, "", 0); err != nil || len(page.Letters) != 1 {
		t.Errorf("%d letters, %v", len(page.Letters), err)
	}
	wantSays(t, s.Put(t.Context(), letter(2)), "the database is read-only")
}

// asNobody runs one test of this program as a user who may nothing.
func asNobody(t *testing.T, test, file string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "letters-of-another") // another user can't enter t.TempDir's parent
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	theirs := filepath.Join(dir, "letters")
	letters, err := os.ReadFile(file)
	program := filepath.Join(dir, "program")
	if err := errors.Join(err, os.WriteFile(theirs, letters, 0o444), os.WriteFile(program, text, 0o755), os.Chmod(dir, 0o755)); err != nil {
		t.Fatal(err)
	}
	child := exec.CommandContext(t.Context(), program, "-test.run", "^"+test+"$")
	child.Dir, child.Env = dir, append(os.Environ(), "GABION_LETTERS_OF_ANOTHER="+theirs, "TMPDIR=/nowhere")
	child.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	if out, err := child.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// A full disk loses nothing that was acknowledged, and says what is wrong.
func TestFullDisk(t *testing.T) {
	file := filepath.Join(t.TempDir(), "letters")
	s := openFile(t, file, deadletter.Options{})
	for n := range 3 {
		if err := s.Put(t.Context(), letter(n)); err != nil {
			t.Fatal(err)
		}
	}
	db, err := sql.Open("sqlite", "file:"+file+"?_pragma=max_page_count(1)&_txlock=immediate")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	full, err := sqlletters.New(db, sqlletters.SQLite, Table, deadletter.Options{})
	if err != nil {
		t.Fatal(err)
	}
	large := letter(3)
	large.Payload = make([]byte, 1<<20)
	var all sync.WaitGroup
	for range 8 { // together, so that one takes no other with it
		all.Go(func() { wantSays(t, full.Put(t.Context(), large), "the disk is full") })
		all.Go(func() {
			if err := full.Fail(t.Context(), letter(0).ID, deadletter.Failure{Message: "fits"}); err != nil {
				t.Errorf("what fits: %v", err)
			}
		})
	}
	all.Wait()
	if st, err := s.Stats(t.Context(), ""); err != nil || st.Put != 3 || st.Letters != 3 {
		t.Errorf("%+v, %v", st, err)
	}
	if err := s.Put(t.Context(), large); err != nil {
		t.Errorf("once there is room: %v", err)
	}
}

func TestLockedFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "letters")
	s := openFile(t, file, deadletter.Options{})
	other := raw(t, file)
	exec1(t, other, "BEGIN IMMEDIATE")
	ctx, cancel := context.WithCancel(t.Context())
	put := make(chan error)
	go func() { put <- s.Put(ctx, letter(1)) }()
	if _, err := s.List(t.Context(), deadletter.Query{}, "", 0); err != nil {
		t.Errorf("reading meanwhile: %v", err)
	}
	cancel()
	if err := <-put; !errors.Is(err, context.Canceled) {
		t.Errorf("who does not wait: %v", err)
	}
	impatient, err := sql.Open("sqlite", "file:"+file+"?_txlock=immediate")
	if err != nil {
		t.Fatal(err)
	}
	defer impatient.Close()
	locked, err := sqlletters.New(impatient, sqlletters.SQLite, Table, deadletter.Options{})
	if err != nil {
		t.Fatal(err)
	}
	wantSays(t, locked.Put(t.Context(), letter(1)), "locked by another process")
	exec1(t, other, "ROLLBACK")
	if err := s.Put(t.Context(), letter(1)); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

func TestManyMigrateAtOnce(t *testing.T) {
	file := filepath.Join(t.TempDir(), "letters")
	dsn := testservers.Postgres(t)
	var all sync.WaitGroup
	for n := range 6 {
		all.Go(func() {
			s, err := Open(t.Context(), file, deadletter.Options{})
			if err == nil {
				defer s.Close()
				err = s.Put(t.Context(), letter(n))
			}
			if err != nil {
				t.Error(err)
			}
		})
		all.Go(func() {
			db, err := sql.Open("pgx", dsn)
			if err != nil {
				t.Error(err)
				return
			}
			defer db.Close()
			s, err := sqlletters.New(db, sqlletters.Postgres, "letters_many", deadletter.Options{})
			if err == nil {
				err = s.Migrate(t.Context())
			}
			if err == nil {
				err = s.Put(t.Context(), letter(n))
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if st, err := openFile(t, file, deadletter.Options{}).Stats(t.Context(), ""); err != nil || st.Put != 6 {
		t.Errorf("%+v, %v", st, err)
	}
}

func TestNothingIsLeftOver(t *testing.T) {
	file := filepath.Join(t.TempDir(), "letters")
	before := runtime.NumGoroutine()
	s, err := Open(t.Context(), file, deadletter.Options{MaxLetters: 5})
	if err != nil {
		t.Fatal(err)
	}
	for n := range 10 { // some of which are refused
		_ = s.Put(t.Context(), letter(n))
		_, _ = s.Get(t.Context(), letter(n).ID)
		_, _ = s.List(t.Context(), deadletter.Query{}, "", 3)
		_, _, _ = s.Take(t.Context(), "g", 1, 1)
	}
	if n := s.db.Stats().InUse; n != 0 {
		t.Errorf("%d connections are in use", n)
	}
	s.Close()
	s.Close()
	if err := s.Put(t.Context(), letter(1)); err == nil {
		t.Error("a closed store took a letter")
	}
	for end := time.Now().Add(30 * time.Second); runtime.NumGoroutine() > before && time.Now().Before(end); <-time.After(time.Millisecond) {
	}
	if n := runtime.NumGoroutine(); n > before {
		t.Errorf("%d goroutines, %d before", n, before)
	}
}

// Every letter that was acknowledged before the process was killed is there, each once, and
// what is counted is what is there.
func TestKilledProcessLosesNoLetter(t *testing.T) {
	if file := os.Getenv("LETTERS_CHILD"); file != "" {
		putForever(t, file)
	}
	file := filepath.Join(t.TempDir(), "letters")
	rounds := 2
	if os.Getenv("GABION_SOAK") != "" {
		rounds = 50
	}
	acked := map[string]bool{}
	for round := range rounds {
		c := exec.Command(os.Args[0], "-test.run=^TestKilledProcessLosesNoLetter$")
		c.Env = append(os.Environ(), "LETTERS_CHILD="+file, fmt.Sprint("LETTERS_FROM=", round*1e6))
		out, err := c.StdoutPipe()
		if err == nil {
			err = c.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		for n := 0; lines.Scan(); n++ {
			if id, ok := strings.CutPrefix(lines.Text(), "put "); ok {
				acked[id] = true
			}
			if n == 100+37*round {
				c.Process.Kill()
			}
		}
		c.Wait()
	}
	s := openFile(t, file, deadletter.Options{})
	there := map[string]int{}
	for from, first := "", true; first || from != ""; first = false {
		p, err := s.List(t.Context(), deadletter.Query{}, from, 1000)
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range p.Letters {
			there[string(l.ID)]++
		}
		from = p.Next
	}
	for id := range acked {
		if there[id] != 1 {
			t.Errorf("letter %s is there %d times", id, there[id])
		}
	}
	st, err := s.Stats(t.Context(), "")
	if err != nil || len(acked) < 100 || st.Letters != len(there) || st.Put != int64(len(there)) {
		t.Errorf("%d acknowledged, %d there, %+v, %v", len(acked), len(there), st, err)
	}
}

// putForever puts letters away and says so, until it is killed.
func putForever(t *testing.T, file string) {
	s := openFile(t, file, deadletter.Options{})
	var from int
	fmt.Sscan(os.Getenv("LETTERS_FROM"), &from)
	var mu sync.Mutex
	var all sync.WaitGroup
	for w := range 8 {
		all.Go(func() {
			for n := from + w; ; n += 8 {
				l := letter(n)
				if err := s.Put(t.Context(), l); err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				fmt.Println("put", l.ID)
				mu.Unlock()
			}
		})
	}
	all.Wait()
}

// A store whose bounds were lowered, as they are after a disk was full, takes letters again: those
// that have to go are told of a thousand at a time.
func TestABoundThatWasLoweredByThousands(t *testing.T) {
	for _, c := range []struct {
		fact string
		o    deadletter.Options
		err  error
		left int // that wait then
	}{
		{"all that wait are enough", deadletter.Options{MaxLetters: 300}, nil, 300},
		{"all that wait are not enough", deadletter.Options{MaxLetters: 2}, deadletter.ErrFull, 2600},
	} {
		t.Run(c.fact, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "letters")
			s := openFile(t, file, deadletter.Options{})
			put := func(group string, n int) {
				l := letter(n)
				l.Group = group
				if err := s.Put(t.Context(), l); err != nil {
					t.Fatal(err)
				}
			}
			put("g", 0)
			s.db.SetMaxOpenConns(1) // for a temporary table
			copies(t, s, 2597)
			put("taken", 1)
			put("taken", 2)
			if d, err := s.Order(t.Context(), deadletter.Query{Group: "taken"}, deadletter.Drive{Rate: 1e9}); err != nil || d.Total != 2 {
				t.Fatal(d, err)
			}
			if taken, _, err := s.Take(t.Context(), "taken", 2, time.Hour); err != nil || len(taken) != 2 {
				t.Fatal(taken, err)
			}
			s.Close()
			var told []int
			c.o.Overflow = deadletter.DropOldest
			c.o.Dropping = func(_ context.Context, n deadletter.Notice) { told = append(told, n.Letters) }
			s = openFile(t, file, c.o)
			if err := s.Put(t.Context(), letter(7)); !errors.Is(err, c.err) {
				t.Errorf("error %v, want %v", err, c.err)
			}
			sum := 0
			for _, n := range told {
				if sum += n; n > 1000 {
					t.Errorf("%d letters at once", n)
				}
			}
			st, err := s.Stats(t.Context(), "")
			if err != nil || st.ByState[deadletter.Taken] != 2 {
				t.Errorf("%+v, %v", st, err)
			}
			if want := 2600 - c.left; c.err == nil && sum != want+1 || c.err != nil && sum != 0 || st.Letters != c.left {
				t.Errorf("told of %d letters, and %d are left", sum, st.Letters)
			}
		})
	}
}
