package gabionproxy_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/config"
	"github.com/gabion-go/gabion/gabionproxy"
)

type pool struct{ sync.Pool }

func (p *pool) Get() []byte {
	if b, ok := p.Pool.Get().(*[]byte); ok {
		return *b
	}
	return make([]byte, 32<<10)
}

func (p *pool) Put(b []byte) { p.Pool.Put(&b) }

// message is one of gRPC, with n bytes.
func message(n int) string {
	return fmt.Sprintf("\x00\x00\x00%c%c", n>>8, n&0xff) + strings.Repeat("m", n)
}

// BenchmarkProxy compares httputil.ReverseProxy alone with the proxy, all policies on. Client, proxy and server are
// one process, so the difference is the proxy's own and the ratio is less than that of proxies alone.
func BenchmarkProxy(b *testing.B) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		if kind := r.Header.Get("Content-Type"); kind != "" {
			w.Header().Set("Content-Type", kind)
			w.Header().Set("Trailer", "Grpc-Status")
			io.WriteString(w, message(100))
			w.Header().Set("Grpc-Status", "0")
			return
		}
		w.Write(make([]byte, 100))
	}))
	server.Config.Protocols = plainHTTP2()
	server.Config.Protocols.SetHTTP1(true)
	server.Start()
	defer server.Close()
	base, _ := url.Parse(server.URL)
	alone := func(protocols *http.Protocols) http.Handler {
		return &httputil.ReverseProxy{
			Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(base) },
			Transport: &http.Transport{MaxIdleConnsPerHost: 512, DisableCompression: true, Protocols: protocols}, BufferPool: new(pool),
		}
	}
	file, err := config.Parse("gabion.yaml", []byte(one(server.URL, "")+"    - {address: 127.0.0.1:1, ingress: {to: \""+server.URL+"\", admission: {limit: learned}}}\n"+
		"    - {address: 127.0.0.1:2, to: \"h2c"+strings.TrimPrefix(server.URL, "http")+"\", dependency: api}\n"))
	if err != nil {
		b.Fatal(err)
	}
	registry, err := gabion.NewRegistry(file.Policies)
	if err != nil {
		b.Fatal(err)
	}
	p, err := gabionproxy.New(file.Proxy, registry, gabionproxy.Options{})
	if err != nil {
		b.Fatal(err)
	}
	long := strings.Repeat("x", 1024)
	for _, c := range []struct {
		name    string
		handler http.Handler
		body    string
		with    *http.Protocols
		kind    string
	}{
		{"get/alone", alone(nil), "", nil, ""}, {"get/gabion", p.Handler("127.0.0.1:0"), "", nil, ""}, {"get/ingress", p.Handler("127.0.0.1:1"), "", nil, ""},
		{"post/alone", alone(nil), long, nil, ""}, {"post/gabion", p.Handler("127.0.0.1:0"), long, nil, ""}, {"post/ingress", p.Handler("127.0.0.1:1"), long, nil, ""},
		{"h2/alone", alone(plainHTTP2()), "", plainHTTP2(), ""}, {"h2/gabion", p.Handler("127.0.0.1:2"), "", plainHTTP2(), ""},
		{"h2post/alone", alone(plainHTTP2()), long, plainHTTP2(), ""}, {"h2post/gabion", p.Handler("127.0.0.1:2"), long, plainHTTP2(), ""},
		{"grpc/alone", alone(plainHTTP2()), message(1024), plainHTTP2(), "application/grpc"}, {"grpc/gabion", p.Handler("127.0.0.1:2"), message(1024), plainHTTP2(), "application/grpc"},
	} {
		b.Run(c.name, func(b *testing.B) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				b.Fatal(err)
			}
			s := &http.Server{Handler: c.handler, Protocols: c.with}
			go s.Serve(l)
			defer s.Close()
			client := &http.Transport{Protocols: c.with}
			defer client.CloseIdleConnections()
			b.ReportAllocs()
			for b.Loop() {
				method := http.MethodGet
				var body io.Reader
				if c.body != "" {
					method, body = http.MethodPost, strings.NewReader(c.body)
				}
				req, _ := http.NewRequest(method, "http://"+l.Addr().String()+"/v1", body)
				if c.kind != "" {
					req.Header["Content-Type"], req.Header["Te"] = []string{c.kind}, []string{"trailers"}
				}
				resp, err := client.RoundTrip(req)
				if err != nil {
					b.Fatal(err)
				}
				io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
				if resp.StatusCode != 200 {
					b.Fatal(resp.Status)
				}
			}
		})
	}
}
