package testservers

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// Postgres starts a PostgreSQL server for the test and returns the connection
// string of its superuser, who needs no password. settings are further settings,
// such as "max_connections=20".
//
// Without settings it leaves fsync off, which makes tests fast and is no less safe when the process is
// killed; only a power cut would lose data. A test that measures writes turns it on: "fsync=on".
func Postgres(t testing.TB, settings ...string) string {
	t.Helper()
	return StartPostgres(t, settings...).DSN
}

// StartPostgres is [Postgres] for tests that stop the server or kill it.
func StartPostgres(t testing.TB, settings ...string) *Server {
	t.Helper()
	long(t, "PostgreSQL")
	bin, err := postgresBin()
	if err != nil {
		Missing(t, "%v", err)
	}
	who, err := unprivileged("postgres", "nobody")
	if err != nil {
		Missing(t, "PostgreSQL refuses to run as root: %v", err)
	}
	s := &Server{t: t, dir: ownedDir(t, "postgres", who), owner: who}
	s.kind = kind{"postgres", postgresArgv(filepath.Join(bin, "postgres"), settings), postgresUp, syscall.SIGINT} // SIGINT: disconnects clients
	initdb := filepath.Join(bin, "initdb")
	if out, err := s.installed(func() ([]byte, error) { return s.initdb(initdb) }, initdb); err != nil {
		t.Fatalf("testservers: initdb: %v\n%s", err, out)
	}
	launch(s)
	s.DSN = "postgres://postgres@" + s.Addr + "/postgres?sslmode=disable"
	return s
}

// postgresBin finds the directory of the server's programs. Debian and others
// keep it off PATH.
func postgresBin() (string, error) {
	name, err := find("postgres",
		"/usr/lib/postgresql/*/bin/postgres", "/usr/pgsql-*/bin/postgres",
		"/usr/local/pgsql/bin/postgres", "/opt/homebrew/opt/postgresql*/bin/postgres")
	if err != nil {
		return "", fmt.Errorf("PostgreSQL: %w", err)
	}
	if name, err = filepath.EvalSymlinks(name); err != nil {
		return "", err
	}
	return filepath.Dir(name), nil
}

// ownedDir makes a directory that the server's user can reach: t.TempDir is for
// the test's user alone.
func ownedDir(t testing.TB, server string, who *owner) string {
	t.Helper()
	if who == nil {
		return t.TempDir()
	}
	dir, err := os.MkdirTemp("", "gabion-"+server+"-")
	if err == nil {
		t.Cleanup(func() { os.RemoveAll(dir) })
		err = os.Chown(dir, who.uid, who.gid)
	}
	if err != nil {
		t.Fatalf("testservers: %v", err)
	}
	return dir
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

func (s *Server) initdb(program string) (out []byte, err error) {
	cmd := exec.Command(program, "-D", s.data(), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
	cmd.Dir = s.dir
	cmd.SysProcAttr = attributes(s.owner)
	return cmd.CombinedOutput()
}

func postgresArgv(program string, settings []string) func(*Server) []string {
	return func(s *Server) []string {
		argv := []string{
			program, "-D", s.data(), "-p", fmt.Sprint(s.port),
			"-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=",
			"-c", "fsync=off",
		}
		for _, setting := range settings {
			argv = append(argv, "-c", setting)
		}
		return argv
	}
}

// postgresUp reads the file in which the server says how it is, which names the
// process too. The first line is its id, the last one its state.
func postgresUp(s *Server) bool {
	text, err := os.ReadFile(filepath.Join(s.data(), "postmaster.pid"))
	if err != nil {
		return false
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return lines[0] == fmt.Sprint(s.Pid()) && strings.TrimSpace(lines[len(lines)-1]) == "ready"
}
