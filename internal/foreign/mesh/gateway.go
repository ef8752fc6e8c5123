package mesh

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gabion-go/gabion/internal/foreign"
	"github.com/gabion-go/gabion/internal/yamlstrict"
	"github.com/gabion-go/gabion/policy"
)

func likeGateway(_ []byte, documents []*yamlstrict.Tree) bool {
	return slices.ContainsFunc(objects(documents), func(o *yamlstrict.Tree) bool { return gatewayKind(o) != "" })
}

// gatewayKind is the kind of an object of the Gateway API that is read.
func gatewayKind(o *yamlstrict.Tree) string {
	group, _, _ := strings.Cut(textOf(o.Get("apiVersion")), "/")
	switch kind := textOf(o.Get("kind")); kind {
	case "HTTPRoute", "GRPCRoute":
		if group == "gateway.networking.k8s.io" {
			return kind
		}
	case "XBackendTrafficPolicy", "BackendTrafficPolicy":
		if group == "gateway.networking.x-k8s.io" || group == "gateway.networking.k8s.io" {
			return "XBackendTrafficPolicy"
		}
	}
	return ""
}

// gateway is a file of the Gateway API.
type gateway struct {
	*foreign.Walker
	constraints []*foreign.Value // XBackendTrafficPolicies
	used        map[*foreign.Value]bool
}

func readGateway(f *foreign.File) *foreign.Import {
	r := &gateway{Walker: foreign.NewWalker(f, "gateway-api"), used: map[*foreign.Value]bool{}}
	var routes []*foreign.Value
	for _, o := range objects(f.Documents) {
		switch gatewayKind(o) {
		case "HTTPRoute":
			routes = append(routes, r.Read(o, httpRoute, ""))
		case "GRPCRoute":
			routes = append(routes, r.Read(o, grpcRoute, ""))
		case "XBackendTrafficPolicy":
			v := r.Read(o, backendTraffic, "")
			if len(v.Get("spec.targetRefs").All()) == 0 {
				r.Wrong(v, "has no spec.targetRefs", "name the Service that it is for")
			}
			r.constraints = append(r.constraints, v)
		default:
			other(r.Walker, o)
		}
	}
	for _, v := range routes {
		rules := v.Get("spec.rules").All()
		for i, rule := range rules {
			r.rule(v, rule, i, len(rules))
		}
	}
	for _, c := range r.constraints {
		if !r.used[c] && c.Get("spec.retryConstraint") != nil {
			name := strings.TrimPrefix(namespaceOf(c)+"/"+c.Get("metadata.name").Word("unnamed"), "default/")
			p := r.begun("XBackendTrafficPolicy "+name, c.Get("spec.retryConstraint"))
			p.tries = by(2)
			r.constrain(p, c)
			p.route(r.Walker, name)
		}
	}
	return r.Done()
}

// begun is a plan with what the Gateway API says of what is not written: no timeout and no retry. How often and
// when is left to implementations; here it is as in Envoy, which most are made of.
func (r *gateway) begun(title string, at *foreign.Value) *plan {
	p := planned("the Gateway API", title, at)
	p.base, p.longest, p.budget = by(25*time.Millisecond), by(250*time.Millisecond), budget{shape: policy.BudgetWindow}
	return p
}

func (r *gateway) rule(object, v *foreign.Value, i, of int) {
	if answered(v) {
		return
	}
	name := namespaceOf(object) + "/" + object.Get("metadata.name").Word("unnamed")
	kind := textOf(object.Tree.Get("kind"))
	p := r.begun(fmt.Sprintf("%s %s, rules[%d]", kind, name, i), v)
	r.times(p, v)
	r.retries(p, v)
	r.backend(p, object, v)
	if label := v.Get("name").Word(""); label != "" {
		name += "/" + label
	} else if of > 1 {
		name += fmt.Sprintf("/%d", i)
	}
	p.route(r.Walker, strings.TrimPrefix(name, "default/"))
}

// answered reports whether the proxy itself answers: with a redirect, or an error as nothing is behind the rule.
func answered(rule *foreign.Value) bool {
	return rule != nil && len(treesOf(rule.Tree.Get("backendRefs"))) == 0 && slices.ContainsFunc(treesOf(rule.Tree.Get("filters")), func(f *yamlstrict.Tree) bool {
		return textOf(f.Get("type")) == "RequestRedirect"
	})
}

func (r *gateway) times(p *plan, v *foreign.Value) {
	for key, s := range map[string]*said[time.Duration]{"timeouts.request": &p.call, "timeouts.backendRequest": &p.attempt} {
		at := v.Get(key)
		if at == nil {
			continue
		}
		if s.take(at, at.Span); at.Span == 0 {
			s.is = none
			r.Remark(at, foreign.Kept, "0s is no timeout")
		}
	}
	if p.call.is > 0 && p.attempt.is > p.call.is {
		r.Wrong(p.attempt.at, p.attempt.at.Tree.Text+" is longer than the request may take, "+p.call.at.Tree.Text, "write at most that")
	}
}

func (r *gateway) retries(p *plan, v *foreign.Value) {
	of := v.Get("retry")
	if of == nil {
		return
	}
	p.tries.take(of, 2)
	if whole(&p.tries, of.Get("attempts"), 1); of.Get("attempts") == nil {
		r.Remark(of, foreign.Nearly, "without attempts each implementation retries as often as it likes; 1 retry here, as in Envoy")
	}
	if at := of.Get("backoff"); at != nil {
		p.base.take(at, at.Span)
		p.longest.is = tenfold(at.Span)
		if at.Span == 0 {
			r.Remark(at, foreign.Nearly, "{} is no wait")
			p.base.is = none
		}
	}
	codes := of.Get("codes")
	if codes == nil {
		return
	}
	var why reasons
	for _, at := range codes.All() {
		var one reasons
		one.status(int(at.Number))
		why.status(int(at.Number))
		if one.texts != nil {
			r.Remark(at, one.fate, one.text())
		} else {
			r.Remark(at, foreign.Kept, "")
		}
	}
	why.texts = nil
	why.done()
	r.Remark(codes, why.fate, why.text())
	p.statuses = said[[]int]{is: why.statuses, at: codes}
	p.repeats = append(why.repeats(), strings.Fields(noAnswer)...)
}

// backend adds the policy of a rule's first backend that has one.
func (r *gateway) backend(p *plan, object, v *foreign.Value) {
	for _, to := range v.Get("backendRefs").All() {
		for _, c := range r.constraints {
			if namespaceOf(c) != namespaceOf(object) {
				continue
			}
			if slices.ContainsFunc(c.Get("spec.targetRefs").All(), func(ref *foreign.Value) bool {
				return ref.Get("name").Word("") == to.Get("name").Word("?") && ref.Get("kind").Word("Service") == to.Get("kind").Word("Service")
			}) {
				r.used[c] = true
				r.constrain(p, c)
				return
			}
		}
	}
}

// constrain takes a retryConstraint, with its defaults.
func (r *gateway) constrain(p *plan, c *foreign.Value) {
	of := c.Get("spec.retryConstraint")
	if of == nil {
		return
	}
	p.budget = budget{shape: policy.BudgetWindow, bounded: true, share: by(0.2), interval: by(10 * time.Second), floor: by(10.0)}
	b := &p.budget
	share(&b.share, of.Get("budget.percent"))
	span(&b.interval, of.Get("budget.interval"))
	if rate := of.Get("minRetryRate"); rate != nil {
		count, interval := rate.Get("count"), rate.Get("interval")
		each := interval.SpanOr(time.Second)
		if n := count.NumberOr(10); each > 0 {
			b.floor.take(rate, n/each.Seconds())
		}
		if count != nil {
			b.floor.at = count
		}
	}
	if !b.written() {
		b.share.at = of
	}
}
