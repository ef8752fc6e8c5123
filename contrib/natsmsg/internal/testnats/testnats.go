// Package testnats starts NATS servers for tests, of the version that the tests have as a module.
package testnats

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/gabion-go/gabion/internal/testservers"
)

// Patience is how long a test waits for what a machine that works would bring.
const Patience = time.Minute

// Settings is what the tests vary of a server. The zero value is one in this process that syncs each write.
type Settings struct {
	Name       string
	Dir        string
	Port       int  // zero means a free one
	Lazy       bool // it does not sync each write
	MaxPayload int32
	Cluster    int   // port of its routes, zero outside of clusters
	Routes     []int // of the others
	Domain     string
	System     bool // with accounts app and sys, users of the same names
	Users      []*server.User
}

func (s Settings) options() *server.Options {
	o := &server.Options{
		ServerName: s.Name, Host: "127.0.0.1", Port: -1, JetStream: true, StoreDir: s.Dir,
		SyncAlways: !s.Lazy, SyncInterval: time.Minute, NoSigs: true, NoLog: true, MaxPayload: s.MaxPayload, JetStreamDomain: s.Domain, Users: s.Users,
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

func (s Settings) start() (*server.Server, error) {
	n, err := server.NewServer(s.options())
	if err != nil {
		return nil, err
	}
	n.Start()
	if !n.ReadyForConnections(Patience) {
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

// Serve starts a server in this process and ends it with the test.
func Serve(t testing.TB, s Settings) *server.Server {
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
	t.Cleanup(func() { Stop(n) })
	return n
}

// Stop stops a server and waits for its end.
func Stop(n *server.Server) {
	n.Shutdown()
	n.WaitForShutdown()
}

// Connect connects as documentation says, and again and again.
func Connect(t testing.TB, url string, more ...nats.Option) jetstream.JetStream {
	t.Helper()
	nc, err := nats.Connect(url, append([]nats.Option{
		nats.Timeout(Patience), nats.ReconnectBufSize(-1), nats.MaxReconnects(-1), nats.ReconnectWait(20 * time.Millisecond), nats.ReconnectJitter(time.Millisecond, time.Millisecond),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}), // the tests break connections: nothing to print
	}, more...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(Patience))
	if err != nil {
		t.Fatal(err)
	}
	return js
}

// settingsVar turns the test binary into a server that is one of a cluster's.
const settingsVar = "TESTNATS_SETTINGS"

// Main runs the tests or, where the binary is to be a server, that.
func Main(m *testing.M) {
	var s Settings
	text := os.Getenv(settingsVar)
	port, dir, name, own := testservers.OwnNATS()
	switch {
	case own:
		s = Settings{Port: port, Dir: dir, Name: name}
	case text == "":
		os.Exit(m.Run())
	}
	err := error(nil)
	if text != "" {
		err = json.Unmarshal([]byte(text), &s)
	}
	var n *server.Server
	if err == nil {
		n, err = s.start()
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("ready")
	if own {
		end := make(chan os.Signal, 1)
		signal.Notify(end, syscall.SIGTERM)
		<-end
	} else {
		_, _ = io.Copy(io.Discard, os.Stdin)
	}
	Stop(n)
}

// Stacks returns the goroutines, but this one, whose stacks have one of the words.
func Stacks(words ...string) (found []string) {
	b := make([]byte, 1<<22)
	for n, g := range bytes.Split(b[:runtime.Stack(b, true)], []byte("\n\n")) {
		if n > 0 && slices.ContainsFunc(words, func(w string) bool { return bytes.Contains(g, []byte(w)) }) {
			found = append(found, string(g))
		}
	}
	return found
}
