package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"modernc.org/sqlite"

	"github.com/gabion-go/gabion/gabiontest"
	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/idempotency/sqlstore"
	"github.com/gabion-go/gabion/internal/testservers"
)

// commits counts the commits of this process and can refuse them.
var commits struct {
	n       atomic.Int64
	refused atomic.Bool
}

func init() {
	sqlite.RegisterConnectionHook(func(c sqlite.ExecQuerierContext, _ string) error {
		c.(sqlite.HookRegisterer).RegisterCommitHook(func() int32 {
			commits.n.Add(1)
			if commits.refused.Load() {
				return 1
			}
			return 0
		})
		return nil
	})
}

func hold(key string) idempotency.Claim {
	c := claim(key)
	c.Guarantee, c.Lease = idempotency.GuaranteeHold, time.Minute
	return c
}

// whileLocked runs f while a transaction has the write lock, so that what f asks for comes together.
func whileLocked(t *testing.T, store *sqlstore.Store, key string, f func()) {
	t.Helper()
	a, err := store.Do(t.Context(), claim(key), func(context.Context, *sql.Tx) (idempotency.Result, error) {
		f()
		return idempotency.Result{}, nil
	})
	if err != nil || a.Decision != idempotency.DecisionRun {
		t.Fatalf("%v, %v", a.Decision, err)
	}
}

// together begins all keys at once and returns what each got. The keys are numbers
// after a prefix.
func together(t *testing.T, store *sqlstore.Store, prefix string, keys int) (answers []idempotency.Answer, errs []error) {
	t.Helper()
	answers, errs = make([]idempotency.Answer, keys), make([]error, keys)
	var all sync.WaitGroup
	whileLocked(t, store, prefix+"lock", func() {
		for n := range keys {
			all.Go(func() {
				answers[n], errs[n] = store.Begin(t.Context(), hold(fmt.Sprint(prefix, n)))
			})
		}
		for limit := time.Now().Add(time.Minute); queuing() < keys; time.Sleep(time.Millisecond) {
			if time.Now().After(limit) {
				t.Errorf("%d wait for the write lock, want %d", queuing(), keys)
				break
			}
		}
	})
	all.Wait()
	return answers, errs
}

var queues = regexp.MustCompile(`\[select\]:\n[^\n]*sqlgroup\.\(\*Group\)\.Do\(`)

// queuing returns how many wait for the write lock.
func queuing() int {
	stacks := make([]byte, 8<<20)
	return len(queues.FindAllIndex(stacks[:runtime.Stack(stacks, true)], -1))
}

func TestChangesShareACommit(t *testing.T) {
	_, store := openSQLite(t)
	before := commits.n.Load()
	answers, errs := together(t, store, "", 100)
	for n := range answers {
		if errs[n] != nil || answers[n].Decision != idempotency.DecisionRun {
			t.Errorf("%d: %v, %v", n, answers[n].Decision, errs[n])
		}
	}
	if n := commits.n.Load() - before; n > 3 { // the transaction that they waited for, and one or two
		t.Errorf("%d commits for 100 claims", n)
	}
}

func TestBadChangeTakesNoOtherWithIt(t *testing.T) {
	db, store := openSQLite(t)
	id := hold("3").ID
	if _, err := db.Exec(fmt.Sprintf("CREATE TRIGGER bad BEFORE INSERT ON records WHEN new.id = x'%x' BEGIN SELECT RAISE(ABORT, 'bad'); END", id[:])); err != nil {
		t.Fatal(err)
	}
	answers, errs := together(t, store, "", 10)
	for n := range answers {
		if bad := n == 3; (errs[n] != nil) != bad || (answers[n].Decision == idempotency.DecisionRun) == bad {
			t.Errorf("%d: %v, %v", n, answers[n].Decision, errs[n])
		}
	}
}

func TestNobodyIsAnsweredBeforeTheCommit(t *testing.T) {
	_, store := openSQLite(t)
	commits.refused.Store(true)
	defer commits.refused.Store(false)
	if a, err := store.Begin(t.Context(), hold("k")); err == nil {
		t.Errorf("%v without a commit", a.Decision)
	}
	commits.refused.Store(false)
	if r, err := store.Get(t.Context(), hold("k").ID); err != nil || r.State != idempotency.StateAbsent {
		t.Errorf("%v, %v", r.State, err)
	}
	if a, err := store.Begin(t.Context(), hold("k")); err != nil || a.Decision != idempotency.DecisionRun {
		t.Errorf("afterwards: %v, %v", a.Decision, err)
	}
}

func TestCallerWhoLeavesBeforeItsTurnChangesNothing(t *testing.T) {
	_, store := openSQLite(t)
	whileLocked(t, store, "lock", func() {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		if _, err := store.Begin(ctx, hold("k")); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
		if _, err := store.Tx(ctx, claim("k"), nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("tx: %v", err)
		}
	})
	if a, err := store.Begin(t.Context(), hold("other")); err != nil || a.Decision != idempotency.DecisionRun { // its turn comes after
		t.Errorf("%v, %v", a.Decision, err)
	}
	if r, err := store.Get(t.Context(), hold("k").ID); err != nil || r.State != idempotency.StateAbsent {
		t.Errorf("%v, %v", r.State, err)
	}
}

func TestWorkDoesNotWaitForItself(t *testing.T) {
	_, store := openSQLite(t)
	_, elsewhere := openSQLite(t)
	a, err := store.Do(t.Context(), claim("k"), func(ctx context.Context, _ *sql.Tx) (idempotency.Result, error) {
		if _, err := store.Begin(ctx, hold("other")); err == nil {
			t.Error("a claim inside of work")
		}
		if _, err := store.Tx(ctx, claim("other"), nil); err == nil {
			t.Error("a transaction inside of work")
		}
		_, err := elsewhere.Begin(ctx, hold("other"))
		return idempotency.Result{}, err
	})
	if err != nil || a.Decision != idempotency.DecisionRun {
		t.Errorf("%v, %v", a.Decision, err)
	}
}

func TestNothingStaysBehind(t *testing.T) {
	gabiontest.NoLeaks(t)
	db, store, err := Open(t.Context(), filepath.Join(t.TempDir(), "db"), "records")
	if err != nil {
		t.Fatal(err)
	}
	together(t, store, "", 100)
	db.Close()
	if _, err := store.Begin(t.Context(), hold("k")); err == nil {
		t.Error("a claim in a closed database")
	}
}

func TestQueueIsBounded(t *testing.T) {
	_, store := openSQLite(t)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	whileLocked(t, store, "lock", func() {
		for n := range 10_000 {
			_, err := store.Begin(gone, hold("k"))
			if errors.Is(err, context.Canceled) {
				continue
			}
			if err == nil || n < 1000 {
				t.Errorf("after %d: %v", n, err)
			}
			return
		}
		t.Error("ten thousand wait")
	})
}

// A database whose owner allows it one connection is served by it.
func TestOneConnection(t *testing.T) {
	db, store := openSQLite(t)
	db.SetMaxOpenConns(1)
	answers, errs := together(t, store, "", 10)
	for n := range answers {
		if errs[n] != nil || answers[n].Decision != idempotency.DecisionRun {
			t.Errorf("%d: %v, %v", n, answers[n].Decision, errs[n])
		}
	}
}

// 49: the program runs under strace, which fails its n-th sync. What was acknowledged
// must be there for the next program, and nothing may be acknowledged after: neither
// what waited already nor what comes later.
func TestFailedSyncEndsAllWriting(t *testing.T) {
	if file := os.Getenv("GABION_SYNC_FILE"); file != "" {
		syncUntilItFails(t, file)
		return
	}
	strace, err := exec.LookPath("strace")
	if err != nil {
		testservers.Missing(t, "strace, which makes syncs fail, is not installed")
	}
	failures := 0
	for n := 8; n < 12 || n < 20 && failures == 0; n++ { // opening takes some, and strace counts for each thread
		file := filepath.Join(t.TempDir(), "db")
		inject := fmt.Sprintf("inject=fsync,fdatasync:error=EIO:when=%d", n)
		cmd := exec.Command(strace, "-f", "-qq", "-o", os.DevNull, "-e", "trace=fsync,fdatasync", "-e", inject, os.Args[0], "-test.run=^TestFailedSyncEndsAllWriting$")
		cmd.Env = append(os.Environ(), "GABION_SYNC_FILE="+file)
		out, err := cmd.CombinedOutput()
		if strings.Contains(string(out), "ptrace") {
			testservers.Missing(t, "strace may not trace: %s", out)
		}
		if strings.Contains(string(out), "sqlitestore: open") || strings.Contains(string(out), "unknown whether the transaction was committed") {
			continue // it failed before there were claims
		}
		acknowledged := regexp.MustCompile(`(?m)^acknowledged (\S+)$`).FindAllStringSubmatch(string(out), -1)
		round := regexp.MustCompile(`(?m)^(\d+) of the last round$`).FindStringSubmatch(string(out))
		if err != nil || round == nil || !strings.Contains(string(out), "refused 20 of 20: sqlstore: the disk failed") {
			t.Fatalf("when=%d: %v\n%s", n, err, out)
		}
		failures++
		if k, _ := strconv.Atoi(round[1]); k%256 != 0 {
			t.Errorf("when=%d: %d claims were acknowledged: not all before the failure", n, k)
		}
		_, store, err := Open(t.Context(), file, "records")
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range acknowledged {
			if r, err := store.Get(t.Context(), hold(m[1]).ID); err != nil || r.State != idempotency.StateRunning {
				t.Errorf("when=%d: claim %s is %v: %v", n, m[1], r.State, err)
			}
		}
	}
	if failures == 0 {
		t.Error("no sync failed while claims waited")
	}
}

const queued = 4*256 - 100 // the last batch is not full, so that it shows if it alone is acknowledged

// syncUntilItFails makes rounds of claims of which 256 share a commit, until one fails,
// and then some more.
func syncUntilItFails(t *testing.T, file string) {
	_, store, err := Open(t.Context(), file, "records")
	if err != nil {
		t.Fatal(err)
	}
	for round := 0; err == nil; round++ {
		prefix := fmt.Sprint(round, "-")
		_, errs := together(t, store, prefix, queued)
		k := 0
		for n := range errs {
			if err = errors.Join(err, errs[n]); errs[n] == nil {
				k++
				fmt.Printf("acknowledged %s%d\n", prefix, n)
			}
		}
		if err != nil {
			fmt.Println(k, "of the last round")
		}
	}
	refused := 0
	for n := range 10 {
		if _, err = store.Begin(t.Context(), hold(fmt.Sprint("last", n))); err != nil {
			refused++
		}
		if _, err = store.Tx(t.Context(), claim(fmt.Sprint("tx", n)), nil); err != nil {
			refused++
		}
	}
	fmt.Printf("refused %d of 20: %v\n", refused, err)
}
