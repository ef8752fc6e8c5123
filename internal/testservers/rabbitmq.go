package testservers

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// RabbitMQ starts a RabbitMQ broker for the test and returns the URL of its user guest, for
// AMQP 0-9-1. settings are further settings of the broker as Erlang terms, such as
// "{consumer_timeout, 5000}".
//
// A start takes some seconds of one processor, most of them to load Erlang's modules, so the
// tests of a package had better share a broker.
func RabbitMQ(t testing.TB, settings ...string) string {
	t.Helper()
	return StartRabbitMQ(t, settings...).DSN
}

// StartRabbitMQ is [RabbitMQ] for tests that stop the broker or kill it. What was confirmed
// in durable queues is there again when it restarts.
func StartRabbitMQ(t testing.TB, settings ...string) *Server {
	t.Helper()
	long(t, "RabbitMQ")
	r, err := findRabbitMQ(rabbitmqScripts)
	if err != nil {
		Missing(t, "%v", err)
	}
	who, err := unprivileged("rabbitmq", "nobody")
	if err != nil {
		Missing(t, "RabbitMQ does not have to run as root: %v", err)
	}
	s := &Server{t: t, dir: ownedDir(t, "rabbitmq", who), owner: who}
	if err := r.prepare(s); err != nil {
		t.Fatalf("testservers: RabbitMQ: %v", err)
	}
	s.kind = kind{"rabbitmq", func(s *Server) []string { return r.argv(s, settings) }, r.up, orderly}
	launch(s)
	s.DSN = "amqp://guest:guest@" + s.Addr + "/"
	return s
}

// A rabbitmq is the programs of a broker, and what one broker has beside its data.
type rabbitmq struct {
	server string // the script itself, not the one on PATH that only root may run on Debian
	epmd   string // Erlang's list of the nodes on this machine: the broker starts one unless there is one
	names  int    // the port of our epmd, which no other broker uses: it names the node too
	dist   int    // the port for other nodes, of which there are none
}

// rabbitmqScripts are where the script is, on Debian and with Homebrew.
var rabbitmqScripts = []string{
	"/usr/lib/rabbitmq/lib/rabbitmq_server-*/sbin/rabbitmq-server",
	"/usr/local/opt/rabbitmq/sbin/rabbitmq-server", "/opt/homebrew/opt/rabbitmq/sbin/rabbitmq-server",
}

func findRabbitMQ(scripts []string) (r *rabbitmq, err error) {
	r = new(rabbitmq)
	for _, pattern := range scripts {
		if names, _ := filepath.Glob(pattern); len(names) > 0 {
			r.server = names[len(names)-1]
		}
	}
	if r.server == "" {
		return nil, errors.New("rabbitmq-server is not installed")
	}
	r.epmd, err = find("epmd", "/usr/lib/erlang/erts-*/bin/epmd", "/opt/homebrew/opt/erlang/lib/erlang/erts-*/bin/epmd")
	if err != nil {
		return nil, fmt.Errorf("RabbitMQ: %w", err)
	}
	return r, nil
}

// prepare starts what the broker would leave behind and makes what it reads.
func (r *rabbitmq) prepare(s *Server) error {
	ports := FreePorts(s.t, 2)
	r.names, r.dist = ports[0], ports[1]
	cmd := exec.Command(r.epmd, "-port", fmt.Sprint(r.names), "-address", "127.0.0.1")
	cmd.Dir, cmd.SysProcAttr = s.dir, attributes(s.owner)
	epmd, err := spawn(cmd)
	if err != nil {
		return err
	}
	s.t.Cleanup(func() {
		epmd.cmd.Process.Kill()
		<-epmd.gone
	})
	return r.corePlugins(filepath.Join(s.dir, "plugins"))
}

// corePlugins makes a directory with what the broker itself consists of. In its own there are
// forty plugins, none of which is enabled, and to look through them all takes it two seconds.
func (r *rabbitmq) corePlugins(dir string) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	all, err := filepath.Glob(filepath.Join(filepath.Dir(r.server), "..", "plugins", "*-*"))
	if err != nil {
		return err
	}
	for _, from := range all {
		name, _, _ := strings.Cut(filepath.Base(from), "-")
		if strings.HasPrefix(name, "rabbitmq_") && name != "rabbitmq_prelaunch" {
			continue
		}
		if err := os.Symlink(from, filepath.Join(dir, filepath.Base(from))); err != nil {
			return err
		}
	}
	return nil
}

// argv clears the environment, in which settings of the machine's own broker may be. The
// script takes the one that means systemd as leave to become the broker instead of its parent.
func (r *rabbitmq) argv(s *Server, settings []string) []string {
	file := func(name string) string { return filepath.Join(s.dir, name) }
	listen := fmt.Sprintf(`{tcp_listeners, [{"127.0.0.1", %d}]}`, s.port)
	// What a queue passes on at least once, and whose target did not confirm, because its leader
	// was not there yet after a restart, it sends again after three minutes unless this says otherwise.
	again := "{dead_letter_worker_publisher_confirm_timeout, 2000}"
	config := fmt.Sprintf("[{rabbit, [%s]}, {kernel, [{inet_dist_use_interface, {127,0,0,1}}]}].\n",
		strings.Join(append([]string{listen, again}, settings...), ", "))
	if err := os.WriteFile(file("advanced.config"), []byte(config), 0o644); err != nil {
		s.t.Fatalf("testservers: %v", err)
	}
	if err := os.WriteFile(file("enabled_plugins"), []byte("[].\n"), 0o644); err != nil {
		s.t.Fatalf("testservers: %v", err)
	}
	return []string{
		"env", "-i", "PATH=" + os.Getenv("PATH"), "HOME=" + s.dir, "LANG=C.UTF-8", "RUNNING_UNDER_SYSTEMD=true",
		"RABBITMQ_NODENAME=" + r.node(), "RABBITMQ_PID_FILE=" + file("pid"),
		"RABBITMQ_BASE=" + s.dir, "RABBITMQ_MNESIA_BASE=" + s.data(), "RABBITMQ_LOG_BASE=" + file("logs"), "RABBITMQ_LOGS=-",
		"RABBITMQ_CONFIG_FILE=" + file("none"), "RABBITMQ_CONFIG_FILES=" + file("none.d"), "RABBITMQ_CONF_ENV_FILE=" + file("none"),
		"RABBITMQ_ADVANCED_CONFIG_FILE=" + file("advanced.config"), "RABBITMQ_ENABLED_PLUGINS_FILE=" + file("enabled_plugins"),
		"RABBITMQ_PLUGINS_DIR=" + file("plugins"), fmt.Sprint("RABBITMQ_DIST_PORT=", r.dist),
		fmt.Sprint("ERL_EPMD_PORT=", r.names), "ERL_EPMD_ADDRESS=127.0.0.1",
		r.server,
	}
}

func (r *rabbitmq) node() string { return fmt.Sprintf("gabion-%d@localhost", r.names) }

// up reports whether the broker greets and is ours: its greeting names the cluster after the node.
func (r *rabbitmq) up(s *Server) bool {
	conn, err := net.DialTimeout("tcp", s.Addr, time.Second)
	if err != nil {
		return false
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(time.Second))
	fmt.Fprint(conn, "AMQP\x00\x00\x09\x01")
	head := make([]byte, 7) // type, channel, size
	if _, err := io.ReadFull(conn, head); err != nil {
		return false
	}
	body := make([]byte, min(binary.BigEndian.Uint32(head[3:]), 64<<10))
	io.ReadFull(conn, body)
	name, _, _ := strings.Cut(r.node(), "@")
	return strings.Contains(string(body), name)
}
