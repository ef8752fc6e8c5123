package gabionproxy

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/gabion-go/gabion/config"
)

// The bounds of a listener, where the configuration does not say others.
const (
	defaultHeader        = 64 << 10 // most servers refuse more than 8 to 64 KiB
	defaultConnections   = 10_000   // each is a goroutine and some KiB, and a file descriptor
	defaultHeaderTimeout = 10 * time.Second
	defaultIdle          = 2 * time.Minute
	defaultStall         = time.Minute
	defaultUpgraded      = 15 * time.Minute // clients that vanish leave no other sign
	defaultMaxUpgraded   = 5000             // half of the connections that a listener has
	defaultDrain         = 25 * time.Second // Kubernetes kills after 30 s
)

// served is one address that is listened at.
type served struct {
	server *http.Server
	at     net.Listener
	secure bool
	stop   context.CancelFunc // ends the contexts of all its requests
	busy   atomic.Int64       // requests, with upgraded connections and tunnels
	shut   atomic.Bool        // no connection is accepted any more, on purpose
}

// open listens at the addresses that are new in a configuration, and returns them. After an error it listens at none of them.
func (p *Proxy) open(t *tree) (map[string]*served, error) {
	opened := map[string]*served{}
	for address, l := range t.listeners {
		if p.served[address] != nil {
			continue
		}
		s, err := p.listenAt(address, l)
		if err != nil {
			for _, s := range opened {
				s.at.Close()
			}
			return nil, err
		}
		opened[address] = s
	}
	return opened, nil
}

// listenTCP opens an address that a key of the file has.
func listenTCP(address, key string) (net.Listener, error) {
	at, err := new(net.ListenConfig).Listen(context.Background(), "tcp", withHost(address))
	if errors.Is(err, syscall.EADDRINUSE) {
		err = fmt.Errorf("%w: another program listens there: stop it, or write another address into %s", err, key)
	}
	return at, err
}

func (p *Proxy) listenAt(address string, l *listener) (*served, error) {
	at, err := listenTCP(address, "proxy.listen")
	if err != nil {
		return nil, err
	}
	c := &l.config
	ctx, stop := context.WithCancel(context.Background())
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	handler, own := p.Handler(address), &served{secure: l.tls != nil, stop: stop}
	counting := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		own.busy.Add(1)
		defer own.busy.Add(-1)
		handler.ServeHTTP(w, r)
	})
	s := &http.Server{
		Handler: counting, MaxHeaderBytes: cmp.Or(c.MaxHeader, defaultHeader), Protocols: protocols, ErrorLog: errorLog(p),
		ReadHeaderTimeout: cmp.Or(c.HeaderTimeout, defaultHeaderTimeout), IdleTimeout: cmp.Or(c.IdleTimeout, defaultIdle),
		HTTP2:       &http.HTTP2Config{WriteByteTimeout: cmp.Or(c.StallTimeout, defaultStall)}, // a client that takes no byte holds all streams of its connection
		BaseContext: func(net.Listener) context.Context { return ctx }, ConnContext: withConn,
	}
	if l.tls != nil {
		s.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}, GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			if l := p.inForce.Load().listeners[address]; l != nil && l.tls != nil {
				return l.tls, nil
			}
			return nil, errors.New("gabionproxy: the listener is gone")
		}}
	}
	own.server, own.at = s, newBounded(at, cmp.Or(c.MaxConnections, defaultConnections))
	return own, nil
}

// overlap reports whether two addresses can't be listened at at once.
func overlap(a, b string) bool {
	hostA, portA, _ := net.SplitHostPort(withHost(a))
	hostB, portB, _ := net.SplitHostPort(withHost(b))
	if portA != portB || portA == "0" {
		return false
	}
	all := func(host string) bool { ip := net.ParseIP(host); return host == "" || ip != nil && ip.IsUnspecified() }
	own := func(host string) bool {
		ip := net.ParseIP(host)
		return host == "localhost" || ip != nil && ip.IsLoopback()
	}
	return hostA == hostB || all(hostA) || all(hostB) || own(hostA) && own(hostB) && (hostA == "localhost" || hostB == "localhost")
}

// withHost puts in what a configuration leaves out: the loopback.
func withHost(address string) string {
	if len(address) > 0 && address[0] == ':' {
		return "127.0.0.1" + address
	}
	return address
}

func (s *served) serve(p *Proxy) {
	var err error
	if s.secure {
		err = s.server.ServeTLS(s.at, "", "")
	} else {
		err = s.server.Serve(s.at)
	}
	if !errors.Is(err, http.ErrServerClosed) && !s.shut.Load() {
		p.options.Log.Error("a listener ended", "address", s.at.Addr().String(), "error", err)
	}
}

// end lets requests come to their end until ctx is over, and cuts those that are left.
func (s *served) end(ctx context.Context) {
	_ = s.server.Shutdown(ctx)
	s.stop() // of requests whose connections were upgraded, which Shutdown does not know
	_ = s.server.Close()
}

// Start listens at all addresses of the configuration, and serves them in the background until [Proxy.Drain]. From then
// on reloads open and close addresses, too.
func (p *Proxy) Start() error {
	p.changing.Lock()
	defer p.changing.Unlock()
	p.served = map[string]*served{}
	opened, err := p.open(p.inForce.Load())
	if err != nil {
		return err
	}
	p.begin(opened)
	p.ready.Store(true)
	return nil
}

func (p *Proxy) begin(opened map[string]*served) {
	for address, s := range opened {
		p.served[address] = s
		go s.serve(p)
		p.options.Log.Info("listening", "address", s.at.Addr().String())
	}
}

// closeOld ends the listeners that a configuration does not have any more.
func (p *Proxy) closeOld(t *tree) {
	for address, s := range p.served {
		if t.listeners[address] != nil {
			continue
		}
		delete(p.served, address)
		s.shut.Store(true)
		s.at.Close() // now, since the next reload may want the address again
		ctx, cancel := context.WithTimeout(context.Background(), cmp.Or(t.config.Drain, defaultDrain))
		go func() {
			defer cancel()
			_ = s.server.Shutdown(ctx)
			quiet(ctx, &s.busy)
			s.end(ctx)
		}()
		p.options.Log.Info("not listening any more", "address", address)
	}
}

// Addr returns where the listener with that address of the configuration really listens, which differs for port 0.
// It is nil for one that is not there.
func (p *Proxy) Addr(address string) net.Addr {
	p.changing.Lock()
	defer p.changing.Unlock()
	if s := p.served[withHost(address)]; s != nil {
		return s.at.Addr()
	}
	return nil
}

// Ready reports whether the proxy serves: it is started and does not drain.
func (p *Proxy) Ready() bool { return p.ready.Load() }

// Drain ends what [Proxy.Start] began. It is not ready from now on; it takes requests for DrainDelay, and then waits
// for those that are there until Drain has passed or ctx is over. It cuts what is left, and returns how many those were.
func (p *Proxy) Drain(ctx context.Context) (cut int64) {
	p.ready.Store(false)
	p.changing.Lock()
	c := p.inForce.Load().config
	all := p.served
	p.served = nil
	p.changing.Unlock()
	select {
	case <-ctx.Done():
	case <-time.After(c.DrainDelay):
	}
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(c.Drain, defaultDrain))
	defer cancel()
	var ending sync.WaitGroup
	for _, s := range all {
		ending.Go(func() {
			_ = s.server.Shutdown(ctx)
		})
	}
	ending.Wait()
	quiet(ctx, &p.tally.out)
	cut = p.tally.out.Load()
	for _, s := range all {
		s.end(ctx)
	}
	return cut
}

// quiet waits until no request is served. Upgraded connections and tunnels are requests that no server knows any more.
func quiet(ctx context.Context, busy *atomic.Int64) {
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	for busy.Load() > 0 {
		select {
		case <-ctx.Done():
			return
		case <-look.C:
		}
	}
}

// serverTLS reads what a listener's TLS is made of. Nil means none.
func serverTLS(c config.ProxyServerTLS) (*tls.Config, error) {
	if c.Cert == "" {
		return nil, nil
	}
	pair, err := tls.LoadX509KeyPair(c.Cert, c.Key)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.Cert, err)
	}
	t := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}, Certificates: []tls.Certificate{pair}}
	if c.ClientCA == "" {
		return t, nil
	}
	text, err := os.ReadFile(c.ClientCA)
	if err != nil {
		return nil, err
	}
	t.ClientCAs, t.ClientAuth = x509.NewCertPool(), tls.RequireAndVerifyClientCert
	if !t.ClientCAs.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s has no certificate in PEM", c.ClientCA)
	}
	return t, nil
}
