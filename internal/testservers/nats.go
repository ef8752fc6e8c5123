package testservers

import (
	"bufio"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"
)

// StartNATS starts the installed nats-server with JetStream. Debian 12 has 2.9, which is older than
// the one that tests have as a module.
func StartNATS(t testing.TB) *Server {
	t.Helper()
	program, err := find("nats-server", "/usr/sbin/nats-server")
	if err != nil {
		Missing(t, "nats-server is not installed")
	}
	argv := func(s *Server) []string {
		return []string{program, "-a", "127.0.0.1", "-p", fmt.Sprint(s.port), "-js", "-sd", s.dir, "-n", natsName(s)}
	}
	s := launch(&Server{t: t, dir: t.TempDir(), kind: kind{"nats", argv, natsUp, orderly}})
	s.DSN = "nats://" + s.Addr
	return s
}

// natsName tells the server from that of another test, which might have taken the port.
func natsName(s *Server) string {
	return "gabion-" + strings.ReplaceAll(strings.Trim(s.dir, "/"), "/", "-")
}

func natsUp(s *Server) bool {
	conn, err := net.DialTimeout("tcp", s.Addr, time.Second)
	if err != nil {
		return false
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(time.Second))
	info, err := bufio.NewReader(conn).ReadString('\n')
	return err == nil && strings.Contains(info, `"`+natsName(s)+`"`)
}
