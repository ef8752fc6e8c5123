package testservers

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// MariaDB starts a MariaDB server, or a MySQL server where MariaDB is missing, for the test and
// returns the data source name of its user root, who needs no password, for the database
// "test", in the form of github.com/go-sql-driver/mysql. settings are further settings, such
// as "innodb_lock_wait_timeout=1".
//
// Without settings it does not sync what it commits, which makes tests fast and is no less
// safe when the process is killed; only a power cut would lose data. A test that measures writes, or
// asks how durable they are, turns it on: "innodb_flush_log_at_trx_commit=1".
func MariaDB(t testing.TB, settings ...string) string {
	t.Helper()
	return StartMariaDB(t, settings...).DSN
}

// StartMariaDB is [MariaDB] for tests that stop the server or kill it.
func StartMariaDB(t testing.TB, settings ...string) *Server {
	t.Helper()
	long(t, "MariaDB")
	m, err := findMariaDB()
	if err != nil {
		Missing(t, "%v", err)
	}
	who, err := unprivileged("mysql", "nobody")
	if err != nil {
		Missing(t, "MariaDB refuses to run as root: %v", err)
	}
	s := &Server{t: t, dir: ownedDir(t, "mariadb", who), owner: who}
	s.kind = kind{"mariadb", m.argv(settings), mariadbUp, syscall.SIGTERM}
	if out, err := s.installed(func() ([]byte, error) { return m.install(s) }, m.server, m.installer); err != nil {
		t.Fatalf("testservers: %s does not make a data directory: %v\n%s", m.server, err, out)
	}
	launch(s)
	s.DSN = "root@tcp(" + s.Addr + ")/test"
	return s
}

// A mariadb is the programs of a MariaDB or MySQL server.
type mariadb struct {
	server    string
	installer string // which makes a data directory; empty where the server itself does
}

// mysqldEnv names MySQL's server, by its path, to be tested instead of MariaDB's.
const mysqldEnv = "GABION_MYSQLD"

func findMariaDB() (m mariadb, err error) {
	if m.server = os.Getenv(mysqldEnv); m.server != "" {
		return m, nil
	}
	if m.server, err = find("mariadbd", "/usr/sbin/mariadbd", "/opt/homebrew/opt/mariadb*/bin/mariadbd"); err == nil {
		m.installer, err = find("mariadb-install-db", "/usr/bin/mariadb-install-db", "/opt/homebrew/opt/mariadb*/bin/mariadb-install-db")
		return m, err
	}
	if m.server, err = find("mysqld", "/usr/sbin/mysqld", "/opt/homebrew/opt/mysql*/bin/mysqld"); err != nil {
		return m, errors.New("neither MariaDB nor MySQL is installed")
	}
	return m, nil
}

// accounts are MySQL's own: its root may come from "localhost" alone, which is not what it
// calls 127.0.0.1 when it does not resolve names.
const accounts = `CREATE DATABASE test;
CREATE USER root@'127.0.0.1';
GRANT ALL ON *.* TO root@'127.0.0.1' WITH GRANT OPTION;
`

func (m mariadb) install(s *Server) (out []byte, err error) {
	cmd := exec.Command(m.installer, "--no-defaults", "--datadir="+s.data(), "--auth-root-authentication-method=normal", "--skip-name-resolve")
	if m.installer == "" {
		first := filepath.Join(s.dir, "accounts.sql")
		if err := os.WriteFile(first, []byte(accounts), 0o644); err != nil {
			return nil, err
		}
		cmd = exec.Command(m.server, "--no-defaults", "--initialize-insecure", "--datadir="+s.data(), "--init-file="+first)
	}
	cmd.Dir = s.dir
	cmd.Env = append(os.Environ(), "TMPDIR="+s.dir) // a server that starts removes others' temporary tables from there
	cmd.SysProcAttr = attributes(s.owner)
	return cmd.CombinedOutput()
}

func (m mariadb) argv(settings []string) func(*Server) []string {
	return func(s *Server) []string {
		argv := []string{
			m.server, "--no-defaults", "--datadir=" + s.data(), "--port=" + fmt.Sprint(s.port), "--bind-address=127.0.0.1",
			"--pid-file=" + s.pidFile(), "--tmpdir=" + s.dir, "--socket=server.sock", // within the data directory: a path of a socket must be short
			"--skip-name-resolve", "--performance-schema=OFF", "--innodb-flush-log-at-trx-commit=0", "--innodb-buffer-pool-size=64M",
		}
		for _, setting := range settings {
			argv = append(argv, "--"+setting)
		}
		return argv
	}
}

func (s *Server) pidFile() string { return filepath.Join(s.dir, "mariadb.pid") }

// mariadbUp reports whether the server has written its own id and greets a client.
func mariadbUp(s *Server) bool {
	text, err := os.ReadFile(s.pidFile())
	if err != nil || strings.TrimSpace(string(text)) != fmt.Sprint(s.Pid()) {
		return false
	}
	conn, err := net.DialTimeout("tcp", s.Addr, time.Second)
	if err != nil {
		return false
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(time.Second))
	greeting := make([]byte, 64)
	n, err := conn.Read(greeting)
	const protocol = 10
	return err == nil && n > 5 && greeting[4] == protocol
}
