// Package mortal lets the binary of a test be other processes too, which die where the test wants them to.
package mortal

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/gabion-go/gabion/contrib/sqlitestore"
	"github.com/gabion-go/gabion/idempotency/sqlstore"
)

const (
	roleVar  = "MORTAL_ROLE"
	dieVar   = "MORTAL_DIE"       // where
	afterVar = "MORTAL_DIE_AFTER" // the how manyth time
	stopVar  = "MORTAL_STOP"      // not to die there, but to stop until a SIGCONT
)

// Main runs the tests or, in a child, its role.
func Main(m *testing.M, roles map[string]func(context.Context) error) {
	do := roles[os.Getenv(roleVar)]
	if do == nil {
		os.Exit(m.Run())
	}
	go func() { // no child outlives the test
		_, _ = os.Stdin.Read(make([]byte, 1))
		os.Exit(3)
	}()
	if err := do(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(2)
}

var (
	passing sync.Mutex
	passed  int // of the place to die at
)

// Place is where this process is to die; empty for nowhere.
func Place() string { return os.Getenv(dieVar) }

// Die kills this process, by a signal that it can't handle, if it is to die here. Or it stops.
func Die(here string) {
	if here != Place() {
		return
	}
	passing.Lock()
	defer passing.Unlock()
	passed++
	after, _ := strconv.Atoi(os.Getenv(afterVar))
	if passed < after {
		return
	}
	if os.Getenv(stopVar) != "" {
		if passed == max(after, 1) {
			fmt.Println("stops at", here)
			stop()
		}
		return
	}
	if self, err := os.FindProcess(os.Getpid()); err == nil {
		_ = self.Kill()
	}
	select {}
}

// A Child is a process of a test's binary.
type Child struct {
	*exec.Cmd
	Trouble bytes.Buffer  // what it said of errors
	Ended   chan struct{} // closed when it has
}

// A Birth says which child is started.
type Birth struct {
	Program string // zero means the test's own
	Role    string
	Die     string // where, the After'th time; zero means nowhere
	After   int
	Stop    bool      // not to die there, but to stop until a SIGCONT
	Said    io.Writer // gets what it prints; may be nil
	Env     []string
}

// Start starts a child, which ends with the test at the latest. Any goroutine may call it.
func Start(t testing.TB, b Birth) *Child {
	t.Helper()
	c := &Child{Cmd: exec.CommandContext(t.Context(), cmp.Or(b.Program, os.Args[0])), Ended: make(chan struct{})}
	c.Env = append(append(os.Environ(), b.Env...), roleVar+"="+b.Role, dieVar+"="+b.Die, afterVar+"="+strconv.Itoa(b.After))
	if b.Stop {
		c.Env = append(c.Env, stopVar+"=1")
	}
	c.Stderr, c.Stdout = &c.Trouble, b.Said
	stdin, err := c.StdinPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		panic(err) // any goroutine may be here
	}
	go func() {
		defer close(c.Ended)
		_ = c.Wait() // its state says it
		_ = stdin.Close()
	}()
	return c
}

// Kill kills the child and waits for its end.
func (c *Child) Kill() {
	_ = c.Process.Kill()
	<-c.Ended
}

// End waits so long for the child to die, and then kills it. It must not end otherwise. End reports
// whether it died.
func (c *Child) End(t testing.TB, within time.Duration) (died bool) {
	t.Helper()
	select {
	case <-c.Ended:
		died = true
	case <-time.After(within):
		c.Kill()
	}
	if c.ProcessState.Exited() {
		t.Errorf("a child ended: %s", &c.Trouble)
	}
	return died
}

// Patience is how long a test waits for what a machine that works would bring.
const Patience = time.Minute

// MustDie waits until the child was killed.
func (c *Child) MustDie(t testing.TB) {
	t.Helper()
	if !c.End(t, time.Duration(Size(1, 30))*Patience) {
		t.Errorf("a child was not where it should die: %s", &c.Trouble)
	}
}

// Size returns how many there are of something: few, or with GABION_SOAK=1 many.
func Size(usual, soak int) int {
	if os.Getenv("GABION_SOAK") == "1" {
		return soak
	}
	return usual
}

// A Told keeps what several processes print.
type Told struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (o *Told) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

// Count returns how often they printed a text.
func (o *Told) Count(text string) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return bytes.Count(o.text.Bytes(), []byte(text))
}

// OpenBank opens the database with the bookings, the witness: a line for each effect. It also has an inbox.
func OpenBank(ctx context.Context, dir string) (*sql.DB, *sqlstore.Store, error) {
	db, store, err := sqlitestore.Open(ctx, filepath.Join(dir, "bank.db"), "inbox")
	if err == nil {
		_, err = db.ExecContext(ctx, "CREATE TABLE IF NOT EXISTS bookings (message text, amount)")
	}
	return db, store, err
}

// A Bank is what a test sees of the bookings.
type Bank struct {
	testing.TB
	*sql.DB
}

// Booked returns how many messages were booked, and how often in all.
func (b Bank) Booked() (messages, bookings int) {
	b.Helper()
	if err := b.QueryRowContext(b.Context(), "SELECT count(DISTINCT message), count(*) FROM bookings").Scan(&messages, &bookings); err != nil {
		b.Fatal(err)
	}
	return messages, bookings
}

// WantOnce checks that n messages were booked, and each once.
func (b Bank) WantOnce(messages int) {
	b.Helper()
	if different, all := b.Booked(); all != messages || different != messages {
		b.Errorf("%d bookings of %d messages, want %d", all, different, messages)
	}
}
