package stream

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/gabion-go/gabion/e2e/messages/mortal"
	"github.com/gabion-go/gabion/internal/testservers"
)

// A node is a server in a process of its own, which can be killed.
type node struct {
	Name   string
	Dir    string
	Port   int
	Route  int   // zero outside of clusters
	Routes []int // of the others

	t     testing.TB
	child *mortal.Child // nil while it is down
}

const nodeVar = "STREAM_NODE"

// serve is what a child that is a server does.
func serve(ctx context.Context) error {
	var n node
	if err := json.Unmarshal([]byte(os.Getenv(nodeVar)), &n); err != nil {
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
	<-ctx.Done()
	return nil
}

func (n *node) start() error {
	text, err := json.Marshal(n)
	if err != nil {
		return err
	}
	var told mortal.Told
	n.child = mortal.Start(n.t, mortal.Birth{Role: "node", Said: &told, Env: []string{nodeVar + "=" + string(text)}})
	for told.Count("ready") == 0 {
		select {
		case <-n.child.Ended:
			return fmt.Errorf("server %s does not start: %s", n.Name, &n.child.Trouble)
		case <-time.After(5 * time.Millisecond):
		}
	}
	return nil
}

func (n *node) kill() {
	if n.child != nil {
		n.child.Kill()
	}
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
		n := &node{Name: fmt.Sprint("n", i), Dir: t.TempDir(), Port: ports[i], t: t}
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

const patience = mortal.Patience
