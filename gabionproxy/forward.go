package gabionproxy

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/classify"
	"github.com/gabion-go/gabion/config"
)

// forwarder is a proxy that clients name with HTTP_PROXY. It reaches what it is allowed to, and nothing else.
type forwarder struct {
	proxy   *Proxy
	allowed []allowance
}

type allowance struct {
	host  string // of *.example.com it is .example.com
	ports []string
	to    *upstream
}

// webPorts are what clients may name where a configuration says nothing of ports.
var webPorts = []string{"80", "443"}

func (p *Proxy) forward(t *tree, allowed []config.ProxyForward, before *tree) (http.Handler, error) {
	f := &forwarder{proxy: p}
	for _, a := range allowed {
		host := hostOnly(strings.TrimPrefix(a.Host, "*"))
		if strings.Trim(host, ".") == "" || strings.Contains(host, "*") {
			return nil, fmt.Errorf("forward: %q is no host", a.Host)
		}
		u, err := p.upstream(t, target{dependency: a.Dependency}, before)
		if err != nil {
			return nil, err
		}
		ports := a.Ports
		if len(ports) == 0 {
			ports = webPorts
		}
		f.allowed = append(f.allowed, allowance{host, ports, u})
	}
	return f, nil
}

// to returns the upstream for a host and a port, or nil.
func (f *forwarder) to(host, port string) *upstream {
	for i := range f.allowed {
		a := &f.allowed[i]
		named := host == a.host || a.host[0] == '.' && strings.HasSuffix(host, a.host) && len(host) > len(a.host)
		if named && slices.Contains(a.ports, port) {
			return a.to
		}
	}
	return nil
}

// ServeHTTP implements [http.Handler].
func (f *forwarder) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	target := r.URL
	if r.Method == http.MethodConnect {
		target = &url.URL{Scheme: "https", Host: r.Host}
	}
	if target.Host == "" || target.Scheme != "http" && target.Scheme != "https" {
		f.proxy.refuse(w, r, &refusal{status: http.StatusBadRequest, reason: "not_a_proxy_request", title: "The request names no server",
			detail: "set this listener as HTTP_PROXY or HTTPS_PROXY; for a base URL configure a listener with to", unsent: true})
		return
	}
	port := target.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[target.Scheme]
	}
	u := f.to(hostOnly(target.Host), port)
	switch {
	case u == nil:
		f.proxy.refuse(w, r, &refusal{status: http.StatusForbidden, reason: "not_allowed", title: "This proxy does not reach " + net.JoinHostPort(hostOnly(target.Host), port),
			detail: "add the host under forward, or the port to its ports, in the proxy's configuration", unsent: true})
	case r.Method == http.MethodConnect:
		f.tunnel(w, r, u.plain.Dependency, net.JoinHostPort(hostOnly(target.Host), port))
	default:
		r.Host = target.Host // RFC 9112, 3.2.2: what the request line says counts
		u.ServeHTTP(w, r)
	}
}

// tunnel connects a client to a server, and copies bytes. The policy sees the connecting alone: its attempts, its
// breaker, its budget. Nothing was sent by then, so that it is always safe to repeat.
func (f *forwarder) tunnel(w http.ResponseWriter, r *http.Request, d *gabion.Dependency, address string) {
	out := http.NewResponseController(w)
	dialer := net.Dialer{Timeout: dialTimeout}
	attempts := 0
	server, err := gabion.Do(r.Context(), d, func(ctx context.Context) (net.Conn, error) {
		attempts = gabion.AttemptNumber(ctx)
		c, err := dialer.DialContext(ctx, "tcp", address)
		if err != nil {
			return nil, classify.NotSent(err)
		}
		return c, nil
	}, gabion.WithIdempotent(), gabion.WithoutHedge(), gabion.WithPartition(address), gabion.WithOperation(http.MethodConnect),
		gabion.WithDiscard(func(result any) {
			if c, ok := result.(net.Conn); ok && c != nil {
				c.Close()
			}
		}))
	if err != nil {
		f.proxy.failed(w, r, err)
		return
	}
	defer server.Close()
	silence := defaultUpgraded
	if own, ok := w.(*patient); ok {
		silence = own.silence
		if r.ProtoMajor != 2 { // in HTTP/2 only a deadline ends a write for which the client gives no room
			w = own.ResponseWriter
			out = http.NewResponseController(w) // relay looks after both sides
		}
	}
	said := strconv.Itoa(attempts)
	w.Header().Set(HeaderAttempts, said)
	f.proxy.tally.tunnels.Add(1)
	if r.ProtoMajor == 2 {
		w.WriteHeader(http.StatusOK)
		_ = out.Flush()
		relay(r.Context(), &stream{r.Body, w, out}, server, silence)
		return
	}
	client, buffered, err := out.Hijack()
	if err != nil {
		f.proxy.failed(w, r, err)
		return
	}
	defer client.Close()
	if _, err := io.WriteString(client, "HTTP/1.1 200 Connection established\r\n"+HeaderAttempts+": "+said+"\r\n\r\n"); err != nil {
		return
	}
	relay(r.Context(), &hijacked{client, buffered}, server, silence)
}

// hijacked is a client's connection, with what net/http has read of it already.
type hijacked struct {
	net.Conn
	buffered io.Reader
}

// Read implements [io.Reader].
func (h *hijacked) Read(p []byte) (int, error) { return h.buffered.Read(p) }

// CloseWrite implements what relay asks for.
func (h *hijacked) CloseWrite() error { return closeWrite(h.Conn) }

// stream is a client's side of CONNECT over HTTP/2.
type stream struct {
	io.ReadCloser
	w   http.ResponseWriter
	out *http.ResponseController
}

// Write implements [io.Writer].
func (s *stream) Write(p []byte) (int, error) {
	n, err := s.w.Write(p)
	if err == nil {
		err = s.out.Flush()
	}
	return n, err
}

// relay copies both ways until both sides have ended, one is broken, nothing moves for too long, or ctx is over.
func relay(ctx context.Context, client io.ReadWriteCloser, server net.Conn, silence time.Duration) {
	idle := time.AfterFunc(silence, func() { cut(client, server) })
	defer idle.Stop()
	defer context.AfterFunc(ctx, func() { cut(client, server) })()
	up := make(chan struct{})
	go func() {
		defer close(up)
		_, err := io.Copy(&watched{server, idle, silence}, client)
		if err != nil || closeWrite(server) != nil {
			server.Close()
		}
	}()
	_, err := io.Copy(&watched{client, idle, silence}, server)
	if err != nil || closeWrite(client) != nil {
		_ = client.Close()
	}
	<-up
}

// cut ends both sides of a tunnel. Whether they have ended already makes no difference.
func cut(client io.Closer, server net.Conn) {
	_ = server.Close()
	_ = client.Close()
}

// watched puts off the end of a tunnel whenever bytes move.
type watched struct {
	io.Writer
	idle    *time.Timer
	silence time.Duration
}

// Write implements [io.Writer].
func (w *watched) Write(p []byte) (int, error) {
	w.idle.Reset(w.silence)
	return w.Writer.Write(p)
}

func closeWrite(c any) error {
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return io.ErrClosedPipe // such a side can only end as a whole
}
