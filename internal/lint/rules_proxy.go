package lint

import (
	"cmp"
	"fmt"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/gabion-go/gabion/config"
	"github.com/gabion-go/gabion/internal/policyfile"
)

// proxyRules are about what a file says under proxy.
var proxyRules = []Rule{
	{
		ID: "G085", Name: "proxy-for-all", Severity: Warning,
		Title:  "all who reach the proxy call out with its certificates and its budget",
		across: proxies((*proxied).forAll),
	},
	{
		ID: "G086", Name: "admin-for-all", Severity: Warning,
		Title:  "all who reach the admin listener can read the settings and drain the proxy",
		across: proxies((*proxied).adminForAll),
	},
	{
		ID: "G087", Name: "drain-below-a-call", Severity: Note,
		Title:  "requests are cut at the end that their policy gives more time",
		across: proxies((*proxied).shortDrain),
	},
	{
		ID: "G088", Name: "plain-text-outside", Severity: Warning,
		Title:  "requests leave the machine's networks in plain text",
		across: proxies((*proxied).plainText),
	},
	{
		ID: "G089", Name: "keys-of-all-callers", Severity: Note,
		Title:  "one caller can guess or block the key of another",
		across: proxies((*proxied).sharedKeys),
	},
}

// proxied is a file with a proxy, under one rule.
type proxied struct {
	*run
	file *config.File
}

// proxies makes a rule for files with a proxy one of all files.
func proxies(check func(*proxied)) func(*run, []*config.File) {
	return func(r *run, files []*config.File) {
		for _, f := range files {
			check(&proxied{r, f})
		}
	}
}

func (p *proxied) find(severity Severity, path, reason, proposal string) {
	g := Finding{Rule: p.rule, Severity: severity, Path: path}
	g.Finding = config.Finding(policyfile.Of(p.file).Finding("", path, reason, proposal))
	p.report.Findings = append(p.report.Findings, g)
}

// listener is the path of a listener.
func listener(i int) string { return fmt.Sprintf("proxy.listen[%d]", i) }

// alone reports whether only programs of this machine reach an address.
func alone(address string) bool {
	host := strings.Trim(address[:max(strings.LastIndexByte(address, ':'), 0)], "[]")
	if host == "" || host == "localhost" {
		return true // without a host it is 127.0.0.1
	}
	at, err := netip.ParseAddr(host)
	return err == nil && at.Unmap().IsLoopback()
}

// forAll is rule G085.
func (p *proxied) forAll() {
	for i, l := range p.file.Proxy.Listen {
		if l.Ingress.To != "" || alone(l.Address) || l.TLS.ClientCA != "" {
			continue
		}
		p.find(p.rule.Severity, listener(i)+".address", l.Address+": every program that reaches it calls out through it, and shares its budgets, limits and client certificates",
			"listen at 127.0.0.1, ask clients for a certificate with tls: {client_ca: ...}, or keep others away with a network policy and say so in a gabion:ignore comment")
	}
}

// adminForAll is rule G086.
func (p *proxied) adminForAll() {
	a := p.file.Proxy.Admin
	if a.Address == "" || alone(a.Address) {
		return
	}
	severity, more := p.rule.Severity, ""
	if a.Overrides {
		severity, more = Error, ", and opens and closes breakers"
	}
	p.find(severity, "proxy.admin.address", a.Address+": who reaches it reads the settings, reloads and drains the proxy"+more,
		"listen at 127.0.0.1, or keep all but the probes away with a network policy and say so in a gabion:ignore comment")
}

// usualDrain is what a drain of zero means.
const usualDrain = 25 * time.Second

// shortDrain is rule G087.
func (p *proxied) shortDrain() {
	drain := cmp.Or(p.file.Proxy.Drain, usualDrain)
	seen := map[string]bool{}
	for i, l := range p.file.Proxy.Listen {
		follow := func(path, dependency string) {
			policy, ok := p.file.Policies[dependency]
			call := policy.Resolved().Timeout.Call
			if !ok || seen[dependency] || call <= drain {
				return
			}
			seen[dependency] = true
			p.find(p.rule.Severity, path, fmt.Sprintf("%s may take %s (timeout.call), and proxy.drain is %s: at a restart a request that began a moment before is cut, and its outcome is unknown", dependency, span(call), span(drain)),
				fmt.Sprintf("write drain: %s, and give the pod or unit as much time to stop", span(call)))
		}
		follow(listener(i)+".dependency", l.Dependency)
		for n, r := range l.Routes {
			follow(fmt.Sprintf("%s.routes[%d].dependency", listener(i), n), r.Dependency)
		}
	}
}

// plainText is rule G088.
func (p *proxied) plainText() {
	for i, l := range p.file.Proxy.Listen {
		p.inPlain(listener(i)+".to", l.To)
		for n, r := range l.Routes {
			p.inPlain(fmt.Sprintf("%s.routes[%d].to", listener(i), n), r.To)
		}
	}
}

func (p *proxied) inPlain(path, to string) {
	u, err := url.Parse(to)
	if err != nil || u.Scheme != "http" && u.Scheme != "h2c" || within(u.Hostname()) {
		return
	}
	p.find(p.rule.Severity, path, fmt.Sprintf("%s://%s: bodies, keys and passwords cross networks that are not one's own in plain text", u.Scheme, u.Host), "write https://"+u.Host)
}

// within reports whether a host is, by its name, in networks of one's own: a private address, a name without a dot or
// of a zone that is never public.
func within(host string) bool {
	if at, err := netip.ParseAddr(host); err == nil {
		at = at.Unmap()
		return at.IsLoopback() || at.IsPrivate() || at.IsLinkLocalUnicast()
	}
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	if !strings.Contains(host, ".") {
		return true
	}
	for _, zone := range []string{".local", ".internal", ".localhost", ".svc", ".lan", ".home.arpa", ".test"} {
		if strings.HasSuffix(host, zone) {
			return true
		}
	}
	return false
}

// sharedKeys is rule G089.
func (p *proxied) sharedKeys() {
	for i, l := range p.file.Proxy.Listen {
		if k := l.Ingress.Idempotency; k.Store == "" || k.ScopeHeader != "" || alone(l.Address) {
			continue
		}
		p.find(p.rule.Severity, listener(i)+".ingress.idempotency", "keys are one space for all callers: who knows or guesses another's key hears that it is taken, or blocks it",
			"write scope_header with the header of the authenticated account, if callers do not trust each other")
	}
}
