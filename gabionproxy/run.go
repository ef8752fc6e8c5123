package gabionproxy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/config"
)

// run is one Run.
type run struct {
	file     atomic.Pointer[config.File] // in force
	path     string
	registry *gabion.Registry
	proxy    *Proxy
	options  Options
	stop     context.CancelFunc
	looks    looks
}

// watchEach is how often the file is looked at. It is read, because a mounted ConfigMap changes by a link alone.
const watchEach = time.Second

// Run serves what a file says until ctx is over, and then drains. The file is from config.Load, and the registry was made of
// its policies. A new version of the file is put into force when it is found, or at once after now; one with mistakes
// changes nothing, is logged, and is counted.
//
// Started is called once all addresses are open. It may be nil. The error says what kept it from serving, or how many requests had to be cut at the end.
func Run(ctx context.Context, file *config.File, registry *gabion.Registry, now <-chan os.Signal, o Options, started func(*Proxy)) error {
	p, err := New(file.Proxy, registry, o)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	r := &run{path: file.Name, registry: registry, proxy: p, options: p.options, stop: stop, looks: looks{now: make(chan os.Signal), over: ctx.Done()}}
	r.file.Store(file)
	if err := p.Start(); err != nil {
		return err
	}
	closeAdmin, err := r.admin(file.Proxy.Admin.Address)
	if err != nil {
		kill(p)
		return err
	}
	defer closeAdmin()
	if started != nil {
		started(p)
	}
	go r.looks.pass(ctx, now)
	watch := config.Watching{Apply: r.apply, Failed: r.failed, Interval: watchEach, Now: r.looks.now}
	if err := config.Watch(ctx, file, watch); err != nil {
		kill(p)
		return err
	}
	p.options.Log.Info("draining", "in_flight", p.Stats().InFlight)
	c := p.Config()
	over := time.Now().Add(c.DrainDelay + cmp.Or(c.Drain, defaultDrain))
	cut := p.Drain(context.Background())
	flush(p.options.Telemetry, over)
	if cut > 0 {
		return fmt.Errorf("%w (requests: %d)", ErrCut, cut)
	}
	p.options.Log.Info("drained", "cut", 0)
	return nil
}

// flushTime is what is left of a drain at the least, because what was cut is worth telling.
const flushTime = time.Second

func flush(t Telemetry, over time.Time) {
	if t == nil {
		return
	}
	if least := time.Now().Add(flushTime); over.Before(least) {
		over = least
	}
	ctx, cancel := context.WithDeadline(context.Background(), over)
	defer cancel()
	t.Flush(ctx)
}

// ErrCut says that requests were cut at the end because they took longer than the drain may.
var ErrCut = errors.New("gabionproxy: the drain was over, and what was left was cut")

// kill ends a proxy that served for a moment only.
func kill(p *Proxy) {
	over, cancel := context.WithCancel(context.Background())
	cancel()
	p.Drain(over)
}

// admin serves operators until the function is called, which is after the drain: its end is seen there.
func (r *run) admin(address string) (func(), error) {
	if address == "" {
		return func() {}, nil
	}
	at, err := listenTCP(address, "proxy.admin")
	if err != nil {
		return nil, fmt.Errorf("admin: %w", err)
	}
	a := newAdmin(r)
	s := &http.Server{Handler: a.mux, ReadHeaderTimeout: defaultHeaderTimeout, ErrorLog: errorLog(r.proxy)}
	r.proxy.admin.Store(at.Addr().String())
	r.options.Log.Info("admin", "address", at.Addr().String())
	if on, _ := at.Addr().(*net.TCPAddr); on != nil && !on.IP.IsLoopback() {
		r.options.Log.Warn("other machines reach the admin listener, which has no login", "address", at.Addr().String())
	}
	go func() { _ = s.Serve(at) }()
	return func() {
		_ = s.Close()
		_ = a.page.Close()
	}, nil
}

// AdminAddr returns where the admin listener of [Run] really listens. It is empty without such a listener.
func (p *Proxy) AdminAddr() string {
	at, _ := p.admin.Load().(string)
	return at
}
