package crash

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

// A process is a server that runs, or did.
type process struct {
	cmd   *exec.Cmd
	url   string
	alive io.Closer     // the other end of its input: it ends when this does
	gone  chan struct{} // closed when it has ended
	log   tail
}

// startLimit is for a busy machine; a server is up in a tenth of a second.
const startLimit = time.Minute

// launch starts a server and waits until it listens. The command before it, if
// any, runs it: a tracer, say.
func launch(c settings, before ...string) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	argv := append(before, cmp.Or(c.exe, self))
	p := &process{cmd: exec.Command(argv[0], argv[1:]...), gone: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), settingsEnv+"="+string(text), c.env)
	p.cmd.Stderr = &p.log
	p.cmd.WaitDelay = time.Second // what a tracer started may hold our pipes
	p.cmd.SysProcAttr = dieWithParent()
	if p.alive, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.start(); err != nil {
		return nil, err
	}
	return p, p.await(out)
}

// start starts the process from a thread that lives as long as it does: where the
// system can end children with their parent, it means the parent's thread.
func (p *process) start() error {
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.cmd.Start()
		started <- err
		if err == nil {
			p.cmd.Wait()
			close(p.gone)
		}
	}()
	return <-started
}

func (p *process) await(out io.Reader) error {
	timer := time.AfterFunc(startLimit, p.kill)
	defer timer.Stop()
	addr, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		p.kill()
		return fmt.Errorf("the server does not start: %w\n%s", err, p.log.String())
	}
	p.url = "http://" + strings.TrimSpace(addr)
	return nil
}

// kill ends the process with SIGKILL and returns when it is gone.
func (p *process) kill() {
	killAll(p.cmd.Process.Pid)
	<-p.gone
	p.alive.Close()
}

// died waits until the process has ended by itself.
func (p *process) died(limit time.Duration) bool {
	select {
	case <-p.gone:
		p.alive.Close()
		return true
	case <-time.After(limit):
		return false
	}
}

func (p *process) signal(s syscall.Signal) error { return p.cmd.Process.Signal(s) }

// A tail keeps the end of what is written to it.
type tail struct {
	mu   sync.Mutex // guards text
	text []byte
}

// Write implements io.Writer.
func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, b...)
	if over := len(t.text) - 8<<10; over > 0 {
		t.text = append(t.text[:0], t.text[over:]...)
	}
	return len(b), nil
}

// String returns it.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.text)
}
