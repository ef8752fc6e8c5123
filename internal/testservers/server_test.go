package testservers

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestRedisAnswersOnItsOwnPort(t *testing.T) {
	a, b := Redis(t), Redis(t)
	if a == b {
		t.Fatalf("two servers share %s", a)
	}
	if got := redisSays(t, a, "SET k v"); got != "+OK" {
		t.Errorf("SET: %q", got)
	}
	if got := redisSays(t, b, "EXISTS k"); got != ":0" {
		t.Errorf("a key of one server in the other: %q", got)
	}
}

func TestKilledRedisComesBackWithWhatItWrote(t *testing.T) {
	s := StartRedis(t, "--appendonly", "yes", "--appendfsync", "always")
	redisSays(t, s.Addr, "SET k v")
	s.Kill()
	if conn, err := net.Dial("tcp", s.Addr); err == nil {
		conn.Close()
		t.Error("a killed server answers")
	}
	if s.Pid() != 0 {
		t.Errorf("a killed server has process id %d", s.Pid())
	}
	s.Restart()
	if got := redisSays(t, s.Addr, "STRLEN k"); got != ":1" {
		t.Errorf("after the restart: %q", got)
	}
}

func redisSays(t *testing.T, addr, command string) string {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "%s\r\n", command)
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(line)
}

func TestPostgresTakesConnectionsAndComesBack(t *testing.T) {
	s := StartPostgres(t, "max_connections=7")
	if want := "postgres://postgres@" + s.Addr + "/postgres?sslmode=disable"; s.DSN != want {
		t.Errorf("DSN %q, want %q", s.DSN, want)
	}
	if got := postgresSays(t, s.Addr, "SHOW max_connections"); got != "7" {
		t.Errorf("max_connections %q, want 7", got)
	}
	postgresSays(t, s.Addr, "CREATE TABLE t AS SELECT 1 AS n")
	s.Kill()
	s.Restart()
	if got := postgresSays(t, s.Addr, "SELECT n FROM t"); got != "1" {
		t.Errorf("after the restart: %q", got)
	}
	s.Stop()
	s.Restart()
	postgresSays(t, s.Addr, "SELECT n FROM t")
}

// postgresSays speaks just enough of the protocol to run one statement and
// return the first column of its last row.
func postgresSays(t *testing.T, addr, statement string) (value string) {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	const hello = "\x00\x03\x00\x00user\x00postgres\x00database\x00postgres\x00\x00"
	conn.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(hello)+4)), hello...))
	in := bufio.NewReader(conn)
	for asked := false; ; {
		head := make([]byte, 5)
		if _, err := io.ReadFull(in, head); err != nil {
			t.Fatal(err)
		}
		body := make([]byte, binary.BigEndian.Uint32(head[1:])-4)
		if _, err := io.ReadFull(in, body); err != nil {
			t.Fatal(err)
		}
		switch {
		case head[0] == 'E':
			t.Fatalf("%s: %q", statement, body)
		case head[0] == 'D':
			value = string(body[6 : 6+binary.BigEndian.Uint32(body[2:])])
		case head[0] == 'Z' && asked:
			return value
		case head[0] == 'Z':
			asked = true
			q := binary.BigEndian.AppendUint32([]byte{'Q'}, uint32(len(statement)+5))
			conn.Write(append(append(q, statement...), 0))
		}
	}
}

func TestMariaDBGreetsAndComesBack(t *testing.T) {
	s := StartMariaDB(t, "innodb-lock-wait-timeout=7")
	if want := "root@tcp(" + s.Addr + ")/test"; s.DSN != want {
		t.Errorf("DSN %q, want %q", s.DSN, want)
	}
	s.Kill()
	if mariadbUp(s) {
		t.Error("a killed server greets")
	}
	s.Restart()
	if !mariadbUp(s) {
		t.Error("it does not greet after a restart")
	}
	s.Stop()
	s.Restart()
}

func TestValkeyIsValkey(t *testing.T) {
	s := StartValkey(t)
	conn, err := net.Dial("tcp", s.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "INFO server\r\nQUIT\r\n")
	if text, err := io.ReadAll(conn); err != nil || !strings.Contains(string(text), "server_name:valkey") {
		t.Errorf("%v: %s", err, text)
	}
}

func TestCleanupLeavesNoProcessAndNoFiles(t *testing.T) {
	var redis, postgres, mariadb *Server
	t.Run("servers", func(t *testing.T) {
		t.Run("redis", func(t *testing.T) { redis = StartRedis(t) })
		t.Run("postgres", func(t *testing.T) { postgres = StartPostgres(t) })
		t.Run("mariadb", func(t *testing.T) { mariadb = StartMariaDB(t) })
	})
	for _, s := range []*Server{redis, postgres, mariadb} {
		if s == nil {
			continue // skipped
		}
		if s.child != nil {
			t.Errorf("%s runs on", s.kind.name)
		}
		if _, err := os.Stat(s.dir); err == nil {
			t.Errorf("%s left %s", s.kind.name, s.dir)
		}
	}
}

// A witness is a test that remembers how it ended.
type witness struct {
	testing.TB
	skipped, failed string
	cleanups        []func()
}

func (w *witness) Helper() {}
func (w *witness) Skipf(format string, args ...any) {
	w.skipped = fmt.Sprintf(format, args...)
	panic(w)
}
func (w *witness) Fatalf(format string, args ...any) {
	w.failed = fmt.Sprintf(format, args...)
	panic(w)
}
func (w *witness) Cleanup(f func()) { w.cleanups = append(w.cleanups, f) }
func (w *witness) Failed() bool     { return w.failed != "" }
func (w *witness) Logf(string, ...any) {
}

// testify runs f as a test of its own would be run.
func testify(t *testing.T, f func(testing.TB)) *witness {
	w := &witness{TB: t}
	func() {
		defer func() {
			if r := recover(); r != nil && r != any(w) {
				panic(r)
			}
		}()
		f(w)
	}()
	for _, cleanup := range w.cleanups {
		cleanup()
	}
	return w
}

func TestMissingServerSkipsUnlessServersAreRequired(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	start := func(t testing.TB) { Redis(t) }

	t.Setenv(requireEnv, "")
	if w := testify(t, start); !strings.Contains(w.skipped, "redis-server is not installed") || w.failed != "" {
		t.Errorf("not required: skipped %q, failed %q", w.skipped, w.failed)
	}
	t.Setenv(requireEnv, "1")
	if w := testify(t, start); !strings.Contains(w.failed, "redis-server is not installed") || w.skipped != "" {
		t.Errorf("required: skipped %q, failed %q", w.skipped, w.failed)
	}
}

func TestServerThatEndsAtOnceFailsWithItsLog(t *testing.T) {
	if _, err := find("redis-server"); err != nil {
		Missing(t, "%v", err)
	}
	w := testify(t, func(t testing.TB) { Redis(t, "--no-such-option", "yes") })
	if !strings.Contains(w.failed, "it ended") || !strings.Contains(w.failed, "no-such-option") {
		t.Errorf("failed with %q, want the reason and the end of the log", w.failed)
	}
}

func TestFreePortsAreSeveral(t *testing.T) {
	seen := map[int]bool{}
	for _, port := range FreePorts(t, 100) {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil || seen[port] {
			t.Fatalf("port %d, seen before: %v, %v", port, seen[port], err)
		}
		defer l.Close()
		seen[port] = true
	}
}

func TestFindTakesTheHighestVersion(t *testing.T) {
	dir := t.TempDir()
	for _, version := range []string{"13", "15", "14"} {
		name := filepath.Join(dir, version, "gabion-no-such-server")
		os.MkdirAll(filepath.Dir(name), 0o755)
		os.WriteFile(name, nil, 0o755)
	}
	got, err := find("gabion-no-such-server", filepath.Join(dir, "*", "gabion-no-such-server"))
	if err != nil || filepath.Base(filepath.Dir(got)) != "15" {
		t.Errorf("find: %q, %v; want version 15", got, err)
	}
	if _, err := find("gabion-no-such-server"); err == nil {
		t.Error("found what is nowhere")
	}
}
