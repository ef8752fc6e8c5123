package testnats

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/gabion-go/gabion/internal/testservers"
)

// A Node is a server in a process of its own, which can be killed. TestMain has to call [Main].
type Node struct {
	Settings
	cmd *exec.Cmd // nil while it is down
	in  io.Closer // the child ends when this does, so it can't outlive the tests
}

// Start starts the server.
func (n *Node) Start(t testing.TB) {
	t.Helper()
	if err := n.launch(); err != nil {
		t.Fatal(err)
	}
}

func (n *Node) launch() error {
	text, err := json.Marshal(n.Settings)
	if err != nil {
		return err
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), settingsVar+"="+string(text))
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
		n.Kill()
		return fmt.Errorf("server %s does not start: %s", n.Name, line)
	}
	return nil
}

// Kill kills the server, if it runs.
func (n *Node) Kill() {
	if n.cmd == nil {
		return
	}
	_ = n.cmd.Process.Kill()
	_ = n.in.Close()
	_ = n.cmd.Wait()
	n.cmd = nil
}

// Cluster starts three servers and returns them with their URLs.
func Cluster(t testing.TB, lazy bool) (nodes []*Node, urls string) {
	t.Helper()
	var err error
	for range 5 { // another process may take a port first
		ports := testservers.FreePorts(t, 6)
		if nodes, urls, err = tryCluster(t, lazy, ports[:3], ports[3:]); err == nil {
			return nodes, urls
		}
	}
	t.Fatal(err)
	return nil, ""
}

func tryCluster(t testing.TB, lazy bool, routes, ports []int) (nodes []*Node, urls string, err error) {
	var all []string
	for i, port := range ports {
		n := &Node{Settings: Settings{Name: fmt.Sprintf("n%d", i), Dir: t.TempDir(), Port: port, Cluster: routes[i], Routes: routes, Lazy: lazy}}
		t.Cleanup(n.Kill)
		if err == nil {
			err = n.launch()
		}
		nodes = append(nodes, n)
		all = append(all, fmt.Sprintf("nats://127.0.0.1:%d", port))
	}
	if err != nil {
		for _, n := range nodes {
			n.Kill()
		}
	}
	return nodes, strings.Join(all, ","), err
}
