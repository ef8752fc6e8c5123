package mesh

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gabion-go/gabion/internal/foreign"
	"github.com/gabion-go/gabion/internal/yamlstrict"
	"github.com/gabion-go/gabion/policy"
)

// envoyKind says what a document of Envoy is: by its @type, or by keys that only one of them has.
func envoyKind(t *yamlstrict.Tree) string {
	if _, name, ok := strings.Cut(textOf(t.Get("@type")), "/envoy."); ok {
		return name[strings.LastIndexByte(name, '.')+1:]
	}
	has := func(keys ...string) bool {
		for _, pair := range t.Pairs {
			for _, key := range keys {
				if protoKey(pair.Key.Text) == protoKey(key) {
					return true
				}
			}
		}
		return false
	}
	switch {
	case textOf(t.Get("kind")) != "": // of Kubernetes
		return ""
	case has("static_resources", "dynamic_resources"):
		return "Bootstrap"
	case has("resources") && (has("version_info", "type_url", "nonce") || len(treesOf(t.Get("resources"))) > 0 && treesOf(t.Get("resources"))[0].Get("@type") != nil):
		return "DiscoveryResponse"
	case has("virtual_hosts"):
		return "RouteConfiguration"
	case has("filter_chains", "api_listener"):
		return "Listener"
	case has("name") && has("circuit_breakers", "outlier_detection", "load_assignment", "lb_policy", "connect_timeout"):
		return "Cluster"
	}
	return ""
}

func likeEnvoy(_ []byte, documents []*yamlstrict.Tree) bool {
	return slices.ContainsFunc(documents, func(t *yamlstrict.Tree) bool { return envoyKind(t) != "" })
}

// envoy is a file of Envoy.
type envoy struct {
	*foreign.Walker
	clusters []*foreign.Value
	named    map[string]*foreign.Value // the first cluster of a name
	routes   []routesOf
	used     map[*foreign.Value]bool
}

// routesOf is a RouteConfiguration, and the connection manager that it stands in, if any.
type routesOf struct{ config, manager *foreign.Value }

func readEnvoy(f *foreign.File) *foreign.Import {
	r := &envoy{Walker: foreign.NewWalker(f, "envoy"), named: map[string]*foreign.Value{}, used: map[*foreign.Value]bool{}}
	for _, t := range f.Documents {
		r.document(t, "")
	}
	for _, c := range r.clusters {
		if name := c.Get("name").Word(""); r.named[name] == nil {
			r.named[name] = c
		}
	}
	for _, of := range r.routes {
		for i, host := range of.config.Get("virtual_hosts").All() {
			for j, route := range host.Get("routes").All() {
				if route.Get("route") != nil {
					r.route(of, host, route, i, j)
				}
			}
		}
	}
	for i, c := range r.clusters {
		r.idle(c)
		if !r.used[c] {
			name := c.Get("name").Word(fmt.Sprint("cluster-", i))
			p := r.begun("cluster "+name, c)
			r.cluster(p, c, "DEFAULT")
			p.route(r.Walker, name)
		}
	}
	for _, t := range r.File.Documents {
		headers(r.Walker, t, "")
	}
	return r.Done()
}

// idle says of thresholds that no route has their priority.
func (r *envoy) idle(c *foreign.Value) {
	if !r.used[c] {
		return
	}
	for _, t := range c.Get("circuit_breakers.thresholds").All() {
		if priority := t.Get("priority").Word("DEFAULT"); !r.used[t] {
			for _, at := range t.All() {
				r.Remark(at, foreign.Lost, "it is for routes of priority "+priority+": no route of this file that leads here has it, or it is not the first for them, which Envoy takes")
			}
		}
	}
}

// document reads a document, or a resource of one.
func (r *envoy) document(t *yamlstrict.Tree, path string) {
	switch envoyKind(t) {
	case "Bootstrap":
		v := r.Read(t, envoyBootstrap, path)
		r.clusters = append(r.clusters, v.Get("static_resources.clusters").All()...)
		for _, layer := range treesOf(layered(t)) {
			r.runtime(layer.Get("static_layer"), "")
		}
		for _, l := range v.Get("static_resources.listeners").All() {
			r.listener(l)
		}
	case "DiscoveryResponse":
		for i, item := range treesOf(t.Get("resources")) {
			at := fmt.Sprintf("%sresources[%d]", path, i)
			if path != "" || envoyKind(item) == "DiscoveryResponse" { // one does not hold another
				other(r.Walker, item)
				continue
			}
			r.document(item, at)
		}
	case "RouteConfiguration":
		if v := r.Read(t, envoyRoutes, path); v != nil {
			r.routes = append(r.routes, routesOf{config: v})
		}
	case "Listener":
		r.listener(r.Read(t, envoyListeners, path))
	case "Cluster":
		if v := r.Read(t, envoyClusters, path); v != nil {
			r.clusters = append(r.clusters, v)
		}
	default:
		other(r.Walker, t)
	}
}

// begun is a plan with Envoy's defaults.
func (r *envoy) begun(title string, at *foreign.Value) *plan {
	p := planned("Envoy", title, at)
	p.call, p.idle, p.limit = by(15*time.Second), by(5*time.Minute), by(1024)
	p.base, p.longest = by(25*time.Millisecond), by(250*time.Millisecond)
	p.budget = budget{shape: policy.BudgetShare, bounded: true, least: by(3)}
	p.breaker = ejection{open: by(30 * time.Second), most: by(300 * time.Second)}
	return p
}

func (r *envoy) route(of routesOf, host, v *foreign.Value, i, j int) {
	hostName := host.Get("name").Word(fmt.Sprint("host-", i))
	label := v.Get("name").Word("")
	title := fmt.Sprintf("virtual host %s, routes[%d]", hostName, j)
	p := r.begun(title, v)
	action := v.Get("route")
	r.times(p, of.manager, action)
	retry := action.Get("retry_policy")
	if retry == nil {
		retry = host.Get("retry_policy")
	}
	r.retries(p, retry)
	r.hedges(p, action.Get("hedge_policy.hedge_on_per_try_timeout"), host.Get("hedge_policy.hedge_on_per_try_timeout"))
	to := action.Get("cluster").Word("")
	if all := action.Get("weighted_clusters.clusters").All(); to == "" && len(all) > 0 {
		to = all[0].Get("name").Word("")
	}
	if c := r.named[to]; to != "" && c != nil {
		r.used[c] = true
		r.cluster(p, c, action.Get("priority").Word("DEFAULT"))
	}
	p.route(r.Walker, cmp.Or(label, hostName+"/"+cmp.Or(to, fmt.Sprint(j))))
}

// times takes the times of a route, or those of its connection manager.
func (r *envoy) times(p *plan, manager, action *foreign.Value) {
	off := func(s *said[time.Duration], at *foreign.Value) {
		if at == nil {
			return
		}
		if s.take(at, at.Span); at.Span == 0 {
			s.is = none
		}
	}
	off(&p.call, action.Get("timeout"))
	off(&p.idle, manager.Get("stream_idle_timeout"))
	off(&p.idle, action.Get("idle_timeout"))
	off(&p.body, manager.Get("common_http_protocol_options.max_stream_duration"))
	off(&p.body, action.Get("max_stream_duration.max_stream_duration"))
}

func (r *envoy) retries(p *plan, v *foreign.Value) {
	if v == nil {
		return
	}
	on := v.Get("retry_on")
	if on == nil || len(on.Words) == 0 {
		for _, at := range v.All() {
			r.Remark(at, foreign.Lost, "without retry_on Envoy makes no retries, unless a request's header asks for them")
		}
		p.tries.take(v, 1)
		return
	}
	p.tries.take(on, 2)
	whole(&p.tries, v.Get("num_retries"), 1)
	if at := v.Get("per_try_timeout"); at != nil && at.Span > 0 {
		p.attempt.take(at, at.Span)
	} else if at != nil {
		r.Remark(at, foreign.Kept, "0s is no timeout of an attempt")
		p.attempt.take(at, none)
	}
	if at := v.Get("retry_back_off.base_interval"); at != nil {
		p.base.take(at, at.Span)
		p.longest.is = tenfold(at.Span)
	}
	if at := v.Get("retry_back_off.max_interval"); at != nil {
		if at.Span < p.base.is {
			r.Wrong(at, at.Tree.Text+" is less than base_interval", "write at least that")
		}
		p.longest.take(at, max(at.Span, p.base.is))
	}
	span(&p.after, v.Get("rate_limited_retry_back_off.max_interval"))
	var statuses []int
	var at *foreign.Value
	if listed := v.Get("retriable_status_codes"); listed != nil && strings.Contains(on.Text, "retriable-status-codes") {
		for _, status := range listed.All() {
			statuses = append(statuses, int(status.Number))
			at = listed
		}
	}
	retryOn(r.Walker, p, on, statuses, at, false)
}

// hedges takes Envoy's way of hedging: after per_try_timeout, or a failure before, the next request goes, and the first one
// is not ended.
func (r *envoy) hedges(p *plan, own, shared *foreign.Value) {
	never := p.tries.is < 2 || p.attempt.is <= 0 || p.call.is > 0 && p.attempt.is >= p.call.is
	switch v := cmp.Or(own, shared); {
	case own != nil && !own.On:
		r.Remark(own, foreign.Kept, "")
	case own != nil && never:
		r.Remark(own, foreign.Lost, "without retries and a per_try_timeout below the route's timeout nothing is hedged")
	case v != nil && v.On && !never:
		p.hedge.take(v, p.attempt.is)
	}
}

// cluster takes the bounds of a cluster, of the route's priority.
func (r *envoy) cluster(p *plan, v *foreign.Value, priority string) {
	for _, t := range v.Get("circuit_breakers.thresholds").All() {
		if t.Get("priority").Word("DEFAULT") == priority {
			r.thresholds(p, t)
			r.used[t] = true
			break // Envoy takes the first of a priority
		}
	}
	for _, at := range append(v.Get("typed_extension_protocol_options").All(), v) {
		if most := at.Get("common_http_protocol_options.max_stream_duration"); most != nil && most.Span > 0 && p.body.at == nil {
			p.body.take(most, most.Span)
		}
	}
	r.outliers(p, v.Get("outlier_detection"), v.Get("common_lb_config.healthy_panic_threshold.value"))
}

func (r *envoy) thresholds(p *plan, v *foreign.Value) {
	p.slots(r.Walker, v.Get("max_connections"), v.Get("max_requests"), func(at *foreign.Value) {
		r.Remark(at, foreign.Lost, "0 lets nothing through; a bulkhead has at least 1 slot")
		p.limit.take(at, 1)
	})
	if at := v.Get("max_pending_requests"); at != nil {
		switch {
		case p.limit.at == nil:
			r.Remark(at, foreign.Lost, "nothing waits there below 1024 connections; here gabion's own queue counts, 200")
		case at.Number == 0:
			p.queue.take(at, none)
		default:
			p.queue.take(at, int(min(at.Number, maxQueue)))
		}
	}
	of := v.Get("retry_budget")
	if at := v.Get("max_retries"); at != nil && of != nil {
		r.Remark(at, foreign.Lost, "retry_budget takes its place")
	} else {
		whole(&p.budget.least, at, 0)
	}
	if of != nil {
		p.budget.inFlight(of, of.Get("budget_percent.value"))
	}
}

// outliers takes what takes hosts out. With fewer than half of them healthy Envoy sends to all again, unless
// the panic threshold is zero.
func (r *envoy) outliers(p *plan, v, panics *foreign.Value) {
	if v == nil {
		return
	}
	e := &p.breaker
	share := v.Get("max_ejection_percent")
	e.whole = share.NumberOr(10) >= 100 && panics.NumberOr(50) == 0
	e.failures = by(5)
	if v.Get("enforcing_consecutive_5xx").NumberOr(100) == 0 {
		e.failures = by(0)
	}
	if at := v.Get("consecutive_5xx"); at != nil && v.Get("enforcing_consecutive_5xx").NumberOr(100) > 0 {
		e.failures.take(at, int(min(at.Number, 1<<10)))
	}
	if at := v.Get("consecutive_gateway_failure"); at != nil {
		switch {
		case v.Get("enforcing_consecutive_gateway_failure").NumberOr(0) == 0:
			r.Remark(at, foreign.Lost, "it only counts: enforcing_consecutive_gateway_failure is 0")
		default:
			e.row(r.Walker, at, "consecutive_5xx")
		}
	}
	span(&e.open, v.Get("base_ejection_time"))
	span(&e.most, v.Get("max_ejection_time"))
	if e.whole {
		r.Remark(panics, foreign.Kept, "")
		return
	}
	text := "with fewer than half of the hosts healthy Envoy sends to all again, so a service that fails as a whole keeps its load"
	if most := share.NumberOr(10); most < 100 {
		text = fmt.Sprintf("at most %v %% of the hosts are out, so a service that fails as a whole keeps its load", most)
	}
	text += "; gabion's breaker is of the whole and keeps its defaults: 20 failures in a row over 10s, 2s open"
	for _, key := range []string{"consecutive_5xx", "consecutive_gateway_failure", "base_ejection_time", "max_ejection_time", "max_ejection_percent"} {
		r.Remark(v.Get(key), foreign.Lost, text)
	}
}
