package boltstore

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.etcd.io/bbolt"

	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/idempotencytest"
	"github.com/gabion-go/gabion/internal/testservers"
)

func openStore(t testing.TB, file string) *Store {
	t.Helper()
	return openAt(t, file, 0)
}

func openAt(t testing.TB, file string, skew time.Duration) *Store {
	t.Helper()
	s, err := open(file, Options{}, skew)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func newFile(t testing.TB) string { return filepath.Join(t.TempDir(), "records") }

func claim(key string) idempotency.Claim {
	return idempotency.Claim{ID: idempotency.IDOf("test", key), Owner: [16]byte{1}, Lease: time.Hour, Retention: time.Hour}
}

func begin(t testing.TB, s idempotency.Store, c idempotency.Claim, want idempotency.Decision) idempotency.Answer {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	a, err := s.Begin(ctx, c)
	if err != nil || a.Decision != want {
		t.Fatalf("begin: %v, %v, want %v", a.Decision, err, want)
	}
	return a
}

func complete(t testing.TB, s idempotency.Store, c idempotency.Claim, a idempotency.Answer, body string) {
	t.Helper()
	if err := s.Apply(t.Context(), idempotency.Ref{ID: c.ID, Token: a.Record.Token}, completion(body)); err != nil {
		t.Fatal(err)
	}
}

func completion(body string) idempotency.Change {
	return idempotency.Change{State: idempotency.StateDone, Result: idempotency.Result{Status: 201, Body: []byte(body)}}
}

func other(c idempotency.Claim) idempotency.Claim {
	c.Owner[0]++
	return c
}

func get(t testing.TB, s *Store, c idempotency.Claim) idempotency.Record {
	t.Helper()
	r, err := s.Get(t.Context(), c.ID)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func closeStore(t testing.TB, s *Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestConformance(t *testing.T) {
	idempotencytest.Run(t, idempotencytest.Config{ // one process has the file
		Open: func(t testing.TB) idempotency.Store { return openStore(t, newFile(t)) },
	})
}

func TestOneProcessHasTheFile(t *testing.T) {
	file := newFile(t)
	s := openStore(t, file)
	if _, err := Open(file, Options{LockTimeout: -1}); !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), file) {
		t.Errorf("second: %v", err)
	}
	opened := make(chan error)
	go func() {
		second, err := Open(file, Options{LockTimeout: time.Minute})
		if err == nil {
			err = second.Close()
		}
		opened <- err
	}()
	closeStore(t, s)
	if err := <-opened; err != nil {
		t.Errorf("who waits for the lock: %v", err)
	}
}

func TestFilesThatAreNotOurs(t *testing.T) {
	for name, make := range map[string]func(*bbolt.Tx) error{
		"of another program": func(tx *bbolt.Tx) error {
			_, err := tx.CreateBucket([]byte("users"))
			return err
		},
		"of a newer format": func(tx *bbolt.Tx) error {
			b, err := tx.CreateBucket(bucketStore)
			if err != nil {
				return err
			}
			return b.Put(keyFormat, binary.BigEndian.AppendUint64(nil, format+1))
		},
	} {
		t.Run(name, func(t *testing.T) {
			file := newFile(t)
			inBolt(t, file, make)
			before, _ := os.ReadFile(file)
			if _, err := Open(file, Options{}); !errors.Is(err, ErrFormat) {
				t.Errorf("open: %v", err)
			}
			after, _ := os.ReadFile(file)
			if string(before) != string(after) {
				t.Error("the file was changed")
			}
		})
	}
	garbage := newFile(t)
	os.WriteFile(garbage, []byte(strings.Repeat("x", 1<<16)), 0o600)
	if s, err := Open(garbage, Options{}); err == nil {
		s.Close()
		t.Error("garbage was opened")
	}
	if _, err := Open(filepath.Join(t.TempDir(), "no", "folder"), Options{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no folder: %v", err)
	}
}

// inBolt changes a file behind the store's back.
func inBolt(t *testing.T, file string, change func(*bbolt.Tx) error) {
	t.Helper()
	db, err := bbolt.Open(file, 0o600, nil)
	if err == nil {
		err = errors.Join(db.Update(change), db.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestNewFileIsPrivate(t *testing.T) {
	file := newFile(t)
	openStore(t, file)
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

// 39: the file's lock proves that the runs of the last process have ended.
func TestRunsOfTheLastProcessAreLostAtOnce(t *testing.T) {
	file := newFile(t)
	s := openStore(t, file)
	hold, swept, rerun, done := claim("hold"), claim("swept"), claim("rerun"), claim("done")
	rerun.Guarantee = idempotency.GuaranteeReexecute
	for _, c := range []idempotency.Claim{hold, swept, rerun} {
		begin(t, s, c, idempotency.DecisionRun)
	}
	complete(t, s, done, begin(t, s, done, idempotency.DecisionRun), "done")
	closeStore(t, s)

	s = openStore(t, file)
	begin(t, s, other(hold), idempotency.DecisionUnknown)
	if a := begin(t, s, other(rerun), idempotency.DecisionRun); a.Record.Attempt != 2 {
		t.Errorf("attempt %d", a.Record.Attempt)
	}
	if n, err := s.Sweep(t.Context(), 10); n != 1 || err != nil {
		t.Errorf("swept %d, %v", n, err)
	}
	if got := get(t, s, swept).State; got != idempotency.StateUnknown {
		t.Errorf("%v after a sweep", got)
	}
	begin(t, s, done, idempotency.DecisionReplay)
}

func TestTimeNeverGoesBack(t *testing.T) {
	file := newFile(t)
	s := openStore(t, file)
	done, gone, run := claim("done"), claim("gone"), claim("run")
	gone.Retention = 0
	complete(t, s, done, begin(t, s, done, idempotency.DecisionRun), "x")
	first := begin(t, s, gone, idempotency.DecisionRun)
	complete(t, s, gone, first, "x")
	s.Sweep(t.Context(), 10)
	lost := begin(t, s, run, idempotency.DecisionRun)
	closeStore(t, s)

	for n, jump := range []time.Duration{-time.Hour, -24 * 365 * time.Hour} {
		s = openAt(t, file, jump)
		begin(t, s, done, idempotency.DecisionReplay)
		if n == 0 {
			begin(t, s, other(run), idempotency.DecisionUnknown)
		}
		again := claim(fmt.Sprint("new", n))
		for _, c := range []idempotency.Claim{gone, again} {
			a := begin(t, s, c, idempotency.DecisionRun)
			if a.Record.Token <= lost.Record.Token || a.Record.Created <= lost.Record.Created {
				t.Errorf("after a jump by %v: %+v, before it %+v", jump, a.Record, lost.Record)
			}
			complete(t, s, c, a, "x")
			lost = a
		}
		closeStore(t, s)
	}
	s = openAt(t, file, 2*time.Hour)
	begin(t, s, done, idempotency.DecisionRun)
}

func TestTokensGrowAcrossKeysAndRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // where no time passes
		file, last := newFile(t), int64(0)
		for range 3 {
			s := openStore(t, file)
			for range 20 {
				c := claim("k")
				a := begin(t, s, c, idempotency.DecisionRun)
				if a.Record.Token <= last {
					t.Fatalf("token %d after %d", a.Record.Token, last)
				}
				last = a.Record.Token
				complete(t, s, c, a, "x")
				forget(s, c.ID)
			}
			closeStore(t, s)
		}
	})
}

// forget deletes a record, as a sweep would.
func forget(s *Store, id idempotency.ID) {
	s.submit(context.Background(), 0, func(t *tables, now idempotency.Moment) error {
		old, _, err := t.load(id)
		if err != nil {
			return err
		}
		return t.replace(id, &old, &idempotency.Record{})
	})
}

// block keeps the writer in a transaction until the returned function is called.
func block(s *Store) (release func()) {
	started, free := make(chan struct{}), make(chan struct{})
	go s.submit(context.Background(), 0, func(*tables, idempotency.Moment) error {
		close(started)
		<-free
		return nil
	})
	<-started
	return func() { close(free) }
}

func TestAnswersThatChangeNothingDontWaitForTheWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openStore(t, newFile(t))
		done, running := claim("done"), claim("running")
		complete(t, s, done, begin(t, s, done, idempotency.DecisionRun), "x")
		begin(t, s, running, idempotency.DecisionRun)
		release := block(s)
		defer closeStore(t, s)
		defer release()
		begin(t, s, done, idempotency.DecisionReplay)
		begin(t, s, running, idempotency.DecisionRun) // repeated by its owner
		begin(t, s, other(running), idempotency.DecisionInProgress)
		running.Fingerprint[0]++
		begin(t, s, running, idempotency.DecisionMismatch)
		if r := get(t, s, done); r.State != idempotency.StateDone {
			t.Errorf("get: %v", r.State)
		}
	})
}

// A record is not readable while it is committed: the disk may still refuse it.
func TestRecordsInFlightAreNotTold(t *testing.T) {
	s := openStore(t, newFile(t))
	c, beside := claim("in flight"), claim("beside")
	complete(t, s, beside, begin(t, s, beside, idempotency.DecisionRun), "x")
	complete(t, s, c, begin(t, s, c, idempotency.DecisionRun), "x")
	f := *s.flight.Load()
	f.landed = make(chan struct{})
	s.flight.Store(&f)

	begin(t, s, beside, idempotency.DecisionReplay)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if a, err := s.Begin(ctx, c); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("before it landed: %v, %v", a.Decision, err)
	}
	answer := make(chan error)
	go func() {
		_, err := s.Get(context.Background(), c.ID)
		answer <- err
	}()
	poison := s.submit(t.Context(), 0, func(t *tables, _ idempotency.Moment) error {
		t.fail(os.ErrInvalid)
		return nil
	})
	for _, err := range []error{poison, <-answer} {
		if !errors.Is(err, ErrPoisoned) || !errors.Is(err, os.ErrInvalid) {
			t.Errorf("when it didn't land: %v", err)
		}
	}
	if _, err := s.Begin(t.Context(), beside); !errors.Is(err, ErrPoisoned) {
		t.Errorf("of another record, when it is poisoned: %v", err)
	}
}

func TestRecordsThatMoveAreFound(t *testing.T) {
	s := openStore(t, newFile(t))
	c := claim("k")
	ref := idempotency.Ref{ID: c.ID, Token: begin(t, s, c, idempotency.DecisionRun).Record.Token}
	moved := make(chan error)
	go func() {
		var err error
		for n := range 100 {
			err = errors.Join(err, s.Apply(context.Background(), ref, idempotency.Change{State: idempotency.StateRunning, Lease: time.Duration(n+1) * time.Minute}))
		}
		moved <- err
	}()
	for {
		select {
		case err := <-moved:
			if err != nil {
				t.Error(err)
			}
			return
		default:
		}
		if got := get(t, s, c).State; got != idempotency.StateRunning {
			t.Errorf("%v while its lease is extended", got)
		}
	}
}

func TestQueuedOperationsAreWithdrawn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openStore(t, newFile(t))
		release := block(s)
		kept, withdrawn := claim("kept"), claim("withdrawn")
		ctx, cancel := context.WithCancel(t.Context())
		answers := make(chan error)
		ask := func(ctx context.Context, c idempotency.Claim) {
			_, err := s.Begin(ctx, c)
			answers <- err
		}
		go ask(ctx, withdrawn)
		go ask(context.Background(), kept)
		synctest.Wait()
		cancel()
		if err := <-answers; !errors.Is(err, context.Canceled) {
			t.Errorf("withdrawn: %v", err)
		}
		release()
		if err := <-answers; err != nil {
			t.Errorf("kept: %v", err)
		}
		if r := get(t, s, withdrawn); r.State != idempotency.StateAbsent {
			t.Errorf("the withdrawn claim is %v", r.State)
		}
		if r := get(t, s, kept); r.State != idempotency.StateRunning {
			t.Errorf("the other claim is %v", r.State)
		}
		closeStore(t, s)
	})
}

func TestFullQueueHoldsCallersUntilTheirContextsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openStore(t, newFile(t))
		release := block(s)
		for range queueLength {
			go s.Get(context.Background(), claim("absent").ID)
		}
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := s.Begin(ctx, claim("k")); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
		release()
		begin(t, s, claim("k"), idempotency.DecisionRun)
		closeStore(t, s)
	})
}

func TestCloseDoesWhatIsQueued(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := newFile(t)
		s := openStore(t, file)
		release := block(s)
		const queued = 100
		answers := make(chan error, queued)
		for n := range queued {
			go func() {
				_, err := s.Begin(context.Background(), claim(fmt.Sprint(n)))
				answers <- err
			}()
		}
		synctest.Wait()
		closed := make(chan error)
		go func() { closed <- s.Close() }()
		synctest.Wait()
		wantClosed(t, s)
		release()
		if err := <-closed; err != nil {
			t.Errorf("close: %v", err)
		}
		for range queued {
			if err := <-answers; err != nil {
				t.Errorf("queued: %v", err)
			}
		}
		wantClosed(t, s)
		if err := s.Close(); err != nil {
			t.Errorf("close again: %v", err)
		}
		s = openStore(t, file)
		for n := range queued {
			if got := get(t, s, claim(fmt.Sprint(n))).State; got != idempotency.StateRunning {
				t.Errorf("%d is %v", n, got)
			}
		}
		closeStore(t, s)
	})
}

func wantClosed(t *testing.T, s *Store) {
	t.Helper()
	c := claim("0")
	_, err := s.Begin(t.Context(), c)
	errs := []error{err, s.Apply(t.Context(), idempotency.Ref{ID: c.ID, Token: 1}, completion(""))}
	_, err = s.Get(t.Context(), c.ID)
	errs = append(errs, err)
	_, err = s.Sweep(t.Context(), 1)
	for _, err := range append(errs, err) {
		if !errors.Is(err, ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	}
}

func TestSweepTakesSoManyAndLeavesWhatItCantRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := newFile(t)
		s := openStore(t, file)
		for n := range 400 {
			c := claim(fmt.Sprint(n))
			complete(t, s, c, begin(t, s, c, idempotency.DecisionRun), "x")
		}
		keep := claim("keep")
		keep.Retention = 3 * time.Hour
		complete(t, s, keep, begin(t, s, keep, idempotency.DecisionRun), "x")
		closeStore(t, s)
		newer := idempotency.IDOf("test", "0") // the first that is due
		inBolt(t, file, func(tx *bbolt.Tx) error {
			b := tx.Bucket(bucketFinished)
			k, v := b.Cursor().First()
			return b.Put(k, append([]byte{200}, v[1:]...))
		})

		s = openStore(t, file)
		wantSwept := func(limit, want int) {
			t.Helper()
			if n, err := s.Sweep(t.Context(), limit); n != want || err != nil {
				t.Errorf("swept %d, want %d (%v)", n, want, err)
			}
		}
		wantSwept(1000, 0)
		time.Sleep(2 * time.Hour)
		wantSwept(0, 0)
		wantSwept(1, 0)     // the one that it can't read
		wantSwept(300, 300) // more than one batch
		wantSwept(1000, 99)
		wantSwept(1000, 0)
		if _, err := s.Get(t.Context(), newer); !errors.Is(err, idempotency.ErrUnreadable) {
			t.Errorf("the newer record: %v", err)
		}
		if _, err := s.Begin(t.Context(), idempotency.Claim{ID: newer}); !errors.Is(err, idempotency.ErrUnreadable) {
			t.Errorf("a claim of the newer record: %v", err)
		}
		begin(t, s, keep, idempotency.DecisionReplay)
		time.Sleep(2 * time.Hour)
		wantSwept(1000, 1)
		if n := len(s.index.due); n != 1 {
			t.Errorf("%d records, want 1", n)
		}
		closeStore(t, s)
		s = openStore(t, file)
		if _, err := s.Get(t.Context(), newer); !errors.Is(err, idempotency.ErrUnreadable) {
			t.Errorf("the newer record after a restart: %v", err)
		}
		closeStore(t, s)
	})
}

func TestExpiryIsExact(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openStore(t, newFile(t))
		c := claim("k")
		complete(t, s, c, begin(t, s, c, idempotency.DecisionRun), "x")
		left := get(t, s, c).Expires.Sub(s.now())
		time.Sleep(left - 1)
		begin(t, s, other(c), idempotency.DecisionReplay)
		if n, _ := s.Sweep(t.Context(), 10); n != 0 {
			t.Error("swept before it expired")
		}
		time.Sleep(1)
		if n, _ := s.Sweep(t.Context(), 10); n != 1 {
			t.Error("not swept when it expired")
		}
		begin(t, s, other(c), idempotency.DecisionRun)
		closeStore(t, s)
	})
}

func TestTooLargeChangesNothing(t *testing.T) {
	s := openStore(t, newFile(t))
	c := claim("k")
	a := begin(t, s, c, idempotency.DecisionRun)
	large := completion("")
	large.Result.Body = make([]byte, s.Caps().MaxValue+1)
	if err := s.Apply(t.Context(), idempotency.Ref{ID: c.ID, Token: a.Record.Token}, large); !errors.Is(err, idempotency.ErrTooLarge) {
		t.Errorf("too large: %v", err)
	}
	complete(t, s, c, a, "small")
}

func TestCaps(t *testing.T) {
	s := openStore(t, newFile(t))
	if c := s.Caps(); !c.Durable || !c.ServerClock || c.MaxValue <= 0 {
		t.Errorf("%+v", c)
	}
	const memory = "/dev/shm"
	if _, err := os.Stat(memory); err != nil || runtime.GOOS != "linux" {
		testservers.Missing(t, "there is no tmpfs at %s", memory)
	}
	dir, err := os.MkdirTemp(memory, "boltstore")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	s = openStore(t, filepath.Join(dir, "records"))
	if w := s.Caps().Warnings; len(w) != 1 || !strings.Contains(w[0], "tmpfs") {
		t.Errorf("on tmpfs: %q", w)
	}
	closeStore(t, s)
}
