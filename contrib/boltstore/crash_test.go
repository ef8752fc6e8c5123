package boltstore

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/gabion-go/gabion/idempotency"
)

// The tests run themselves as a child, which works on a file until the file fails, and writes a
// line for each answer it got. (e2e/crash kills processes that have one.)
//
//	R key   the claim was granted
//	D key   the completion was taken
//	P       the store said that it is poisoned
//	L key   something was taken by an operation that began after a P
//
// The parent reads them: it is the witness.
const (
	childFile    = "BOLTSTORE_TEST_FILE"
	childClients = "BOLTSTORE_TEST_CLIENTS"
	childPairs   = "BOLTSTORE_TEST_PAIRS"
	childRound   = "BOLTSTORE_TEST_ROUND"
	childWatched = "BOLTSTORE_TEST_WATCHED" // others ask for the same key all the time
)

func TestMain(m *testing.M) {
	if file := os.Getenv(childFile); file != "" {
		child(file)
		return
	}
	os.Exit(m.Run())
}

func child(file string) {
	limitSize()
	s, err := Open(file, Options{})
	if err != nil {
		say("P open: %v", err)
		return
	}
	clients, _ := strconv.Atoi(os.Getenv(childClients))
	pairs, _ := strconv.Atoi(os.Getenv(childPairs))
	var poisoned atomic.Bool
	var all sync.WaitGroup
	for n := range clients {
		all.Go(func() {
			after := 0
			for i := 0; i < pairs && after < 3; i++ {
				late := poisoned.Load()
				key := fmt.Sprintf("%s/%d/%d", os.Getenv(childRound), n, i)
				if late {
					after++
				}
				if err := childPair(s, key, late); errors.Is(err, ErrPoisoned) {
					poisoned.Store(true)
					say("P %v", err)
				} else if err != nil {
					panic(err)
				}
			}
		})
	}
	all.Wait()
	if poisoned.Load() {
		if _, err := s.Sweep(context.Background(), 10); !errors.Is(err, ErrPoisoned) {
			say("L sweep: %v", err)
		}
	}
	s.Close()
}

func childPair(s *Store, key string, late bool) error {
	letter := func(c byte) byte {
		if late {
			return 'L'
		}
		return c
	}
	c := claim(key)
	a, err := s.Begin(context.Background(), c)
	if err != nil {
		return err
	}
	say("%c %s", letter('R'), key)
	if os.Getenv(childWatched) != "" {
		var watching sync.WaitGroup
		watching.Go(func() { watch(s, key) })
		defer watching.Wait()
	}
	err = s.Apply(context.Background(), idempotency.Ref{ID: c.ID, Token: a.Record.Token}, completion(bodyOf(key)))
	if err == nil {
		say("%c %s", letter('D'), key)
	}
	return err
}

// watch asks for a key until its result is replayed: that is an acknowledgement, too.
// It doesn't wait long, so as to be there while the disk is written.
func watch(s *Store, key string) {
	for c := other(claim(key)); ; runtime.Gosched() {
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Microsecond)
		a, err := s.Begin(ctx, c)
		cancel()
		if errors.Is(err, ErrPoisoned) {
			return
		}
		if a.Decision == idempotency.DecisionReplay {
			say("D %s", key)
			return
		}
	}
}

// say writes a line at once, for the process may have no later.
func say(format string, args ...any) { fmt.Fprintf(os.Stdout, format+"\n", args...) }

// bodyOf is long enough that the file grows soon.
func bodyOf(key string) string { return strings.Repeat(key+" ", 5000/len(key)) }

// A witness has the store's answers to a child.
type witness struct {
	granted, done []string
	poisoned      int
	late          []string
}

func (w *witness) read(out io.Reader) {
	for lines := bufio.NewScanner(out); lines.Scan(); {
		verb, key, _ := strings.Cut(lines.Text(), " ")
		switch verb {
		case "R":
			w.granted = append(w.granted, key)
		case "D":
			w.done = append(w.done, key)
		case "P":
			w.poisoned++
		default:
			w.late = append(w.late, lines.Text())
		}
	}
}

// run runs a child by a command.
func run(t *testing.T, file, round string, clients, pairs int, command ...string) *witness {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(command[0], append(command[1:], self)...)
	cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0", childFile+"="+file, childRound+"="+round,
		childClients+"="+strconv.Itoa(clients), childPairs+"="+strconv.Itoa(pairs))
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	w := &witness{}
	w.read(out)
	if err := cmd.Wait(); err != nil {
		t.Errorf("child: %v\n%s", err, &complaint)
	}
	return w
}

// check opens the file and looks for everything that the store had confirmed to the child.
func (w *witness) check(t *testing.T, file string) {
	t.Helper()
	s, err := Open(file, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	w.lookup(t, s)
	if len(w.late) > 0 {
		t.Errorf("taken after the fault: %v", w.late)
	}
}

func (w *witness) lookup(t *testing.T, s *Store) {
	t.Helper()
	for _, key := range w.done {
		if r := get(t, s, claim(key)); r.State != idempotency.StateDone || string(r.Result.Body) != bodyOf(key) {
			t.Errorf("%s was done and is %v", key, r.State)
		}
	}
	for _, key := range w.granted {
		// It may have been completed without the child having heard of it.
		if r := get(t, s, claim(key)); r.State != idempotency.StateDone && (r.State != idempotency.StateRunning || r.LeaseUntil > s.now()) {
			t.Errorf("%s ran and is %v, lease until %v", key, r.State, r.LeaseUntil)
		}
	}
}

// sound lets bbolt check the file, in which every key has one record.
func sound(t *testing.T, file string) {
	t.Helper()
	s, err := Open(file, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	s.db.View(func(tx *bbolt.Tx) error {
		for err := range tx.Check() {
			t.Errorf("the file: %v", err)
		}
		records := tx.Bucket(bucketRunning).Stats().KeyN + tx.Bucket(bucketFinished).Stats().KeyN
		if keys := len(s.index.due); records != keys {
			t.Errorf("the file has %d records of %d keys", records, keys)
		}
		return nil
	})
}

func soak(ordinary, soaked int) int {
	if os.Getenv("GABION_SOAK") == "1" {
		return soaked
	}
	return ordinary
}
