package stream

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/gabion-go/gabion/internal/testservers"
)

// A node is a server in a process of its own, which can be killed.
type node struct {
	Name   string
	Dir    string
	Port   int
	Route  int   // zero outside of clusters
	Routes []int // of the others

	cmd *exec.Cmd // nil while it is down
	in  io.Closer // the child ends when this does
}

const nodeVar = "STREAM_NODE"

// serve is what a child that is a server does.
func serve(text string) error {
	var n node
	if err := json.Unmarshal([]byte(text), &n); err != nil {
		return err
	}
	o := &server.Options{ServerName: n.Name, Host: "127.0.0.1", Port: n.Port, JetStream: true, StoreDir: n.Dir, SyncAlways: true, NoSigs: true, NoLog: true}
	if n.Route > 0 {
		o.Cluster = server.ClusterOpts{Name: "c", Host: "127.0.0.1", Port: n.Route}
		var urls []string
		for _, port := range n.Routes {
			urls = append(urls, fmt.Sprintf("nats://127.0.0.1:%d", port))
		}
		o.Routes = server.RoutesFromStr(strings.Join(urls, ","))
	}
	s, err := server.NewServer(o)
	if err != nil {
		return err
	}
	s.Start()
	if !s.ReadyForConnections(patience) {
		return fmt.Errorf("server %s is not ready", n.Name)
	}
	fmt.Println("ready")
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

func (n *node) start() error {
	text, err := json.Marshal(n)
	if err != nil {
		return err
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), nodeVar+"="+string(text))
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	n.cmd, n.in = cmd, in
	if line, _ := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		n.kill()
		return fmt.Errorf("server %s does not start: %s", n.Name, line)
	}
	return nil
}

func (n *node) kill() {
	if n.cmd == nil {
		return
	}
	_ = n.cmd.Process.Kill()
	_ = n.in.Close()
	_ = n.cmd.Wait()
	n.cmd = nil
}

// startNodes starts one server, or three that are a cluster.
func startNodes(t testing.TB, many int) (nodes []*node, urls string) {
	t.Helper()
	var err error
	for range 5 { // another process may take a port first
		if nodes, urls, err = tryNodes(t, testservers.FreePorts(t, 2*many)); err == nil {
			return nodes, urls
		}
	}
	t.Fatal(err)
	return nil, ""
}

func tryNodes(t testing.TB, ports []int) (nodes []*node, urls string, err error) {
	many := len(ports) / 2
	var all []string
	for i := range many {
		n := &node{Name: fmt.Sprint("n", i), Dir: t.TempDir(), Port: ports[i]}
		if many > 1 {
			n.Route, n.Routes = ports[many+i], ports[many:]
		}
		t.Cleanup(n.kill)
		if err == nil {
			err = n.start()
		}
		nodes = append(nodes, n)
		all = append(all, fmt.Sprintf("nats://127.0.0.1:%d", n.Port))
	}
	if err != nil {
		for _, n := range nodes {
			n.kill()
		}
	}
	return nodes, strings.Join(all, ","), err
}

// patience is how long a test waits for what a machine that works would bring.
const patience = time.Minute
