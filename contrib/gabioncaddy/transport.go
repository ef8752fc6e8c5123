package gabioncaddy

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/headers"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"

	"github.com/gabion-go/gabion/gabionproxy"
)

func init() { caddy.RegisterModule(new(Transport)) }

// Transport is Caddy's module http.reverse_proxy.transport.gabion. Caddy makes and provisions it. The zero value lacks a
// file and a dependency. It is safe for concurrent use once it is provisioned.
type Transport struct {
	// Config is gabion's file of policies, by a path that begins where Caddy was started. It may have global placeholders, such as
	// {env.GABION}. It must be there. Listeners in it are ignored.
	Config string `json:"config,omitempty"`

	// Dependency is whose policy requests follow. The file must have it, and it must not have endpoints.
	Dependency string `json:"dependency,omitempty"`

	// HTTP sends the attempts: it has all that Caddy's transport http has, such as tls. Nil means that transport's defaults.
	HTTP *reverseproxy.HTTPTransport `json:"http,omitempty"`

	group *group
	under string // the dependency that the group knows
	sends http.RoundTripper
}

// CaddyModule returns the module's name.
func (*Transport) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.reverse_proxy.transport.gabion", New: func() caddy.Module { return new(Transport) }}
}

// Provision reads the file, or joins those who have read it. It returns what is wrong with the file, and with a
// reverse_proxy that repeats requests or counts failures itself.
func (t *Transport) Provision(ctx caddy.Context) error {
	if t.Config == "" || t.Dependency == "" {
		return errors.New("transport gabion needs a config, which is gabion's file, and the name of a dependency in it")
	}
	if err := layers(ctx.Modules()); err != nil {
		return err
	}
	repl := caddy.NewReplacer()
	file, err := repl.ReplaceOrErr(t.Config, true, true)
	if err != nil {
		return fmt.Errorf("config: %w", err)
	}
	t.HTTP = cmp.Or(t.HTTP, new(reverseproxy.HTTPTransport))
	if t.HTTP.ProxyProtocol != "" {
		return errors.New("http: proxy_protocol is not supported: its connections are named for clients and not for the server, and so would its breakers be")
	}
	if err := t.HTTP.Provision(ctx); err != nil {
		return fmt.Errorf("http: %w", err)
	}
	g, err := join(file, t.Dependency)
	if err != nil {
		return err
	}
	t.group, t.under = g, t.Dependency
	t.sends, err = gabionproxy.NewTransport(g.proxy, t.Dependency, attempts{t.HTTP})
	return err
}

// layers refuses a reverse_proxy that does what the policy does, a second time.
func layers(above []caddy.Module) error {
	for _, module := range above {
		h, ok := module.(*reverseproxy.Handler)
		if !ok {
			continue
		}
		if lb := h.LoadBalancing; lb != nil && (lb.Retries != 0 || lb.TryDuration != 0) {
			return errors.New("reverse_proxy has lb_retries or lb_try_duration, which would multiply the attempts of transport gabion: remove them, and set retry.attempts in gabion's file")
		}
		if h.CBRaw != nil {
			return errors.New("reverse_proxy has a circuit_breaker, and so has transport gabion: remove it")
		}
		if checks := h.HealthChecks; checks != nil && checks.Passive != nil && counts(checks.Passive) {
			return errors.New("reverse_proxy has passive health checks (fail_duration, unhealthy_status, unhealthy_latency), which would take refusals of transport gabion for failures of the server: " +
				"remove them; the breaker in gabion's file does that work")
		}
	}
	return nil
}

// counts reports whether passive checks count failures. With no duration Caddy forgets each at once.
func counts(p *reverseproxy.PassiveHealthChecks) bool {
	return p.FailDuration != 0 || len(p.UnhealthyStatus) > 0 || p.UnhealthyLatency != 0
}

// Cleanup lets go of the file and of idle connections. The state of the file's dependencies stays as long as another
// configuration uses it.
func (t *Transport) Cleanup() error {
	if t.HTTP != nil {
		_ = t.HTTP.Cleanup() // which closes idle connections
	}
	if t.group == nil {
		return nil
	}
	g := t.group
	t.group = nil
	return g.leave(t.under)
}

// RoundTrip sends a request by its dependency's policy. Refusals are answers, with problem+json. Active health checks are
// sent without the policy, since their result is about the server alone.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Context().Value(caddyhttp.VarsCtxKey) == nil {
		return t.HTTP.RoundTrip(r)
	}
	if r.URL.Scheme == "" {
		r = r.WithContext(r.Context())
		u := *r.URL
		r.URL = &u
		t.HTTP.SetScheme(r)
	}
	return t.sends.RoundTrip(r)
}

// UnmarshalCaddyfile reads
//
//	transport gabion {
//		config     <file>
//		dependency <name>
//		http {
//			<what transport http has>
//		}
//	}
func (t *Transport) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the name
	if d.NextArg() {
		return d.Err("transport gabion takes no arguments: write config and dependency into its block")
	}
	for d.NextBlock(0) {
		var err error
		switch key := d.Val(); key {
		case "config":
			err = word(d, &t.Config)
		case "dependency":
			err = word(d, &t.Dependency)
		case "http":
			if t.HTTP != nil {
				return d.Err("http is there twice")
			}
			t.HTTP = new(reverseproxy.HTTPTransport)
			err = t.HTTP.UnmarshalCaddyfile(d.NewFromNextSegment())
		default:
			return d.Errf("transport gabion has no %q: it has config, dependency and http; settings of connections, such as tls, go into http", key)
		}
		if err != nil {
			return err
		}
	}
	switch "" {
	case t.Config:
		return d.Err("transport gabion needs config, which is gabion's file")
	case t.Dependency:
		return d.Err("transport gabion needs dependency, which is a name in gabion's file")
	}
	return nil
}

// word reads the one argument of a key that is there once.
func word(d *caddyfile.Dispenser, to *string) error {
	key := d.Val()
	if *to != "" {
		return d.Errf("%s is there twice", key)
	}
	if !d.AllArgs(to) || strings.TrimSpace(*to) == "" {
		return d.Errf("%s takes one argument", key)
	}
	return nil
}

// TLSEnabled says whether upstreams are spoken to with TLS.
func (t *Transport) TLSEnabled() bool { return t.HTTP != nil && t.HTTP.TLSEnabled() }

// EnableTLS is called by Caddy for upstreams with https.
func (t *Transport) EnableTLS(base *reverseproxy.TLSConfig) error {
	t.HTTP = cmp.Or(t.HTTP, new(reverseproxy.HTTPTransport))
	return t.HTTP.EnableTLS(base)
}

// EnableH2C is called by Caddy for upstreams with h2c.
func (t *Transport) EnableH2C() error {
	t.HTTP = cmp.Or(t.HTTP, new(reverseproxy.HTTPTransport))
	return t.HTTP.EnableH2C()
}

// OverrideHealthCheckScheme is called by Caddy for active health checks.
func (t *Transport) OverrideHealthCheckScheme(base *url.URL, port string) {
	t.HTTP.OverrideHealthCheckScheme(base, port)
}

// RequestHeaderOps are what transport http does to headers: with TLS, the upstream's own host.
func (t *Transport) RequestHeaderOps() *headers.HeaderOps { return t.HTTP.RequestHeaderOps() }

var (
	_ caddy.Provisioner                                = (*Transport)(nil)
	_ caddy.CleanerUpper                               = (*Transport)(nil)
	_ caddyfile.Unmarshaler                            = (*Transport)(nil)
	_ reverseproxy.TLSTransport                        = (*Transport)(nil)
	_ reverseproxy.H2CTransport                        = (*Transport)(nil)
	_ reverseproxy.HealthCheckSchemeOverriderTransport = (*Transport)(nil)
	_ reverseproxy.RequestHeaderOpsTransport           = (*Transport)(nil)
)
