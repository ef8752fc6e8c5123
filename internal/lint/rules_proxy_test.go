package lint

import (
	"strings"
	"testing"

	"github.com/gabion-go/gabion/config"
)

func TestRulesOfProxies(t *testing.T) {
	const dependencies = "version: 1\ndependencies:\n  a: {timeout: {call: 20s}}\n  slow: {timeout: {call: 40s}}\nproxy: "
	const to = "{listen: [{address: '127.0.0.1:9001', to: 'https://a.example', dependency: a}]"
	keyed := func(address, more string) string {
		return "{listen: [{address: '" + address + "', ingress: {to: 'http://127.0.0.1:3000', idempotency: {store: gabion.db, routes: ['POST /orders']" + more + "}}}]}"
	}
	for _, c := range []struct{ fact, id, proxy, want, says string }{
		{"egress at all addresses", "G085", "{listen: [{address: '0.0.0.0:9001', to: 'https://a.example', dependency: a}]}", "warning", "0.0.0.0:9001: every program that reaches it calls out"},
		{"routes at an address of the network", "G085", "{listen: [{address: '10.1.2.3:9001', routes: [{to: 'https://a.example', dependency: a}]}]}", "warning", ""},
		{"a forward proxy by IPv6", "G085", "{listen: [{address: '[::]:9001', forward: [{host: '*.example.com', dependency: a}]}]}", "warning", ""},
		{"clients with certificates", "G085", "{listen: [{address: '0.0.0.0:9001', tls: {cert: c.pem, key: k.pem, client_ca: ca.pem}, to: 'https://a.example', dependency: a}]}", "silent", ""},
		{"the machine alone", "G085", to + "}", "silent", ""},
		{"a port alone is the machine's", "G085", "{listen: [{address: ':9001', to: 'https://a.example', dependency: a}]}", "silent", ""},
		{"IPv6's own address", "G085", "{listen: [{address: '[::1]:9001', to: 'https://a.example', dependency: a}]}", "silent", ""},
		{"a program that the world calls", "G085", keyed("0.0.0.0:8443", ""), "silent", ""},

		{"admin for all", "G086", to + ", admin: {address: '0.0.0.0:9900'}}", "warning", "reads the settings, reloads and drains"},
		{"overrides for all", "G086", to + ", admin: {address: '0.0.0.0:9900', overrides: true}}", "error", "opens and closes breakers"},
		{"admin of the machine", "G086", to + ", admin: {address: '127.0.0.1:9900', overrides: true}}", "silent", ""},
		{"no admin", "G086", to + "}", "silent", ""},

		{"a call longer than the usual drain", "G087", "{listen: [{address: ':9001', to: 'https://a.example', dependency: slow}]}", "note", "slow may take 40s (timeout.call), and proxy.drain is 25s"},
		{"by a route, twice", "G087", "{drain: 30s, listen: [{address: ':9001', routes: [{path: /a/, to: 'https://a.example', dependency: slow}, {path: /b/, to: 'https://a.example', dependency: slow}]}]}", "note", "is 30s"},
		{"a drain as long", "G087", "{drain: 40s, listen: [{address: ':9001', to: 'https://a.example', dependency: slow}]}", "silent", ""},
		{"a call shorter than the usual drain", "G087", to + "}", "silent", ""},

		{"to the world in plain text", "G088", "{listen: [{address: ':9001', to: 'http://pay.example', dependency: a}]}", "warning", "http://pay.example: bodies, keys and passwords"},
		{"HTTP/2 by a route", "G088", "{listen: [{address: ':9001', routes: [{to: 'h2c://8.8.8.8:80', dependency: a}]}]}", "warning", ""},
		{"a private address", "G088", "{listen: [{address: ':9001', to: 'http://10.0.0.7', dependency: a}]}", "silent", ""},
		{"a service of the cluster", "G088", "{listen: [{address: ':9001', to: 'http://pay.shop.svc.cluster.local:8080', dependency: a}]}", "silent", ""},
		{"a name without a dot", "G088", "{listen: [{address: ':9001', to: 'http://payments:8080', dependency: a}]}", "silent", ""},
		{"TLS", "G088", to + "}", "silent", ""},

		{"one space of keys for a network", "G089", keyed("0.0.0.0:8443", ""), "note", "keys are one space for all callers"},
		{"a space for each account", "G089", keyed("0.0.0.0:8443", ", scope_header: X-Account"), "silent", ""},
		{"a machine's own callers", "G089", keyed("127.0.0.1:8443", ""), "silent", ""},
	} {
		t.Run(c.id+" "+c.fact, func(t *testing.T) {
			f, broken := config.Read("gabion.yaml", []byte(dependencies+c.proxy+"\n"))
			if len(broken) > 0 {
				t.Fatal(broken)
			}
			var is, said []string
			for _, g := range Run([]*config.File{f}, Options{}).Findings {
				if g.Rule.ID == c.id {
					is, said = append(is, g.Severity.String()), append(said, g.Reason)
					if g.Line != 5 || g.Proposal == "" || g.Path == "" {
						t.Errorf("incomplete: %+v", g)
					}
				}
			}
			if got := strings.Join(is, ", "); got != c.want && (got != "" || c.want != "silent") || !strings.Contains(strings.Join(said, "\n"), c.says) {
				t.Errorf("got %q: %q, want %q: %q", got, said, c.want, c.says)
			}
		})
	}
}
