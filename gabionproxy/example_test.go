package gabionproxy_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/config"
	"github.com/gabion-go/gabion/gabionproxy"
	"github.com/gabion-go/gabion/policy"
)

// A Go gateway mounts the handler of a listener.
func ExampleNew() {
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "hello from "+r.URL.Path) }))
	defer api.Close()
	file, err := config.Parse("gabion.yaml", []byte(`version: 1
dependencies:
  api: {preset: external-api}
proxy:
  listen:
    - {address: "127.0.0.1:9001", to: "`+api.URL+`", dependency: api}
`))
	if err != nil {
		log.Fatal(err)
	}
	registry, err := gabion.NewRegistry(file.Policies)
	if err != nil {
		log.Fatal(err)
	}
	proxy, err := gabionproxy.New(file.Proxy, registry, gabionproxy.Options{})
	if err != nil {
		log.Fatal(err)
	}
	gateway := httptest.NewServer(http.StripPrefix("/api", proxy.Handler("127.0.0.1:9001")))
	defer gateway.Close()

	resp, err := http.Get(gateway.URL + "/api/v1/orders")
	if err != nil {
		log.Fatal(err)
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	fmt.Printf("%s after %s attempt\n", body, resp.Header.Get(gabionproxy.HeaderAttempts))
	// Output: hello from /v1/orders after 1 attempt
}

// Run serves a file until its context is over, watches the file, and drains.
func ExampleRun() {
	dir, err := os.MkdirTemp("", "proxy")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "gabion.yaml")
	text := "version: 1\ndependencies: {api: {}}\nproxy: {listen: [{address: 127.0.0.1:0, to: http://127.0.0.1:1, dependency: api}]}\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		log.Fatal(err)
	}
	file, err := config.Load(path)
	if err != nil {
		log.Fatal(err)
	}
	registry, err := gabion.NewRegistry(file.Policies)
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	err = gabionproxy.Run(ctx, file, registry, nil, gabionproxy.Options{}, func(p *gabionproxy.Proxy) {
		fmt.Println("ready:", p.Ready())
		stop()
	})
	fmt.Println(err)
	// Output:
	// ready: true
	// <nil>
}

func ExampleDescribe() {
	fmt.Println(gabionproxy.Describe(config.ProxyListener{Address: "127.0.0.1:9001", To: "https://api.example", Dependency: "api"}))
	// Output: [everything to https://api.example, as api]
}

// A gateway that chooses servers by itself sends its requests with a transport of the proxy.
func ExampleNewTransport() {
	failed := false
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !failed {
			failed = true
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer api.Close()
	registry, err := gabion.NewRegistry(map[string]policy.Policy{"api": {}})
	if err != nil {
		log.Fatal(err)
	}
	proxy, err := gabionproxy.New(config.Proxy{}, registry, gabionproxy.Options{})
	if err != nil {
		log.Fatal(err)
	}
	transport, err := gabionproxy.NewTransport(proxy, "api", &http.Transport{DisableCompression: true})
	if err != nil {
		log.Fatal(err)
	}
	to, _ := url.Parse(api.URL)
	gateway := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) }, Transport: transport})
	defer gateway.Close()

	resp, err := http.Get(gateway.URL)
	if err != nil {
		log.Fatal(err)
	}
	defer resp.Body.Close()
	fmt.Println(resp.Status, "after", resp.Header.Get(gabionproxy.HeaderAttempts), "attempts")
	// Output: 200 OK after 2 attempts
}
