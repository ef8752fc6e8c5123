package proxy

import (
	"fmt"
	"net"
	"testing"

	gabionlib "github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/config"
	"github.com/gabion-go/gabion/gabionproxy"
	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/internal/testproxy"
)

// front starts a proxy in this process and returns the address of its first listener.
func front(t *testing.T, text string) string {
	t.Helper()
	_, at := fronted(t, text)
	return at
}

// fronted is front, and returns the proxy, too.
func fronted(t *testing.T, text string) (*gabionproxy.Proxy, string) {
	t.Helper()
	file, err := config.Parse("gabion.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	registry, err := gabionlib.NewRegistry(file.Policies)
	if err != nil {
		t.Fatal(err)
	}
	store := idempotency.NewMemoryStore(0, 0)
	p, err := gabionproxy.New(file.Proxy, registry, gabionproxy.Options{Store: func(string) (idempotency.Store, error) { return store, nil }})
	if err == nil {
		err = p.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Drain(during(t, 1)) })
	return p, p.Addr(file.Proxy.Listen[0].Address).String()
}

// quick is a policy for tests: three attempts without a wait.
const quick = "retry: {attempts: 3, backoff: {base: 1ms}, budget: off}, timeout: {attempt: 2s}"

// egress is the file of a proxy for one server.
func egress(to, policy string) string {
	return fmt.Sprintf("version: 1\ndependencies:\n  api: {%s}\nproxy:\n  drain: 1s\n  listen:\n    - {address: 127.0.0.1:0, to: %s, dependency: api}\n", policy, to)
}

// ingress is the file of a proxy before one program.
func ingress(to string) string {
	return fmt.Sprintf("version: 1\nproxy:\n  drain: 1s\n  listen:\n    - {address: 127.0.0.1:0, ingress: {to: \"%s\"}}\n", to)
}

// raw is a server that does with each connection what no HTTP server would.
func raw(t *testing.T, serve func(net.Conn)) (url string) {
	t.Helper()
	return "http://" + testproxy.Serve(t, serve)
}
