package gabionproxy_test

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// plainHTTP2 is a client, or a server, that speaks HTTP/2 in plain text alone.
func plainHTTP2() *http.Protocols {
	p := new(http.Protocols)
	p.SetUnencryptedHTTP2(true)
	return p
}

// rpcServer answers as gRPC does: a message and trailers, or trailers alone.
func rpcServer(t *testing.T, code string) (base string, seen *atomic.Pointer[http.Header]) {
	seen = new(atomic.Pointer[http.Header])
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := r.Header.Clone()
		seen.Store(&h)
		w.Header().Set("Content-Type", "application/grpc")
		if code != "0" {
			w.Header().Set("Grpc-Status", code)
			w.Header().Set("Grpc-Message", "no")
			return
		}
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Trailer", "Grpc-Status")
		w.Write(body)
		w.Header().Set("Grpc-Status", code)
		w.Header().Set(http.TrailerPrefix+"Extra", r.Trailer.Get("Sum"))
	}))
	s.Config.Protocols = plainHTTP2()
	s.Start()
	t.Cleanup(s.Close)
	return strings.Replace(s.URL, "http:", "h2c:", 1), seen
}

// rpc makes a call of gRPC through a proxy, and returns the answer with its body read.
func rpc(t *testing.T, to string) (*http.Response, string) {
	t.Helper()
	client := &http.Transport{Protocols: plainHTTP2()}
	defer client.CloseIdleConnections()
	req, _ := http.NewRequest("POST", to+"/shop.Orders/Get", io.MultiReader(strings.NewReader("\x00\x00\x00\x00\x03abc")))
	req.Header = http.Header{"Content-Type": {"application/grpc"}, "Te": {"trailers"}, "Grpc-Timeout": {"5S"}}
	req.Trailer = http.Header{"Sum": {"7"}}
	resp, err := client.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(body)
}

func TestCallsOfGRPCGoThroughWithTheirTrailers(t *testing.T) {
	base, seen := rpcServer(t, "0")
	r := start(t, one(base, "trust: internal, retry: off"))
	resp, body := rpc(t, r.url("127.0.0.1:0"))
	if resp.ProtoMajor != 2 || body != "\x00\x00\x00\x00\x03abc" || resp.Trailer.Get("Grpc-Status") != "0" || resp.Trailer.Get("Extra") != "7" {
		t.Errorf("%v %q %v", resp, body, resp.Trailer)
	}
	if got := (*seen.Load()).Get("Grpc-Timeout"); got == "" || got == "5S" || (*seen.Load()).Get("Te") != "trailers" {
		t.Errorf("the server got %v", *seen.Load())
	}
}

func TestARefusedCallOfGRPCHasHeadersAlone(t *testing.T) {
	base, _ := rpcServer(t, "7")
	r := start(t, one(base, "retry: off"))
	if resp, body := rpc(t, r.url("127.0.0.1:0")); resp.StatusCode != 200 || resp.Header.Get("Grpc-Status") != "7" || body != "" || resp.Header.Get("Gabion-Reason") != "not_retryable" {
		t.Errorf("%v %q", resp, body)
	}
	r = start(t, one("h2c://127.0.0.1:1", "retry: off"))
	if resp, body := rpc(t, r.url("127.0.0.1:0")); resp.StatusCode != 200 || resp.Header.Get("Grpc-Status") != "14" || body != "" || resp.Header.Get("Grpc-Message") == "" {
		t.Errorf("%v %q", resp, body)
	}
}

func TestAnAnswerThatBreaksIsCutAndNotRepeated(t *testing.T) {
	var came atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		came.Add(1)
		io.WriteString(w, "half") // of unknown length, so that it goes out at once
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}))
	defer server.Close()
	r := start(t, one(server.URL, quick))
	resp, err := http.Get(r.url("127.0.0.1:0"))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if string(body) != "half" || err == nil || came.Load() != 1 {
		t.Errorf("%q %v after %d requests", body, err, came.Load())
	}
	for r.proxy.Stats().Cut != 1 {
		time.Sleep(time.Millisecond)
	}
}

// echoes is a server that upgrades connections, and sends back what it gets.
func echoes() *httptest.Server {
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Connection", "Upgrade")
		w.Header().Set("Upgrade", "echo")
		w.WriteHeader(http.StatusSwitchingProtocols)
		c, rw, _ := w.(http.Hijacker).Hijack()
		defer c.Close()
		io.Copy(c, rw)
	}))
}

// upgraded is a connection through the proxy to such a server.
func upgraded(t *testing.T, r *running) (net.Conn, *bufio.Reader) {
	t.Helper()
	c, err := net.Dial("tcp", r.proxy.Addr("127.0.0.1:0").String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
	in := bufio.NewReader(c)
	resp, err := http.ReadResponse(in, nil)
	if err != nil || resp.StatusCode != 101 {
		t.Fatal(resp, err)
	}
	fmt.Fprintf(c, "hello\n")
	if line, err := in.ReadString('\n'); line != "hello\n" {
		t.Fatal(line, err)
	}
	return c, in
}

func TestADrainWaitsForUpgradedConnections(t *testing.T) {
	server := echoes()
	defer server.Close()
	r := start(t, one(server.URL, "")+"  drain: 20s\n")
	c, _ := upgraded(t, r)
	r.stop()
	for r.proxy.Ready() {
		time.Sleep(time.Millisecond)
	}
	time.AfterFunc(100*time.Millisecond, func() { c.Close() })
	if err := <-r.ended; err != nil {
		t.Error(err)
	}
}

func TestAConnectionCanBeUpgraded(t *testing.T) {
	server := echoes()
	defer server.Close()
	r := start(t, one(server.URL, "")+"  drain: 50ms\n")
	_, in := upgraded(t, r)
	r.stop() // the drain can't wait for a connection that has no end
	if err := <-r.ended; err == nil {
		t.Error("it was not said that a connection was cut")
	}
	if _, err := in.ReadByte(); err == nil {
		t.Error("the connection is still there")
	}
}

// authority makes certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	dir  string
	n    int64
}

func newAuthority(t *testing.T) *authority {
	a := &authority{dir: t.TempDir()}
	a.key, _ = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	a.cert = &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, a.cert, a.cert, &a.key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	a.write(t, "ca.pem", "CERTIFICATE", der)
	return a
}

func (a *authority) write(t *testing.T, name, kind string, der []byte) string {
	path := filepath.Join(a.dir, name)
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// issue returns the files of a certificate and its key.
func (a *authority) issue(t *testing.T, name string) (cert, key string) {
	a.n++
	own, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	c := &x509.Certificate{SerialNumber: big.NewInt(a.n + 1), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name}, NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	der, err := x509.CreateCertificate(rand.Reader, c, a.cert, &own.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	secret, _ := x509.MarshalECPrivateKey(own)
	return a.write(t, fmt.Sprint(name, a.n, ".pem"), "CERTIFICATE", der), a.write(t, fmt.Sprint(name, a.n, ".key"), "EC PRIVATE KEY", secret)
}

func (a *authority) pool(t *testing.T) *x509.CertPool {
	p := x509.NewCertPool()
	text, err := os.ReadFile(filepath.Join(a.dir, "ca.pem"))
	if err != nil || !p.AppendCertsFromPEM(text) {
		t.Fatal(err)
	}
	return p
}

func TestTLSIsSpokenAndVerified(t *testing.T) {
	a := newAuthority(t)
	cert, key := a.issue(t, "pay.example")
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.Proto, " ", r.TLS.PeerCertificates[0].Subject.CommonName)
	}))
	server.EnableHTTP2 = true
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: a.pool(t)}
	server.StartTLS()
	defer server.Close()
	own, secret := a.issue(t, "shop")
	ca := filepath.Join(a.dir, "ca.pem")
	for _, c := range []struct{ name, tls, has string }{
		{"own authority, certificate and name", fmt.Sprintf("ca: %s, cert: %s, key: %s, server_name: pay.example", ca, own, secret), "HTTP/2.0 shop"},
		{"an unknown authority is refused", fmt.Sprintf("cert: %s, key: %s, server_name: pay.example", own, secret), `"effect":"not sent"`},
		{"another name is refused", fmt.Sprintf("ca: %s, cert: %s, key: %s, server_name: other.example", ca, own, secret), `"effect":"not sent"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := strings.Replace(one(server.URL, "retry: off"), "dependency: api", "dependency: api, to_tls: {"+c.tls+"}", 1)
			r := start(t, text)
			if code, body := get(t, r.url("127.0.0.1:0")); !strings.Contains(body, c.has) {
				t.Error(code, body)
			}
		})
	}
}

func TestAListenerSpeaksTLSAndTakesARenewedCertificate(t *testing.T) {
	a := newAuthority(t)
	up := says("up")
	defer up.Close()
	file := func(cert, key string) string {
		return strings.Replace(one(up.URL, ""), "dependency: api", fmt.Sprintf("dependency: api, tls: {cert: %s, key: %s}", cert, key), 1)
	}
	cert, key := a.issue(t, "proxy.example")
	r := start(t, file(cert, key))
	serial := func() int64 {
		client := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: a.pool(t), ServerName: "proxy.example"}, ForceAttemptHTTP2: true}
		defer client.CloseIdleConnections()
		req, _ := http.NewRequest("GET", "https://"+r.proxy.Addr("127.0.0.1:0").String(), nil)
		resp, err := client.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.ProtoMajor != 2 {
			t.Error(resp.Proto)
		}
		return resp.TLS.PeerCertificates[0].SerialNumber.Int64()
	}
	before := serial()
	r.write(file(a.issue(t, "proxy.example")))
	r.reload()
	if after := serial(); after != before+1 {
		t.Error(before, after)
	}
}

func TestAForwardProxyReachesWhatIsAllowed(t *testing.T) {
	up := says("up")
	defer up.Close()
	port := up.URL[strings.LastIndexByte(up.URL, ':')+1:]
	secure := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "secure") }))
	defer secure.Close()
	securePort := secure.URL[strings.LastIndexByte(secure.URL, ':')+1:]
	r := start(t, "version: 1\ndependencies:\n  api: {retry: {attempts: 2, backoff: {base: 1ms}, budget: off}}\nproxy:\n  listen:\n    - {address: 127.0.0.1:0, forward: [{host: 127.0.0.1, ports: ['"+port+"', '"+securePort+"', '1'], dependency: api}]}\n")
	proxy, _ := url.Parse(r.url("127.0.0.1:0"))
	client := &http.Client{Transport: &http.Transport{Proxy: http.ProxyURL(proxy), TLSClientConfig: &tls.Config{RootCAs: secure.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs}}}
	defer client.CloseIdleConnections()
	for _, c := range []struct{ name, url, has, wrong string }{
		{"absolute form", up.URL, "up", ""},
		{"a tunnel", secure.URL, "secure", ""},
		{"another port", "http://127.0.0.1:22/", "not_allowed", ""},
		{"another host", "http://example.com/", "not_allowed", ""},
		{"a tunnel elsewhere", "https://example.com/", "", "Forbidden"},
		{"a tunnel that can't be opened", "https://127.0.0.1:1/", "", "Service Unavailable"},
	} {
		resp, err := client.Get(c.url)
		if c.wrong != "" {
			if err == nil || !strings.Contains(err.Error(), c.wrong) {
				t.Errorf("%s: %v", c.name, err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if !strings.Contains(string(body), c.has) {
			t.Errorf("%s: %q", c.name, body)
		}
	}
	if code, body := get(t, proxy.String()); code != 400 || !strings.Contains(body, "not_a_proxy_request") {
		t.Error(code, body)
	}
	if n := r.proxy.Stats().Tunnels; n != 1 {
		t.Error(n)
	}
}

func TestRoutesAreFoundByHostAndLongestPath(t *testing.T) {
	servers := map[string]string{}
	for _, name := range []string{"a", "b", "c"} {
		s := says(name)
		defer s.Close()
		servers[name] = s.URL
	}
	r := start(t, fmt.Sprintf("version: 1\ndependencies: {api: {}}\nproxy:\n  listen:\n    - address: 127.0.0.1:0\n      routes:\n"+
		"        - {path: /v1, to: %s, dependency: api}\n        - {host: Pay.internal, to: %s, dependency: api}\n        - {host: pay.internal, path: /v1/deep/, to: %s, dependency: api}\n",
		servers["a"], servers["b"], servers["c"]))
	for _, c := range []struct{ host, path, want string }{
		{"pay.internal", "/v1/deep/x", "c"}, {"PAY.internal.:80", "/v1/deepest", "b"}, {"pay.internal", "/", "b"},
		{"other", "/v1", "a"}, {"other", "/v1/x", "a"}, {"other", "/v12", "no_route"}, {"other", "/", "no_route"},
	} {
		req, _ := http.NewRequest("GET", r.url("127.0.0.1:0")+c.path, nil)
		req.Host = c.host
		if code, body := answer(t, req); !strings.Contains(body, c.want) {
			t.Errorf("%s%s: %d %q, want %s", c.host, c.path, code, body, c.want)
		}
	}
}
