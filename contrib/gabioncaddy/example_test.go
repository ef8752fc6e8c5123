package gabioncaddy_test

import (
	"fmt"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	_ "github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	_ "github.com/caddyserver/caddy/v2/modules/caddyhttp/standard"
	_ "github.com/caddyserver/caddy/v2/modules/logging"

	_ "github.com/gabion-go/gabion/contrib/gabioncaddy"
)

// A server fails once, and the client of Caddy does not see that. A program has caddycmd.Main in place of caddy.Load.
func Example() {
	failed := false
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !failed {
			failed = true
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer api.Close()
	dir, err := os.MkdirTemp("", "caddy")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	policies := filepath.Join(dir, "gabion.yaml")
	if err := os.WriteFile(policies, []byte("version: 1\ndependencies:\n  api: {preset: external-api}\n"), 0o600); err != nil {
		log.Fatal(err)
	}
	free, err := net.Listen("tcp", "127.0.0.1:0") // a real site has an address of its own
	if err != nil {
		log.Fatal(err)
	}
	site := "http://" + free.Addr().String()
	free.Close()
	caddyfile := `{
	admin off
	persist_config off
	log {
		output discard
	}
}
` + site + ` {
	reverse_proxy ` + api.URL + ` {
		transport gabion {
			config     ` + policies + `
			dependency api
		}
	}
}
`
	settings, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(caddyfile), nil)
	if err != nil {
		log.Fatal(err)
	}
	if err := caddy.Load(settings, true); err != nil {
		log.Fatal(err)
	}
	defer caddy.Stop()

	resp, err := http.Get(site + "/v1/orders")
	if err != nil {
		log.Fatal(err)
	}
	defer resp.Body.Close()
	fmt.Printf("%s after %s attempts\n", resp.Status, resp.Header.Get("Gabion-Attempts"))
	// Output: 200 OK after 2 attempts
}
