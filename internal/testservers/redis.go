package testservers

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
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

// RedisCluster starts masters that share the slots and know each other, and returns their addresses.
func RedisCluster(t testing.TB, masters int, args ...string) (addrs []string) {
	t.Helper()
	const slots = 16384
	for n := range masters {
		bus := FreePorts(t, 1)[0]
		addr := Redis(t, append([]string{"--cluster-enabled", "yes", "--cluster-port", fmt.Sprint(bus)}, args...)...)
		askRedis(t, addr, fmt.Sprintf("CLUSTER ADDSLOTSRANGE %d %d", n*slots/masters, (n+1)*slots/masters-1))
		if n > 0 {
			host, port, _ := net.SplitHostPort(addr)
			askRedis(t, addrs[0], fmt.Sprintf("CLUSTER MEET %s %s %d", host, port, bus))
		}
		addrs = append(addrs, addr)
	}
	for _, addr := range addrs {
		info := ""
		for limit := time.Now().Add(time.Minute); !strings.Contains(info, "cluster_state:ok") || !strings.Contains(info, fmt.Sprint("cluster_size:", masters)); <-time.After(20 * time.Millisecond) {
			if time.Now().After(limit) {
				t.Fatalf("the cluster does not form: %s", info)
			}
			info = askRedis(t, addr, "CLUSTER INFO")
		}
	}
	return addrs
}

// askRedis sends a command and returns the answer: a line, or a text.
func askRedis(t testing.TB, addr, command string) string {
	t.Helper()
	conn, err := net.DialTimeout("tcp", addr, 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	fmt.Fprintf(conn, "%s\r\n", command)
	in := bufio.NewReader(conn)
	answer, err := in.ReadString('\n')
	if size, is := strings.CutPrefix(answer, "$"); is && err == nil {
		n, _ := strconv.Atoi(strings.TrimSpace(size))
		text := make([]byte, n)
		_, err = io.ReadFull(in, text)
		answer = string(text)
	}
	if err != nil || strings.HasPrefix(answer, "-") {
		t.Fatalf("%s: %s %v", command, answer, err)
	}
	return answer
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
