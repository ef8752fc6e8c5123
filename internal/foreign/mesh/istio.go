package mesh

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gabion-go/gabion/internal/foreign"
	"github.com/gabion-go/gabion/internal/yamlstrict"
	"github.com/gabion-go/gabion/policy"
)

func likeIstio(_ []byte, documents []*yamlstrict.Tree) bool {
	for _, o := range objects(documents) {
		kind := o.Get("kind")
		if strings.HasPrefix(textOf(o.Get("apiVersion")), "networking.istio.io/") && slices.Contains([]string{"VirtualService", "DestinationRule", "EnvoyFilter"}, textOf(kind)) {
			return true
		}
	}
	return false
}

// istio is a file of Istio.
type istio struct {
	*foreign.Walker
	services []*foreign.Value          // VirtualServices
	roots    map[string]*foreign.Value // routes that hand over, by where to
	rules    []*destination
}

// destination is a DestinationRule.
type destination struct {
	*foreign.Value
	host    string // service.namespace
	written string // as the file has it
	used    map[string]bool
}

func readIstio(f *foreign.File) *foreign.Import {
	r := &istio{Walker: foreign.NewWalker(f, "istio")}
	for _, o := range objects(f.Documents) {
		switch textOf(o.Get("kind")) {
		case "VirtualService":
			if v := r.Read(o, istioVirtualService, ""); v != nil {
				r.services = append(r.services, v)
			}
		case "DestinationRule":
			if v := r.Read(o, istioDestinationRule, ""); v != nil {
				d := &destination{Value: v, used: map[string]bool{}}
				d.written = v.Get("spec.host").Word("")
				d.host = hostOf(d.written, namespaceOf(v))
				if d.host == "" {
					r.Wrong(v, "a DestinationRule has no spec.host", "write the service that it is for")
				}
				r.rules = append(r.rules, d)
			}
		default:
			other(r.Walker, o)
		}
	}
	slices.SortStableFunc(r.rules, older)
	for _, v := range r.services {
		for i, http := range v.Get("spec.http").All() {
			r.http(v, http, i)
		}
		if v.Get("spec.http") == nil && v.Get("spec.tcp") == nil && v.Get("spec.tls") == nil {
			r.Wrong(v, "a VirtualService has no route", "write spec.http")
		}
	}
	for _, d := range r.rules {
		r.alone(d)
	}
	for _, t := range r.File.Documents {
		headers(r.Walker, t, "")
	}
	return r.Done()
}

// hostOf brings the spellings of a service's name to one: stock, stock.shop, stock.shop.svc.cluster.local.
func hostOf(host, namespace string) string {
	host = strings.TrimSuffix(host, ".svc.cluster.local")
	host = strings.TrimSuffix(host, ".svc")
	if host == "" || strings.Contains(host, ".") || strings.HasPrefix(host, "*") {
		return host
	}
	return host + "." + namespace
}

func namespaceOf(v *foreign.Value) string { return v.Get("metadata.namespace").Word("default") }

// begun is a plan with Istio's defaults.
func begun(title string, at *foreign.Value) *plan {
	p := planned("Istio", title, at)
	p.tries, p.base, p.longest = by(3), by(25*time.Millisecond), by(250*time.Millisecond)
	p.breaker, p.budget = ejection{open: by(30 * time.Second), most: by(300 * time.Second)}, budget{shape: policy.BudgetShare}
	p.repeats = []string{unsent, "unavailable", "cancelled"} // the list without retryOn
	return p
}

// http reads one route of a VirtualService.
func (r *istio) http(object, v *foreign.Value, i int) {
	if v.Get("redirect") == nil && v.Get("directResponse") == nil && v.Get("delegate") == nil && len(v.Get("route").All()) == 0 {
		r.Wrong(v, "goes nowhere", "write a route with a destination")
		return
	}
	if len(v.Get("route").All()) == 0 {
		return // it is answered by the mesh
	}
	name := namespaceOf(object) + "/" + object.Get("metadata.name").Word("unnamed")
	p := begun(fmt.Sprintf("VirtualService %s, http[%d]", name, i), v)
	root := r.root(object)
	if call := cmp.Or(v.Get("timeout"), root.Get("timeout")); call != nil {
		if p.call.take(call, call.Span); call.Span == 0 {
			p.call.is = none
		}
	}
	r.retries(cmp.Or(v.Get("retries"), root.Get("retries")), v, p)
	r.destination(p, object, v)
	label := v.Get("name").Word("")
	if label == "" && len(object.Get("spec.http").All()) > 1 {
		label = strconv.Itoa(i)
	}
	if label != "" {
		name += "/" + label
	}
	p.route(r.Walker, strings.TrimPrefix(name, "default/"))
}

func (r *istio) retries(of, v *foreign.Value, p *plan) {
	if at := of.Get("retryOn"); at != nil {
		retryOn(r.Walker, p, at, nil, nil, true)
	}
	n := of.Get("attempts")
	if of == nil || n == nil && of.Tree.Get("attempts") != nil { // a mistake, which is said
		return
	}
	p.tries.take(of, 1) // attempts of zero, written or not, switch retries off
	whole(&p.tries, n, 1)
	if p.tries.is == 1 {
		p.statuses, p.codes = said[[]int]{}, said[[]policy.GRPCCode]{}
		r.Remark(n, foreign.Kept, "no retries")
		for _, key := range []string{"perTryTimeout", "retryOn", "retryRemoteLocalities"} {
			if at := of.Get(key); at != nil {
				r.Wrong(at, "has no effect without attempts, and Istio refuses it", "write attempts, or leave it out")
			}
		}
		for _, key := range []string{"backoff", "retryIgnorePreviousHosts"} {
			r.Remark(of.Get(key), foreign.Lost, "without attempts Istio makes no retries and ignores it")
		}
		return
	}

	span(&p.attempt, of.Get("perTryTimeout"))
	if at := of.Get("backoff"); at != nil {
		p.base.take(at, at.Span)
		p.longest.is = tenfold(at.Span)
	}
}

// tenfold is the longest wait that Envoy derives from its first one.
func tenfold(d time.Duration) time.Duration { return min(d, math.MaxInt64/10) * 10 }

// destination adds the DestinationRules of a route's first destination that has some.
func (r *istio) destination(p *plan, object, v *foreign.Value) {
	for _, to := range v.Get("route").All() {
		host := hostOf(to.Get("destination.host").Word(""), namespaceOf(object))
		if all := r.of(host, namespaceOf(object)); host != "" && all != nil {
			r.rule(p, all, to.Get("destination.subset").Word(""), to.Get("destination.port.number").NumberOr(0))
			return
		}
	}
}

func (r *istio) pool(p *plan, v *foreign.Value) {
	unbounded := func(at *foreign.Value) { r.Remark(at, foreign.Kept, "0 is Istio's default: no bound") }
	p.slots(r.Walker, v.Get("tcp.maxConnections"), v.Get("http.http2MaxRequests"), unbounded)
	if at := v.Get("http.http1MaxPendingRequests"); at != nil {
		switch {
		case at.Number == 0:
			unbounded(at)
		case p.limit.at == nil:
			r.Remark(at, foreign.Lost, "without a bound of connections or requests nothing waits there; here gabion's own queue counts, 200")
		default:
			p.queue.take(at, int(min(at.Number, maxQueue)))
		}
	}
	if at := v.Get("http.maxRetries"); at != nil {
		if at.Number == 0 {
			unbounded(at)
			return
		}
		p.budget.bounded = true
		whole(&p.budget.least, at, 0)
	}
}

// retryBudget replaces maxRetries.
func (r *istio) retryBudget(p *plan, v *foreign.Value) {
	if v == nil {
		return
	}
	if at := p.budget.least.at; at != nil && strings.HasPrefix(at.Path, strings.TrimSuffix(v.Path, "retryBudget")) {
		r.Remark(p.budget.least.at, foreign.Lost, "retryBudget takes its place")
	}
	p.budget.inFlight(v, v.Get("percent"))
}

func (r *istio) outliers(p *plan, v *foreign.Value) {
	if v == nil {
		return
	}
	e := &p.breaker
	most, healthy := v.Get("maxEjectionPercent"), v.Get("minHealthPercent")
	e.whole = most.NumberOr(10) >= 100 && healthy.NumberOr(0) == 0
	if healthy != nil && healthy.Number == 0 {
		r.Remark(healthy, foreign.Kept, "")
	}
	e.failures = by(5)
	for _, key := range []string{"consecutive5xxErrors", "consecutiveGatewayErrors", "consecutiveErrors"} {
		at := v.Get(key)
		switch {
		case at == nil:
		case at.Number == 0:
			if r.Remark(at, foreign.Kept, "0 switches this rule off"); key == "consecutive5xxErrors" {
				e.failures.take(at, 0)
			}
		default:
			e.row(r.Walker, at, "consecutive5xxErrors")
		}
	}
	span(&e.open, v.Get("baseEjectionTime"))
	if !e.whole {
		r.partly(v, most, healthy)
	}
}

// partly says what becomes of rules that take out some hosts at most: a service that fails as a whole still
// gets its load, which no breaker of gabion does.
func (r *istio) partly(v, most, healthy *foreign.Value) {
	share := strconv.FormatFloat(most.NumberOr(10), 'f', -1, 64)
	text := "at most " + share + " % of the hosts are out, so a service that fails as a whole keeps its load; gabion's breaker is of the whole and keeps its defaults: 20 failures in a row over 10s, 2s open"
	if healthy.NumberOr(0) > 0 {
		text = "with few healthy hosts the mesh sends to all again, so a service that fails as a whole keeps its load; gabion's breaker is of the whole and keeps its defaults: 20 failures in a row over 10s, 2s open"
	}
	if most != nil {
		r.Remark(most, foreign.Lost, text)
	}
	for _, key := range []string{"consecutive5xxErrors", "consecutiveGatewayErrors", "consecutiveErrors", "baseEjectionTime"} {
		if at := v.Get(key); at != nil && !(at.Number == 0 && at.Span == 0) {
			r.Remark(at, foreign.Lost, text)
		}
	}
}

// alone makes routes of what no VirtualService of the file leads to.
func (r *istio) alone(d *destination) {
	name := namespaceOf(d.Value) + "/" + d.Get("metadata.name").Word("unnamed")
	base := strings.TrimPrefix(name, "default/")
	if !d.used[""] {
		p := begun("DestinationRule "+name, d.Get("spec"))
		r.rule(p, []*destination{d}, "", 0)
		p.route(r.Walker, base)
	}
	for i, of := range d.Get("spec.trafficPolicy.portLevelSettings").All() {
		port := of.Get("port.number").NumberOr(0)
		p := begun(fmt.Sprintf("DestinationRule %s, port %v", name, port), of)
		r.rule(p, []*destination{d}, "", port)
		p.route(r.Walker, fmt.Sprintf("%s/port-%v", base, orNumber(port, i)))
	}
	for _, s := range d.Get("spec.subsets").All() {
		subset := s.Get("name").Word("")
		if s.Get("trafficPolicy") == nil || subset == "" || d.used[subset] {
			continue
		}
		p := begun("DestinationRule "+name+", subset "+subset, s)
		r.rule(p, []*destination{d}, subset, 0)
		p.route(r.Walker, base+"/"+subset)
	}
}

func orNumber(n float64, otherwise int) float64 {
	if n == 0 {
		return float64(otherwise)
	}
	return n
}
