// Package testservers starts real servers as child processes, for tests that a
// fake would only flatter.
//
// Each server listens on a free loopback port, keeps its data in a directory of
// its own and is gone when the test is. A server that is not installed skips the
// test and says so, or fails it when GABION_REQUIRE_SERVERS=1, which the full
// run sets: a run in which nothing was tested must not look like one that
// passed. In short mode the tests are skipped.
package testservers

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// requireEnv turns a missing server from a skipped test into a failed one.
const requireEnv = "GABION_REQUIRE_SERVERS"

const (
	startLimit = 3 * time.Minute        // RabbitMQ needs 20 s of two busy cores, and over a minute where they do ten things
	stopLimit  = 10 * time.Second       // then it is killed
	pollEvery  = 20 * time.Millisecond  // is it ready?
	tailBytes  = 4 << 10                // of the log, shown when something failed
	attempts   = 5                      // another process may take the port first
	retryPause = 100 * time.Millisecond // for what a killed server left behind

	firstPort, lastPort = 20_000, 30_000 // Linux gives ports from 32768, others from 49152
)

// errSilent says that a server runs and does not answer.
var errSilent = fmt.Errorf("no answer in %v", startLimit)

// A Server is a child process that a test may kill and start again, to see what gabion does while it is
// down. Its methods are for the test's own goroutine.
type Server struct {
	// Addr is where it listens: 127.0.0.1 and a port, the same over restarts.
	Addr string

	// DSN is the connection string, for servers that have such.
	DSN string

	t     testing.TB
	kind  kind
	port  int
	dir   string
	owner *owner // nil means the user who runs the test
	child *child // nil while it is down
}

// kind is what differs between servers.
type kind struct {
	name string
	argv func(s *Server) []string
	up   func(s *Server) bool // whether this very process answers
	stop os.Signal            // asks for an orderly end
}

// A child is a running process.
type child struct {
	cmd  *exec.Cmd
	gone chan struct{} // closed when it has ended
}

// launch starts a server and ties its life to the test's.
func launch(s *Server) *Server {
	s.t.Helper()
	s.t.Cleanup(s.end)
	var err error
	for range attempts {
		if err = s.listenSomewhere(); err == nil {
			return s
		}
		if errors.Is(err, errSilent) {
			break // another port would not help
		}
	}
	s.t.Fatalf("testservers: %s does not start: %v%s", s.kind.name, err, s.tail())
	return nil
}

func (s *Server) listenSomewhere() error {
	s.port = FreePorts(s.t, 1)[0]
	s.Addr = fmt.Sprintf("127.0.0.1:%d", s.port)
	return s.start()
}

// FreePorts returns loopback ports where nothing listens now. They are outside the range that the
// common systems assign to programs that dial or listen on any port, so that a server that is down for
// a while finds its own free again.
func FreePorts(t testing.TB, n int) (ports []int) {
	t.Helper()
	for tries := 0; len(ports) < n; tries++ {
		port := firstPort + rand.IntN(lastPort-firstPort)
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			defer l.Close() // and until then it is not drawn again
			ports = append(ports, port)
		} else if tries > 100 {
			t.Fatalf("testservers: no free port: %v", err)
		}
	}
	return ports
}

// start starts the process and waits until it answers.
func (s *Server) start() error {
	log, err := os.OpenFile(s.logName(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	argv := s.kind.argv(s)
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = s.dir, log, log
	cmd.SysProcAttr = attributes(s.owner)
	if s.child, err = spawn(cmd); err != nil {
		return err
	}
	if err := s.await(); err != nil {
		s.signal(os.Kill)
		return err
	}
	return nil
}

// spawn starts cmd from a thread that lives as long as the process does: where
// the system can end children with their parent, it means the parent's thread.
func spawn(cmd *exec.Cmd) (*child, error) {
	c := &child{cmd, make(chan struct{})}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			cmd.Wait()
			close(c.gone)
		}
	}()
	return c, <-started
}

func (s *Server) await() error {
	for limit := time.Now().Add(startLimit); time.Now().Before(limit); time.Sleep(pollEvery) {
		select {
		case <-s.child.gone:
			return fmt.Errorf("it ended: %v", s.child.cmd.ProcessState)
		default:
		}
		if s.kind.up(s) {
			return nil
		}
	}
	return errSilent
}

// Pid is the process id. It is zero while the server is down.
func (s *Server) Pid() int {
	if s.child == nil {
		return 0
	}
	return s.child.cmd.Process.Pid
}

// Kill ends the server at once, as a power cut would end its process, and
// returns when it is gone.
func (s *Server) Kill() { s.signal(os.Kill) }

// Stop ends the server in order and returns when it is gone.
func (s *Server) Stop() { s.signal(s.kind.stop) }

// Restart starts the server again at the same address and with the same data,
// killing it first if it is up.
func (s *Server) Restart() {
	s.t.Helper()
	s.Kill()
	var err error
	for limit := time.Now().Add(startLimit); time.Now().Before(limit); time.Sleep(retryPause) {
		if err = s.start(); err == nil {
			return // at the first try, unless something of the killed one lingers
		}
	}
	s.t.Fatalf("testservers: %s does not start again: %v%s", s.kind.name, err, s.tail())
}

func (s *Server) signal(how os.Signal) {
	if s.child == nil {
		return
	}
	if s.child.cmd.Process.Signal(how) != nil {
		s.child.cmd.Process.Kill()
	}
	select {
	case <-s.child.gone:
	case <-time.After(stopLimit):
		s.child.cmd.Process.Kill()
		<-s.child.gone
	}
	s.child = nil
}

// end is the cleanup: it leaves no process behind, and the log with those who
// need it.
func (s *Server) end() {
	s.Stop()
	if s.t.Failed() {
		s.t.Logf("testservers: the end of %s's log:%s", s.kind.name, s.tail())
	}
}

func (s *Server) logName() string { return filepath.Join(s.dir, s.kind.name+".log") }

// tail returns the end of the log, indented.
func (s *Server) tail() string {
	f, err := os.Open(s.logName())
	if err != nil {
		return " (no log)"
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Size() > tailBytes {
		f.Seek(-tailBytes, io.SeekEnd)
	}
	text, _ := io.ReadAll(f)
	return "\n\t" + strings.ReplaceAll(strings.TrimSpace(string(text)), "\n", "\n\t")
}

// long skips the test in short mode: a real server takes seconds to start, and tests of
// real servers are what make test-all is for.
func long(t testing.TB, server string) {
	t.Helper()
	if testing.Short() {
		t.Skipf("long: %s starts in make test-all", server)
	}
}

// Missing skips the test because a program that it needs is not installed, a server
// or a tool, and says which; it fails the test where they are required.
func Missing(t testing.TB, format string, args ...any) {
	t.Helper()
	why := fmt.Sprintf(format, args...)
	if os.Getenv(requireEnv) == "1" {
		t.Fatalf("%s, and %s=1 (try: make servers)", why, requireEnv)
	}
	t.Skipf("%s (try: make servers)", why)
}

// find returns the path of a program: from PATH, else the last match of the
// patterns, which is the highest version where they differ in that.
func find(program string, patterns ...string) (string, error) {
	if name, err := exec.LookPath(program); err == nil {
		return name, nil
	}
	for _, pattern := range patterns {
		if names, _ := filepath.Glob(pattern); len(names) > 0 {
			return names[len(names)-1], nil
		}
	}
	return "", errors.New(program + " is not installed")
}

// orderly is how servers are asked to end, unless they say otherwise.
const orderly = syscall.SIGTERM
