package config

import (
	"cmp"
	"fmt"
	"net/netip"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/gabion-go/gabion/internal/suggest"
	"github.com/gabion-go/gabion/internal/yamlstrict"
	"github.com/gabion-go/gabion/policy"
)

// readProxy reads and judges the section proxy.
func (r *reader) readProxy(node yamlstrict.Node, dependencies map[string]yamlstrict.Node) {
	if !node.Set() {
		return
	}
	p := &r.file.Proxy
	places, found := node.Decode(p)
	r.adopt("proxy", found)
	r.file.proxy = placesBelow("proxy", node.Key, places)
	j := proxyJudge{r: r, places: places, key: node.Key, dependencies: dependencies, broken: len(found) > 0}
	j.numbers("", reflect.ValueOf(*p))
	if len(p.Listen) == 0 && len(found) == 0 {
		j.fail("listen", "there is no listener", "write listen: [{address: 127.0.0.1:9001, to: https://api.example, dependency: name}]")
	}
	taken := map[string]string{}
	for i := range p.Listen {
		j.listener(fmt.Sprintf("listen[%d]", i), &p.Listen[i], taken)
	}
	if p.Admin.Address != "" {
		j.address("admin.address", p.Admin.Address, taken)
	}
}

// placesBelow are places under the name of their section, and that of the section.
func placesBelow(name string, key yamlstrict.Place, places map[string]yamlstrict.Place) map[string]yamlstrict.Place {
	all := make(map[string]yamlstrict.Place, len(places)+1)
	all[name] = key
	for path, at := range places {
		all[name+"."+path] = at
	}
	return all
}

// proxyJudge says what is wrong with a proxy, beyond its spelling.
type proxyJudge struct {
	r            *reader
	places       map[string]yamlstrict.Place
	key          yamlstrict.Place
	dependencies map[string]yamlstrict.Node
	broken       bool // a key could not be read, which may be the one that seems to be missing
}

func (j *proxyJudge) fail(path, reason, proposal string) {
	at := j.key
	for p := path; p != ""; p = parent(p) {
		if place := j.places[p]; place.Line > 0 {
			at = place
			break
		}
	}
	j.r.fail(at, "proxy: "+path+": "+reason, proposal)
}

func (j *proxyJudge) listener(at string, l *ProxyListener, taken map[string]string) {
	j.address(at+".address", l.Address, taken)
	purposes := 0
	for _, has := range []bool{l.To != "", len(l.Routes) > 0, len(l.Forward) > 0, l.Ingress.To != ""} {
		if has {
			purposes++
		}
	}
	if purposes != 1 && !j.broken {
		j.fail(at, fmt.Sprintf("it has %d purposes", purposes), "write one of to, routes, forward and ingress.to")
	}
	if l.To != "" || l.Dependency != "" {
		j.target(at, l.To, l.Dependency, l.ToTLS)
	}
	for i, route := range l.Routes {
		at := fmt.Sprintf("%s.routes[%d]", at, i)
		j.target(at, route.To, route.Dependency, route.ToTLS)
		if route.Path != "" && !strings.HasPrefix(route.Path, "/") {
			j.fail(at+".path", "it does not begin with a slash", "write /"+route.Path)
		}
		j.host(at+".host", route.Host, false)
	}
	for i, f := range l.Forward {
		at := fmt.Sprintf("%s.forward[%d]", at, i)
		if f.Host == "" {
			j.fail(at+".host", "it is missing", "name the host that clients may reach; there is no word for all")
		}
		j.host(at+".host", f.Host, true)
		j.dependency(at+".dependency", f.Dependency)
	}
	j.pair(at+".tls", l.TLS.Cert, l.TLS.Key)
	if l.TLS.ClientCA != "" && l.TLS.Cert == "" {
		j.fail(at+".tls.client_ca", "there is no cert", "a listener that asks for certificates has one itself")
	}
	j.ingress(at+".ingress", &l.Ingress)
}

func (j *proxyJudge) ingress(at string, in *ProxyIngress) {
	if in.To == "" {
		if !reflect.ValueOf(*in).IsZero() {
			j.fail(at+".to", "it is missing", "write the program's address, such as http://127.0.0.1:3000")
		}
		return
	}
	j.url(at+".to", in.To)
	for _, text := range in.Trusted {
		if _, err := netip.ParsePrefix(text); err != nil && !isIP(text) {
			j.fail(at+".trusted", fmt.Sprintf("%.60q is no address", text), "write a network such as 10.0.0.0/8, or one address")
		}
	}
	key := in.Idempotency
	switch {
	case key.Store == "" && !reflect.ValueOf(key).IsZero():
		j.fail(at+".idempotency.store", "it is missing", "write a file such as gabion.db, or the URL of a server")
	case key.Store != "" && len(key.Routes) == 0:
		j.fail(at+".idempotency.routes", "no route is named", "write those that have keys, such as [POST /orders]")
	}
	for _, route := range key.Routes {
		if method, path, ok := strings.Cut(route, " "); !ok || method == "" || !strings.HasPrefix(path, "/") {
			j.fail(at+".idempotency.routes", fmt.Sprintf("%.60q is no route", route), "write a method and a path, such as POST /orders")
		}
	}
	if a := in.Admission; a.TenantShare != 0 && (a.TenantHeader == "" || a.TenantShare < 0 || a.TenantShare > 1) {
		j.fail(at+".admission.tenant_share", "it can't be meant", "write a number up to 1, and tenant_header beside it")
	}
}

func (j *proxyJudge) target(at, to, dependency string, tls ProxyClientTLS) {
	if to == "" {
		j.fail(at+".to", "it is missing", "write the base URL of the server, such as https://api.example")
	} else if u := j.url(at+".to", to); u != nil && u.Scheme != "https" && tls != (ProxyClientTLS{}) {
		j.fail(at+".to_tls", "the URL is not https", "write https://"+u.Host)
	}
	j.dependency(at+".dependency", dependency)
	j.pair(at+".to_tls", tls.Cert, tls.Key)
}

func (j *proxyJudge) dependency(at, name string) {
	if name == "" {
		j.fail(at, "it is missing", "name one of the file's dependencies")
		return
	}
	if _, known := j.dependencies[name]; known {
		return
	}
	names := make([]string, 0, len(j.dependencies))
	for name := range j.dependencies {
		names = append(names, name)
	}
	j.fail(at, fmt.Sprintf("there is no dependency %.60q", name), suggest.For(name, names, "write it under dependencies"))
}

func (j *proxyJudge) url(at, text string) *url.URL {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" && u.Scheme != "h2c":
		j.fail(at, "it is no base URL", "write https://, http:// or h2c://, and a host")
		return nil
	case u.RawQuery != "" || u.Fragment != "" || u.User != nil:
		j.fail(at, "a base URL has a host and a path alone", "remove what is not")
		return nil
	}
	return u
}

func (j *proxyJudge) host(at, host string, wild bool) {
	below := host
	if wild {
		below = strings.TrimPrefix(host, "*.")
	}
	if strings.HasPrefix(below, ".") || host != "" && below == "" {
		j.fail(at, fmt.Sprintf("%.60q is no host", host), "write the name that is missing")
		return
	}
	host = below
	if strings.ContainsAny(host, ":/*@ ") && !isIP(strings.Trim(host, "[]")) {
		j.fail(at, fmt.Sprintf("%.60q is no host", host), "write a name without scheme, port and path")
	}
}

func (j *proxyJudge) address(at, address string, taken map[string]string) {
	i := strings.LastIndexByte(address, ':')
	host, port := address[:max(i, 0)], address[i+1:]
	if n, err := strconv.Atoi(port); i < 0 || err != nil || n < 0 || n > 65535 || strings.Contains(strings.Trim(host, "[]"), ":") && !isIP(strings.Trim(host, "[]")) {
		j.fail(at, fmt.Sprintf("%.60q is no address", address), "write host:port, such as 127.0.0.1:9001")
		return
	}
	host = cmp.Or(host, "127.0.0.1")
	address = host + ":" + port
	if before := taken[address]; before != "" && port != "0" {
		j.fail(at, "it is that of "+before, "give each listener a port of its own")
	}
	taken[address] = strings.TrimSuffix(at, ".address")
}

func isIP(text string) bool {
	_, err := netip.ParseAddr(text)
	return err == nil
}

func (j *proxyJudge) pair(at, cert, key string) {
	if (cert == "") != (key == "") {
		j.fail(at, "cert and key belong together", "write both")
	}
}

// numbers refuses off and negative values, which no number of a proxy can have, except for bounds.
func (j *proxyJudge) numbers(path string, v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for i, name := range namesOf(v.Type()) {
			at := yamlstrict.Snake(name)
			if path != "" {
				at = path + "." + at
			}
			j.numbers(at, v.Field(i))
		}
	case reflect.Slice:
		for i := range v.Len() {
			j.numbers(fmt.Sprintf("%s[%d]", path, i), v.Index(i))
		}
	case reflect.Int, reflect.Int64:
		if n := v.Int(); n < 0 && !(n == policy.Learned && strings.HasSuffix(path, ".admission.limit")) {
			j.fail(path, "it can't be off", "write a value, or leave the key out for the default")
		} else if v.Type() == reflect.TypeFor[time.Duration]() && n > 0 && n < int64(time.Millisecond) {
			j.fail(path, "it is below 1ms", "write a larger one")
		}
	}
}
