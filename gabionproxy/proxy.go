package gabionproxy

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"reflect"
	"sync"
	"sync/atomic"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/config"
	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/policy"
)

// Options are what a [Proxy] takes from the program around it. The zero Options keep no idempotency records and log nothing.
type Options struct {
	// Store opens the store of that name, as config.ProxyIdempotency.Store writes it. It is called again at reloads, and
	// returns the same store for the same name. Nil means that routes with keys are an error.
	Store func(name string) (idempotency.Store, error)

	// CheckStore says what keeps Store from opening the store of that name, as far as the name tells. It opens nothing:
	// dry runs call it in the place of Store. Nil means that names are not looked at.
	CheckStore func(name string) error

	// CloseStore closes what Store opened by that name: no configuration in force names it any more, and its last request has ended. Nil means
	// that stores stay open. It may be called for one that is closed.
	CloseStore func(name string)

	// Metrics makes the handler of /metrics. Nil means the proxy's own numbers alone, as [Stats.Series] has them.
	Metrics func(*Proxy) http.Handler

	// Keys gets an event of policy.KindKeyDecided for each request with a key before a program, as idempotency.RunnerConfig.Stream does.
	// Nil means that nothing does.
	Keys gabion.Observer

	// Telemetry follows the requests of the handlers, and the attempts of these and of transports. Nil means that nothing does.
	Telemetry Telemetry

	// Log gets what happens to the proxy itself, and the lines of the access log. Nil means nothing.
	Log *slog.Logger
}

// Proxy has a handler for each of a configuration's listeners. Make one with [New]. It is safe for concurrent use.
type Proxy struct {
	registry *gabion.Registry
	options  Options
	changing sync.Mutex // held while a configuration is put into force
	inForce  atomic.Pointer[tree]
	served   map[string]*served // by address; nil unless started
	ready    atomic.Bool
	admin    atomic.Value // string: where operators ask
	tally    tally
	bodies   replays
}

// tree is one configuration, ready to serve. It does not change.
type tree struct {
	config    config.Proxy
	listeners map[string]*listener // by the whole address
	upstreams map[upstreamKey]*upstream
	stores    map[string]*stored
	dry       bool // it will not serve: nothing is opened for it that writes
}

// listener serves one address.
type listener struct {
	config  config.ProxyListener
	tls     *tls.Config // nil means plain text
	handler http.Handler
	gate    *gate   // nil without admission
	behind  *behind // the gate, once this is in force
}

// New makes a proxy that calls dependencies of the registry. The error has everything that is wrong with c.
func New(c config.Proxy, registry *gabion.Registry, o Options) (*Proxy, error) {
	if registry == nil {
		return nil, errors.New("gabionproxy: the registry is nil")
	}
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	p := &Proxy{registry: registry, options: o}
	p.bodies.bound(c.BufferMemory)
	t, err := p.build(c, nil, false)
	if err != nil {
		return nil, err
	}
	if err := t.connect(registry); err != nil {
		return nil, err
	}
	p.inForce.Store(t)
	return p, nil
}

// Handler serves the listener of that address, also after a reload. Requests to an address that the configuration
// in force does not have are answered with 503.
func (p *Proxy) Handler(address string) http.Handler {
	address = withHost(address)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		l := p.inForce.Load().listeners[address]
		if l == nil {
			p.refuse(w, r, &refusal{status: http.StatusServiceUnavailable, reason: "no_listener", title: "This listener is not in the configuration any more",
				detail: "use an address that it has", unsent: true})
			return
		}
		if lines := p.inForce.Load().config.AccessLog; lines || p.options.Telemetry != nil {
			p.followed(w, r, l, lines)
			return
		}
		p.serve(w, r, l)
	})
}

// Config returns the configuration in force. It must not be changed.
func (p *Proxy) Config() config.Proxy { return p.inForce.Load().config }

// Reload puts other policies and another configuration into force, or returns what is wrong and changes nothing.
// Requests that are being served go on under what they began with. Dependencies keep what they know, and
// connections stay open to servers that are named in the same way. With dry it says only whether it could be done.
func (p *Proxy) Reload(policies map[string]policy.Policy, c config.Proxy, dry bool) error {
	p.changing.Lock()
	defer p.changing.Unlock()
	before := p.inForce.Load()
	for name, rules := range policies {
		if err := rules.Validate(); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	if fixed := restarts(before.config, c); len(fixed) > 0 && p.served != nil {
		return fmt.Errorf("gabionproxy: %s %s", fixed[0], needsRestart)
	}
	t, err := p.build(c, before, dry)
	if err == nil {
		err = t.known(policies)
	}
	if err != nil || dry {
		t.without(before)
		return err
	}
	var opened map[string]*served
	if p.served != nil {
		if opened, err = p.open(t); err != nil {
			t.without(before)
			return err
		}
	}
	if err := p.registry.Reload(policies); err != nil { // they were valid above
		for _, s := range opened {
			s.at.Close()
		}
		t.without(before)
		return err
	}
	if err := t.connect(p.registry); err != nil { // known has just said that all are there
		return err
	}
	p.inForce.Store(t)
	for _, l := range t.listeners {
		if l.gate != nil {
			l.gate.behind.Store(l.behind)
		}
	}
	p.bodies.bound(c.BufferMemory)
	p.begin(opened)
	p.closeOld(t)
	before.without(t)
	for key, u := range before.upstreams {
		if t.upstreams[key] != u {
			u.retire()
		}
	}
	return nil
}

// build makes a configuration ready. What is as it was before is taken over, with the connections and the learned
// limits that it has.
func (p *Proxy) build(c config.Proxy, before *tree, dry bool) (*tree, error) {
	t := &tree{config: c, dry: dry, listeners: map[string]*listener{}, upstreams: map[upstreamKey]*upstream{}, stores: map[string]*stored{}}
	var wrong []error
	for _, l := range c.Listen {
		ready, err := p.listen(t, l, before)
		if err != nil {
			wrong = append(wrong, fmt.Errorf("%s: %w", l.Address, err))
			continue
		}
		t.listeners[withHost(l.Address)] = ready
	}
	return t, errors.Join(wrong...)
}

// known reports those dependencies that policies do not have.
func (t *tree) known(policies map[string]policy.Policy) error {
	var wrong []error
	for key := range t.upstreams {
		if _, ok := policies[key.dependency]; !ok && key.dependency != "" {
			wrong = append(wrong, fmt.Errorf("gabionproxy: there is no dependency %q", key.dependency))
		}
	}
	return errors.Join(wrong...)
}

// connect gives each server that is new the dependency whose policy its requests follow.
func (t *tree) connect(registry *gabion.Registry) error {
	var wrong []error
	for _, u := range t.upstreams {
		wrong = append(wrong, u.connect(registry))
	}
	return errors.Join(wrong...)
}

func (p *Proxy) listen(t *tree, c config.ProxyListener, before *tree) (*listener, error) {
	l := &listener{config: c}
	var b *listener
	if before != nil {
		b = before.listeners[withHost(c.Address)]
	}
	var err error
	switch {
	case c.Ingress.To != "" && b != nil && reflect.DeepEqual(b.config.Ingress, c.Ingress):
		l.handler, l.gate, l.behind = b.handler, b.gate, b.behind
		if store := c.Ingress.Idempotency.Store; store != "" {
			t.stores[store] = before.stores[store]
		}
	case c.Ingress.To != "":
		err = p.ingress(t, before, l, b)
	case len(c.Forward) > 0:
		l.handler, err = p.forward(t, c.Forward, before)
	case len(c.Routes) > 0:
		l.handler, err = p.routes(t, c.Routes, before)
	default:
		l.handler, err = p.upstream(t, target{to: c.To, dependency: c.Dependency, tls: c.ToTLS}, before)
	}
	if err == nil {
		l.tls, err = serverTLS(c.TLS)
	}
	if err != nil {
		return nil, err
	}
	return l, nil
}
