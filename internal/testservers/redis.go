package testservers

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"
)

// Redis starts a Redis (or Valkey) server for the test and returns its address.
// args are further options, such as "--appendonly", "yes". Without any, it keeps
// nothing on disk.
func Redis(t testing.TB, args ...string) string {
	t.Helper()
	return StartRedis(t, args...).Addr
}

// StartRedis is [Redis] for tests that stop the server or kill it.
func StartRedis(t testing.TB, args ...string) *Server {
	t.Helper()
	long(t, "Redis")
	program, err := find("redis-server")
	if err != nil {
		if program, err = find("valkey-server"); err != nil {
			Missing(t, "redis-server is not installed")
		}
	}
	return startRedis(t, program, args)
}

// noValkey is set where the system's release has no Valkey, as older ones do.
const noValkey = "GABION_WITHOUT_VALKEY"

// StartValkey is [StartRedis] with Valkey, which [noValkey] may say is not to be had.
func StartValkey(t testing.TB, args ...string) *Server {
	t.Helper()
	long(t, "Valkey")
	program, err := find("valkey-server")
	if err != nil {
		if os.Getenv(noValkey) != "" {
			t.Skipf("%v, and %s is set", err, noValkey)
		}
		Missing(t, "valkey-server is not installed")
	}
	return startRedis(t, program, args)
}

func startRedis(t testing.TB, program string, args []string) *Server {
	t.Helper()
	argv := func(s *Server) []string {
		return append([]string{
			program, "--bind", "127.0.0.1", "--port", fmt.Sprint(s.port), "--dir", s.dir,
			"--daemonize", "no", "--save", "", "--appendonly", "no",
		}, args...)
	}
	return launch(&Server{t: t, dir: t.TempDir(), kind: kind{"redis", argv, redisUp, orderly}})
}

// redisUp reports whether the server answers and is ours: another test's might
// have taken the port.
func redisUp(s *Server) bool {
	conn, err := net.DialTimeout("tcp", s.Addr, time.Second)
	if err != nil {
		return false
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(time.Second))
	fmt.Fprintf(conn, "INFO server\r\nPING\r\n")
	mine := fmt.Sprintf("process_id:%d", s.Pid())
	found := false
	for lines := bufio.NewScanner(conn); lines.Scan(); {
		switch line := strings.TrimSpace(lines.Text()); {
		case line == mine:
			found = true
		case line == "+PONG", strings.HasPrefix(line, "-"): // an error while it still loads
			return found && line == "+PONG"
		}
	}
	return false
}
