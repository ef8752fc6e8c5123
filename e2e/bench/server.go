package bench

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// serverEnv makes a program that calls ServeIfChild the server.
const serverEnv = "GABION_BENCH_SERVER"

// ServeIfChild turns the process into the server of the HTTP contests if that is
// what it was started as. The server is a process of its own so that its
// allocations are not the clients'.
func ServeIfChild() {
	if os.Getenv(serverEnv) == "" {
		return
	}
	if err := serve(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// serve answers until its parent is gone.
func serve() error {
	var served atomic.Int64
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		served.Add(1)
		w.Header().Set("Content-Type", "text/plain")
		_, _ = io.WriteString(w, hello)
	})
	mux.HandleFunc("GET /served", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, served.Load())
	})
	stop, err := serveRPCs(mux)
	if err != nil {
		return err
	}
	defer stop()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Printf("http://%s/\n", l.Addr())
	s := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		_ = s.Close()
	}()
	if err := s.Serve(l); err != http.ErrServerClosed {
		return err
	}
	return nil
}

// child is the server seen from its parent. It ends when its standard input does,
// and that ends with the parent, however the parent ends.
type child struct {
	url   string
	stdin io.Closer
}

var server = sync.OnceValues(func() (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), serverEnv+"=1")
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	url, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		return nil, fmt.Errorf("the server did not say where it is: %w", err)
	}
	return &child{strings.TrimSpace(url), stdin}, nil
})

// served asks how many requests there were.
func (c *child) served(t testing.TB) int { return c.number(t, "served") }

func (c *child) number(t testing.TB, path string) int {
	n, err := strconv.Atoi(c.text(t, path))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func (c *child) text(t testing.TB, path string) string {
	resp, err := http.Get(c.url + path)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	return strings.TrimSpace(string(text))
}
