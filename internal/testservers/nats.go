package testservers

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"strconv"
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

// ownNATS is the word by which a test's binary knows that it is to be a server.
const ownNATS = "gabion-test-nats"

// StartOwnNATS starts the test's own binary, in which TestMain serves NATS as [OwnNATS] says. So it is of
// the version that tests have as a module, and a process that can be killed.
func StartOwnNATS(t testing.TB) *Server {
	t.Helper()
	long(t, "NATS")
	argv := func(s *Server) []string {
		return []string{os.Args[0], ownNATS, fmt.Sprint(s.port), s.dir, natsName(s)}
	}
	s := launch(&Server{t: t, dir: t.TempDir(), kind: kind{"nats", argv, natsUp, orderly}})
	s.DSN = "nats://" + s.Addr
	return s
}

// OwnNATS returns the port, the folder for data and the name of the server that this process is to be.
// If is is false, it is a test as usual.
func OwnNATS() (port int, dir, name string, is bool) {
	if len(os.Args) != 5 || os.Args[1] != ownNATS {
		return 0, "", "", false
	}
	port, err := strconv.Atoi(os.Args[2])
	return port, os.Args[3], os.Args[4], err == nil
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
