package proxy

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gabion-go/gabion/internal/testservers"
)

func TestMain(m *testing.M) {
	if role := os.Getenv(roleEnv); role != "" {
		os.Exit(roles[role](os.Args[1:]))
	}
	os.Exit(m.Run())
}

// roleEnv makes this test binary a program that a test starts and kills.
const roleEnv = "GABION_E2E_PROXY_ROLE"

// gabion is the command, built once.
var gabion = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "gabion-e2e-proxy")
	if err != nil {
		return "", err
	}
	command := filepath.Join(dir, "gabion")
	build := exec.Command("go", "build", "-o", command, "github.com/gabion-go/gabion/cmd/gabion")
	build.Env = append(os.Environ(), "CGO_ENABLED=0") // as a release: it runs where nothing else is
	out, err := build.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	return command, nil
})

// process is a child that may be killed and started again.
type process struct {
	t    *testing.T
	argv []string
	env  []string
	addr string // where it listens, if it does

	mu  sync.Mutex // guards cmd and end
	cmd *exec.Cmd
	end chan struct{}
}

// run starts a child and waits until it listens.
func run(t *testing.T, addr string, env []string, argv ...string) *process {
	t.Helper()
	p := &process{t: t, argv: argv, env: env, addr: addr}
	p.start()
	t.Cleanup(p.kill)
	return p
}

func (p *process) start() {
	p.t.Helper()
	cmd := exec.Command(p.argv[0], p.argv[1:]...)
	cmd.Env = append(os.Environ(), p.env...)
	log, err := os.CreateTemp(p.t.TempDir(), "log")
	if err != nil {
		p.t.Error(err)
		return
	}
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = dieWithParent()
	started, end := make(chan error), make(chan struct{})
	go func() { // the system knows a child's parent by its thread
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait()
		}
		close(end)
	}()
	if err := <-started; err != nil {
		p.t.Error(err)
		return
	}
	p.mu.Lock()
	p.cmd, p.end = cmd, end
	p.mu.Unlock()
	for until := time.Now().Add(30 * time.Second); p.addr != ""; time.Sleep(5 * time.Millisecond) {
		conn, err := net.Dial("tcp", p.addr)
		if err == nil {
			conn.Close()
			return
		}
		select {
		case <-end:
			said, _ := os.ReadFile(log.Name())
			p.t.Errorf("%s ended: %s", p.argv[0], said)
			return
		default:
		}
		if time.Now().After(until) {
			said, _ := os.ReadFile(log.Name())
			p.t.Errorf("%s does not listen at %s: %s", p.argv[0], p.addr, said)
			return
		}
	}
}

// kill ends it with SIGKILL and returns when it is gone.
func (p *process) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = p.cmd.Process.Kill()
	<-p.end
}

// stop ends it with SIGTERM and returns its exit code. It must not take longer than the limit.
func (p *process) stop(limit time.Duration) int {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		p.t.Error(err)
	}
	select {
	case <-p.end:
	case <-time.After(limit):
		p.t.Errorf("%s did not end within %v of SIGTERM", p.argv[0], limit)
		_ = p.cmd.Process.Kill()
		<-p.end
	}
	return p.cmd.ProcessState.ExitCode()
}

// proxied starts gabion proxy with a file, whose first listener is at addr.
func proxied(t *testing.T, addr, text string) *process {
	t.Helper()
	command, err := gabion()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "gabion.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return run(t, addr, nil, command, "proxy", file)
}

// addresses returns loopback addresses where nothing listens.
func addresses(t *testing.T, n int) (all []string) {
	t.Helper()
	for _, port := range testservers.FreePorts(t, n) {
		all = append(all, fmt.Sprintf("127.0.0.1:%d", port))
	}
	return all
}

// long skips tests that take more than two seconds.
func long(t *testing.T, why string) {
	t.Helper()
	if testing.Short() {
		t.Skip("long: " + why)
	}
}

// during returns a context for a part of a test.
func during(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
