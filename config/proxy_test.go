package config

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gabion-go/gabion/policy"
)

func TestAProxyIsRead(t *testing.T) {
	f, err := Parse("p.yaml", []byte(`version: 1
dependencies: {api: {}}
proxy:
  listen:
    - {address: ":9001", to: "h2c://[::1]:80/base", dependency: api, idle_timeout: 3s}
    - {address: "[::1]:9001", ingress: {to: "http://127.0.0.1:1", admission: {limit: learned}}}
    - {address: "127.0.0.1:0", forward: [{host: "*.example.com", ports: ["443"], dependency: api}]}
    - {address: "127.0.0.1:0", forward: [{host: "::1", dependency: api}]}
  admin: {address: "127.0.0.1:9900"}
  drain: 5s
`))
	if err != nil {
		t.Fatal(err)
	}
	p := f.Proxy
	if len(p.Listen) != 4 || p.Listen[0].IdleTimeout != 3*time.Second || p.Listen[1].Ingress.Admission.Limit != policy.Learned || p.Drain != 5*time.Second ||
		p.Listen[2].Forward[0].Ports[0] != "443" {
		t.Errorf("%+v", p)
	}
}

func TestMistakesOfAProxyHaveTheirPlaces(t *testing.T) {
	for _, c := range []struct{ fact, proxy, at, says string }{
		{"nothing listens", `{drain: 1s}`, "3:1", "there is no listener"},
		{"a key of an item", `{listen: [{address: "h:1", too: x}]}`, "3:35", `unknown key "too" in listen[0]`},
		{"no purpose", `{listen: [{address: "h:1"}]}`, "3:18", "it has 0 purposes"},
		{"two purposes", `{listen: [{address: "h:1", to: "http://a", dependency: api, ingress: {to: "http://b"}}]}`, "3:18", "it has 2 purposes"},
		{"no port", `{listen: [{address: h, to: "http://a", dependency: api}]}`, "3:28", `"h" is no address`},
		{"a port that can't be", `{listen: [{address: "h:70000", to: "http://a", dependency: api}]}`, "3:28", "is no address"},
		{"an address twice", `{listen: [{address: ":1", to: "http://a", dependency: api}], admin: {address: "127.0.0.1:1"}}`, "3:86", "it is that of listen[0]"},
		{"no URL", `{listen: [{address: "h:1", to: a, dependency: api}]}`, "3:39", "it is no base URL"},
		{"a URL with a password", `{listen: [{address: "h:1", to: "http://u:p@a", dependency: api}]}`, "3:39", "a host and a path alone"},
		{"no dependency", `{listen: [{address: "h:1", to: "http://a"}]}`, "3:18", "listen[0].dependency: it is missing"},
		{"an unknown dependency", `{listen: [{address: "h:1", routes: [{to: "http://a", dependency: apy}]}]}`, "3:73", `there is no dependency "apy"`},
		{"a path", `{listen: [{address: "h:1", routes: [{path: v1, to: "http://a", dependency: api}]}]}`, "3:51", "it does not begin with a slash"},
		{"a host with a port", `{listen: [{address: "h:1", routes: [{host: "a:1", to: "http://a", dependency: api}]}]}`, "3:51", "is no host"},
		{"a forward proxy for all", `{listen: [{address: "h:1", forward: [{host: "*", dependency: api}]}]}`, "3:52", "is no host"},
		{"TLS to plain text", `{listen: [{address: "h:1", to: "http://a", dependency: api, to_tls: {ca: x}}]}`, "3:68", "the URL is not https"},
		{"half a pair", `{listen: [{address: "h:1", to: "http://a", dependency: api, tls: {cert: x}}]}`, "3:68", "cert and key belong together"},
		{"off", `{listen: [{address: "h:1", to: "http://a", dependency: api, max_body: off}]}`, "3:78", "it can't be off"},
		{"an admission that is off", `{listen: [{address: "h:1", ingress: {to: "http://a", admission: {limit: off}}}]}`, "3:80", "it can't be off"},
		{"a peer without an address", `{listen: [{address: "h:1", ingress: {to: "http://a", trusted: [10.0.0.0/8, inside]}}]}`, "3:70", `"inside" is no address`},
		{"a route of keys", `{listen: [{address: "h:1", ingress: {to: "http://a", idempotency: {store: x, routes: [/orders]}}}]}`, "3:93", "is no route"},
		{"keys without a store", `{listen: [{address: "h:1", ingress: {to: "http://a", idempotency: {routes: ["POST /"]}}}]}`, "3:61", "store: it is missing"},
	} {
		t.Run(c.fact, func(t *testing.T) {
			_, err := Parse("p.yaml", []byte("version: 1\ndependencies: {api: {}}\nproxy: "+c.proxy+"\n"))
			text := fmt.Sprint(err)
			if !strings.HasPrefix(text, "p.yaml:"+c.at+":") || !strings.Contains(text, c.says) || strings.Count(text, "p.yaml:") != 1 {
				t.Errorf("want %s %s\n%s", c.at, c.says, text)
			}
		})
	}
}

func TestAMistakeShowsNoPassword(t *testing.T) {
	_, err := Parse("p.yaml", []byte("version: 1\nproxy: {listen: [{address: \"h:1\", ingress: {to: \"http://a\", idempotency: {store: \"redis://:sesame@h\"}}}]}\n"))
	if text := fmt.Sprint(err); err == nil || strings.Contains(text, "sesame") || !strings.Contains(text, "redis://:xxxxx") {
		t.Error(text)
	}
}
