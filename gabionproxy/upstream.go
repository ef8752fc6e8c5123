package gabionproxy

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/config"
	"github.com/gabion-go/gabion/gabionhttp"
	"github.com/gabion-go/gabion/internal/h1"
)

// target is a server as a configuration names it.
type target struct {
	to         string // base URL; empty for what clients of a forward proxy name
	dependency string // empty for the program behind an ingress
	tls        config.ProxyClientTLS
}

// upstreamKey is what has to be the same for a reload to keep the connections. Files count by what is in them, so that a
// certificate that was renewed is used after the next reload.
type upstreamKey struct {
	target
	files [sha256.Size]byte
}

// upstream sends requests to one server, for one dependency.
type upstream struct {
	proxy *Proxy
	key   upstreamKey
	url   *url.URL
	base  http.RoundTripper
	plain gabionhttp.Transport
	rpc   gabionhttp.Transport // writes the time that is left as gRPC has it, too
	pass  httputil.ReverseProxy
}

const (
	dialTimeout  = 10 * time.Second // of one connection; policies bound attempts
	tlsTimeout   = 10 * time.Second
	idleUpstream = 90 * time.Second
	idlePerHost  = 512              // as many as a busy sidecar has clients; each idle one costs some KiB
	pingAfter    = 15 * time.Second // finds HTTP/2 connections whose other end is gone
)

// upstream returns the one for a target: that of this configuration, or of the one before.
func (p *Proxy) upstream(t *tree, to target, before *tree) (*upstream, error) {
	config, files, err := clientTLS(to.tls)
	if err != nil {
		return nil, err
	}
	key := upstreamKey{to, files}
	if u := t.upstreams[key]; u != nil {
		return u, nil
	}
	if before != nil {
		if u := before.upstreams[key]; u != nil {
			t.upstreams[key] = u
			return u, nil
		}
	}
	u := &upstream{proxy: p, key: key}
	if to.to != "" {
		if u.url, err = url.Parse(to.to); err != nil {
			return nil, err
		}
	}
	u.base = followed(p.options.Telemetry, to.dependency, newUpstream(config, u.url))
	if u.url != nil && u.url.Scheme == "h2c" {
		u.url.Scheme = "http"
	}
	u.pass = httputil.ReverseProxy{
		Rewrite: u.rewrite, Transport: u, ModifyResponse: told, ErrorHandler: p.failed, BufferPool: buffers, ErrorLog: errorLog(p),
	}
	t.upstreams[key] = u
	return u, nil
}

// rpcHeaders are where calls of gRPC have the time that is left.
var rpcHeaders = []string{gabionhttp.HeaderDeadline, gabionhttp.HeaderGRPCTimeout}

// newBase sends requests without a policy. It never asks for compressed answers by itself, since clients get what
// servers send.
func newBase(config *tls.Config, to *url.URL) *http.Transport {
	dialer := net.Dialer{Timeout: dialTimeout, KeepAlive: pingAfter}
	t := &http.Transport{
		DialContext: dialer.DialContext, TLSClientConfig: config, TLSHandshakeTimeout: tlsTimeout, IdleConnTimeout: idleUpstream,
		MaxIdleConnsPerHost: idlePerHost, DisableCompression: true, ExpectContinueTimeout: time.Second, Protocols: new(http.Protocols),
		HTTP2: &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingAfter},
	}
	switch {
	case to != nil && to.Scheme == "h2c":
		t.Protocols.SetUnencryptedHTTP2(true)
	default:
		t.Protocols.SetHTTP1(true)
		t.Protocols.SetHTTP2(true)
	}
	return t
}

// newUpstream is newBase, but that what is plain HTTP/1.1 goes a shorter way, where idle connections can be looked at.
func newUpstream(config *tls.Config, to *url.URL) http.RoundTripper {
	base := newBase(config, to)
	if base.Protocols.UnencryptedHTTP2() || !h1.Looks {
		return standard{base}
	}
	return &h1.Transport{
		Next: standard{base}, Dial: base.DialContext, TLS: config, TLSTime: tlsTimeout, IdleTime: idleUpstream, MostIdle: idlePerHost, Whole: entire,
	}
}

// clientTLS reads what a configuration names, and returns a sum of it.
func clientTLS(c config.ProxyClientTLS) (*tls.Config, [sha256.Size]byte, error) {
	var all []byte
	read := func(name string) ([]byte, error) {
		b, err := os.ReadFile(name)
		all = append(append(all, b...), 0)
		return b, err
	}
	t := &tls.Config{ServerName: c.ServerName, MinVersion: tls.VersionTLS12, ClientSessionCache: tls.NewLRUClientSessionCache(0)}
	if c.CA != "" {
		text, err := read(c.CA)
		if err != nil {
			return nil, sha256.Sum256(nil), err
		}
		t.RootCAs = x509.NewCertPool()
		if !t.RootCAs.AppendCertsFromPEM(text) {
			return nil, sha256.Sum256(nil), fmt.Errorf("%s has no certificate in PEM", c.CA)
		}
	}
	if c.Cert != "" {
		cert, err := read(c.Cert)
		if err != nil {
			return nil, sha256.Sum256(nil), err
		}
		key, err := read(c.Key)
		if err != nil {
			return nil, sha256.Sum256(nil), err
		}
		pair, err := tls.X509KeyPair(cert, key)
		if err != nil {
			return nil, sha256.Sum256(nil), fmt.Errorf("%s: %w", c.Cert, err)
		}
		t.Certificates = []tls.Certificate{pair}
	}
	return t, sha256.Sum256(all), nil
}

// connect gives the transports their dependency, once.
func (u *upstream) connect(registry *gabion.Registry) error {
	if u.key.dependency == "" || u.plain.Dependency != nil {
		return nil
	}
	d, err := registry.Get(u.key.dependency)
	if err != nil {
		return err
	}
	u.under(d)
	return nil
}

// under sets whose policy the requests follow.
func (u *upstream) under(d *gabion.Dependency) {
	u.plain.Dependency, u.plain.Base = d, u.base
	u.rpc.Dependency, u.rpc.Base, u.rpc.Headers = d, u.base, rpcHeaders
}

// retire lets go of connections that no configuration in force uses. Those in use end with their requests.
func (u *upstream) retire() { (&gabionhttp.Transport{Base: u.base}).CloseIdleConnections() }

// ServeHTTP implements [http.Handler].
func (u *upstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if leaves(u.url, r.URL) {
		u.proxy.ambiguous(w, r)
		return
	}
	e := u.proxy.remember(r, u.replayLimit())
	defer e.forget()
	u.proxy.passed(w, r, e, &u.pass)
}

// RoundTrip implements [http.RoundTripper]: it sends a request by the policy of its dependency.
func (u *upstream) RoundTrip(r *http.Request) (*http.Response, error) {
	defer exchangeOf(r.Context()).answered()
	switch {
	case u.plain.Dependency == nil:
		return u.base.RoundTrip(heralded(r))
	case isGRPC(r):
		return u.rpc.RoundTrip(r)
	}
	return u.plain.RoundTrip(r)
}

// rewrite aims a request at the server. Headers that tell of proxies and clients are not added: servers of others
// have no use for them.
func (u *upstream) rewrite(pr *httputil.ProxyRequest) {
	out := pr.Out
	if u.url != nil {
		pr.SetURL(u.url)
	}
	out.URL.RawQuery = pr.In.URL.RawQuery // as it came, also where Go would read it otherwise than the server
	out.Trailer = pr.In.Trailer
	exchangeOf(out.Context()).resends(out)
	noUpgrade(out)
}

var errStatus = errors.New("gabionproxy: the server's answer has a status below 100")

// told says on an answer what was done for it. The error is for one that no http.ResponseWriter takes.
func told(resp *http.Response) error {
	if resp.StatusCode < http.StatusContinue {
		return errStatus
	}
	h := resp.Header
	h.Del(HeaderAttempts)
	h.Del(HeaderReason)
	if e := exchangeOf(resp.Request.Context()); e != nil {
		e.tell(h)
		e.closes(h)
	}
	return nil
}

func isGRPC(r *http.Request) bool {
	return strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc")
}

// hostOnly is a host without its port, in lower case and without a dot at its end.
func hostOnly(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
}
