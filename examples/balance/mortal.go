package main

import (
	"bufio"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// childEnv makes this program a server: its address, a blank and its database.
const childEnv = "GABION_BALANCE_SERVER"

// serveIfChild does not return in a server.
func serveIfChild() {
	addr, where, child := strings.Cut(os.Getenv(childEnv), " ")
	if !child {
		return
	}
	fmt.Fprintln(os.Stderr, "server:", serve(where, addr))
	os.Exit(1)
}

// A server is killed after it has answered up to most requests, and a moment later, in the
// middle of others. It is not killed by time alone: on a busy machine it might then never
// answer.
const (
	most   = 8
	moment = 2 * work
)

// A mortal is a server that is killed and started again until it is stopped.
type mortal struct {
	addr, where string
	draw        *rand.Rand
	quit        chan struct{}
	lives       sync.WaitGroup
	kills       int   // read after lives
	err         error // read after lives
}

func startMortal(where string, draw *rand.Rand) (*mortal, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0") // to find a free port
	if err != nil {
		return nil, err
	}
	m := &mortal{addr: l.Addr().String(), where: where, draw: draw, quit: make(chan struct{})}
	if err := l.Close(); err != nil {
		return nil, err
	}
	m.lives.Go(m.live)
	return m, nil
}

func (m *mortal) url() string { return "http://" + m.addr + "/balance" }

// stop ends the server and returns how often it was killed before.
func (m *mortal) stop() (kills int, err error) {
	close(m.quit)
	m.lives.Wait()
	return m.kills, m.err
}

func (m *mortal) live() {
	for {
		stopped, err := m.once(1+m.draw.IntN(most), time.Duration(m.draw.Int64N(int64(moment))))
		if stopped || err != nil {
			m.err = err
			return
		}
		m.kills++
	}
}

// once runs the server once: until it has answered some requests, and for a while after that.
// The server can do nothing when it is killed.
func (m *mortal) once(answers int, after time.Duration) (stopped bool, err error) {
	self, err := os.Executable()
	if err != nil {
		return false, err
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), childEnv+"="+m.addr+" "+m.where)
	cmd.Stderr = os.Stderr
	alive, err := cmd.StdinPipe() // it ends when this process ends
	if err != nil {
		return false, err
	}
	defer func() { _ = alive.Close() }()
	out, err := cmd.StdoutPipe()
	if err != nil {
		return false, err
	}
	if err := cmd.Start(); err != nil {
		return false, err
	}
	said := bufio.NewScanner(out)
	ready := said.Scan()
	if ready {
		enough := make(chan struct{})
		go func() {
			for range answers {
				said.Scan()
			}
			close(enough)
		}()
		select {
		case <-enough:
			time.Sleep(after)
		case <-m.quit:
			stopped = true
		}
	}
	err = cmd.Process.Kill()
	_ = cmd.Wait() // its error only says that it was killed
	if !ready {
		err = errors.New("the server does not start")
	}
	return stopped, err
}

// listen waits for the port: the killed process may still hold it.
func listen(addr string) (l net.Listener, err error) {
	for range 100 {
		if l, err = net.Listen("tcp", addr); err == nil {
			return l, nil
		}
		time.Sleep(20 * time.Millisecond)
	}
	return nil, err
}
