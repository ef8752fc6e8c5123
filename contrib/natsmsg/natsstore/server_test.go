package natsstore

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/internal/testservers"
)

// soak asks for the larger sizes.
var soak = os.Getenv("GABION_SOAK") == "1"

// patience is how long a test waits for what a machine that works would bring.
const patience = time.Minute

// settings is what the tests vary of a server.
type settings struct {
	Name       string
	Dir        string
	Port       int // zero means a free one
	Lazy       bool
	MaxPayload int32
	Cluster    int   // port of its routes, zero outside of clusters
	Routes     []int // of the others
	Domain     string
	System     bool // with accounts app and sys, users of the same names
}

func (s settings) options() *server.Options {
	o := &server.Options{
		ServerName: s.Name, Host: "127.0.0.1", Port: -1, JetStream: true, StoreDir: s.Dir,
		SyncAlways: !s.Lazy, SyncInterval: time.Minute, NoSigs: true, NoLog: true, MaxPayload: s.MaxPayload, JetStreamDomain: s.Domain,
	}
	if s.Port > 0 {
		o.Port = s.Port
	}
	if s.Cluster > 0 {
		o.Cluster = server.ClusterOpts{Name: "c", Host: "127.0.0.1", Port: s.Cluster}
		var urls []string
		for _, port := range s.Routes {
			urls = append(urls, fmt.Sprintf("nats://127.0.0.1:%d", port))
		}
		o.Routes = server.RoutesFromStr(strings.Join(urls, ","))
	}
	if s.System {
		app, sys := server.NewAccount("app"), server.NewAccount("sys")
		o.Accounts, o.SystemAccount = []*server.Account{app, sys}, "sys"
		o.Users = []*server.User{{Username: "app", Password: "x", Account: app}, {Username: "sys", Password: "x", Account: sys}}
	}
	return o
}

func (s settings) start() (*server.Server, error) {
	n, err := server.NewServer(s.options())
	if err != nil {
		return nil, err
	}
	n.Start()
	if !n.ReadyForConnections(patience) {
		return nil, fmt.Errorf("server %s is not ready", s.Name)
	}
	if s.System {
		acc, err := n.LookupAccount("app")
		if err != nil {
			return nil, err
		}
		return n, acc.EnableJetStream(map[string]server.JetStreamAccountLimits{"": {MaxMemory: -1, MaxStore: -1, MaxStreams: -1, MaxConsumers: -1}}, nil)
	}
	return n, nil
}

// serve starts a server in this process and ends it with the test.
func serve(t testing.TB, s settings) *server.Server {
	t.Helper()
	if s.Name == "" {
		s.Name = "one"
	}
	if s.Dir == "" {
		s.Dir = t.TempDir()
	}
	n, err := s.start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		n.Shutdown()
		n.WaitForShutdown()
	})
	return n
}

// connect connects as the package's documentation says.
func connect(t testing.TB, url string, more ...nats.Option) jetstream.JetStream {
	t.Helper()
	nc, err := nats.Connect(url, append([]nats.Option{
		nats.Timeout(patience), nats.ReconnectBufSize(-1), nats.MaxReconnects(-1), nats.ReconnectWait(20 * time.Millisecond), nats.ReconnectJitter(time.Millisecond, time.Millisecond),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}), // the tests break connections: nothing to print
	}, more...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(patience))
	if err != nil {
		t.Fatal(err)
	}
	return js
}

func mustOpen(t testing.TB, js jetstream.JetStream, o Options) *Store {
	t.Helper()
	if o.Bucket == "" {
		o.Bucket = "records"
	}
	s, err := Open(t.Context(), js, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// precise opens a store until it knows the time well, for tests that let a lease end
// and are as exact about that.
func precise(t testing.TB, open func() *Store) *Store {
	t.Helper()
	for limit := time.Now().Add(patience); ; {
		s := open()
		if s.clock.last.took < 20*time.Millisecond {
			return s
		}
		if time.Now().After(limit) {
			t.Fatalf("the machine is too busy: to ask for the time takes %v", s.clock.last.took)
		}
	}
}

// A clusterNode is a server in a process of its own, which can be killed.
type clusterNode struct {
	set settings
	cmd *exec.Cmd // nil while it is down
	in  io.Closer // the child ends when this does, so it can't outlive the tests
}

// serverEnv turns the test binary into a server.
const serverEnv = "NATSSTORE_TEST_SERVER"

func TestMain(m *testing.M) {
	if text := os.Getenv(serverEnv); text != "" {
		child(text)
		return
	}
	os.Exit(m.Run())
}

func child(text string) {
	var s settings
	err := json.Unmarshal([]byte(text), &s)
	var n *server.Server
	if err == nil {
		n, err = s.start()
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("ready")
	io.Copy(io.Discard, os.Stdin)
	n.Shutdown()
	n.WaitForShutdown()
}

func (n *clusterNode) start(t testing.TB) {
	t.Helper()
	if err := n.launch(); err != nil {
		t.Fatal(err)
	}
}

func (n *clusterNode) launch() error {
	text, err := json.Marshal(n.set)
	if err != nil {
		return err
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), serverEnv+"="+string(text))
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
		return fmt.Errorf("server %s does not start: %s", n.set.Name, line)
	}
	return nil
}

func (n *clusterNode) kill() {
	if n.cmd == nil {
		return
	}
	n.cmd.Process.Kill()
	n.in.Close()
	n.cmd.Wait()
	n.cmd = nil
}

// cluster starts three servers and returns them with their URLs.
func cluster(t testing.TB, lazy bool) (nodes []*clusterNode, urls string) {
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

func tryCluster(t testing.TB, lazy bool, routes, ports []int) (nodes []*clusterNode, urls string, err error) {
	var all []string
	for i, port := range ports {
		n := &clusterNode{set: settings{
			Name: fmt.Sprintf("n%d", i), Dir: t.TempDir(), Port: port, Cluster: routes[i], Routes: routes, Lazy: lazy,
		}}
		t.Cleanup(n.kill)
		if err == nil {
			err = n.launch()
		}
		nodes = append(nodes, n)
		all = append(all, fmt.Sprintf("nats://127.0.0.1:%d", port))
	}
	if err != nil {
		for _, n := range nodes {
			n.kill()
		}
	}
	return nodes, strings.Join(all, ","), err
}

// eventually opens a store once a cluster has elected its leaders.
func eventually(t testing.TB, js jetstream.JetStream, o Options) *Store {
	t.Helper()
	var err error
	for limit := time.Now().Add(2 * patience); time.Now().Before(limit); {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		var s *Store
		s, err = Open(ctx, js, o)
		cancel()
		if err == nil {
			return s
		}
		<-time.After(100 * time.Millisecond)
	}
	t.Fatal(err)
	return nil
}

// claimOf returns a claim of a key. Another claim of it needs another owner.
func claimOf(key string, g idempotency.Guarantee, lease time.Duration) idempotency.Claim {
	return idempotency.Claim{
		ID: idempotency.IDOf("test", key), Fingerprint: [32]byte{1}, Owner: [16]byte{1},
		Guarantee: g, Lease: lease, Retention: time.Hour,
	}
}

func want(t testing.TB, s *Store, c idempotency.Claim, d idempotency.Decision) idempotency.Answer {
	t.Helper()
	a, err := s.Begin(t.Context(), c)
	if err != nil || a.Decision != d {
		t.Fatalf("begin: %v (%v), want %v: %v", a.Decision, a.Record.State, d, err)
	}
	return a
}

// pass waits until d is over by the judgement of s, which gives others what it does not
// know of the time.
func pass(t testing.TB, s *Store, d time.Duration) {
	t.Helper()
	now := func() moment {
		m, err := s.now(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	for end := now().late.Add(d); now().early < end; <-time.After(time.Millisecond) {
	}
}

func apply(t testing.TB, s *Store, c idempotency.Claim, a idempotency.Answer, ch idempotency.Change) {
	t.Helper()
	if err := s.Apply(t.Context(), idempotency.Ref{ID: c.ID, Token: a.Record.Token}, ch); err != nil {
		t.Fatalf("%v: %v", ch.State, err)
	}
}

func done(body string) idempotency.Change {
	return idempotency.Change{State: idempotency.StateDone, Result: idempotency.Result{Status: 201, Body: []byte(body)}}
}

var release = idempotency.Change{State: idempotency.StateRetryable}
