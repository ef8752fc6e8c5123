package mesh

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gabion-go/gabion/internal/foreign"
	"github.com/gabion-go/gabion/internal/suggest"
	"github.com/gabion-go/gabion/internal/yamlstrict"
	"github.com/gabion-go/gabion/policy"
)

// ofLinkerd reports whether the name of an annotation is one that says how calls are made.
func ofLinkerd(name string) bool {
	group, _, _ := strings.Cut(name, "/")
	return group == "retry.linkerd.io" || group == "timeout.linkerd.io" || group == "balancer.linkerd.io"
}

func likeLinkerd(_ []byte, documents []*yamlstrict.Tree) bool {
	for _, o := range objects(documents) {
		group, _, _ := strings.Cut(textOf(o.Get("apiVersion")), "/")
		if group == "linkerd.io" && textOf(o.Get("kind")) == "ServiceProfile" || group == "policy.linkerd.io" && textOf(o.Get("kind")) == "HTTPRoute" {
			return true
		}
		if notes := o.Get("metadata").Get("annotations"); notes != nil {
			for _, pair := range notes.Pairs {
				if ofLinkerd(pair.Key.Text) {
					return true
				}
			}
		}
	}
	return false
}

// linkerd is a file for Linkerd.
type linkerd struct {
	*foreign.Walker
	services []*annotated
}

// annotated is an object with its annotations.
type annotated struct {
	*foreign.Value
	notes    *foreign.Value
	used     bool
	profiled bool // a ServiceProfile says how it is called
}

func readLinkerd(f *foreign.File) *foreign.Import {
	r := &linkerd{Walker: foreign.NewWalker(f, "linkerd")}
	var routes []*annotated
	var profiles []*foreign.Value
	for _, o := range objects(f.Documents) {
		switch kind := textOf(o.Get("kind")); kind {
		case "Service":
			r.services = append(r.services, r.annotated(o, linkerdService))
		case "HTTPRoute":
			routes = append(routes, r.annotated(o, linkerdHTTP))
		case "GRPCRoute":
			routes = append(routes, r.annotated(o, linkerdGRPC))
		case "ServiceProfile":
			profiles = append(profiles, r.Read(o, linkerdProfile, ""))
		default:
			other(r.Walker, o)
		}
	}
	for _, v := range profiles {
		r.profiled(v)
	}
	for _, v := range routes {
		r.route(v)
	}
	for _, v := range profiles {
		r.profile(v)
	}
	for _, s := range r.services {
		if !s.used && !s.profiled && r.says(s.notes) {
			p := r.begun("Service "+fullName(s.Value), s.notes)
			r.retries(p, s.notes)
			r.times(p, s.notes)
			r.accrual(p, s.notes)
			p.route(r.Walker, strings.TrimPrefix(fullName(s.Value), "default/"))
		}
	}
	return r.Done()
}

// profiled says of the annotations of a Service with a ServiceProfile that the latter counts.
func (r *linkerd) profiled(profile *foreign.Value) {
	host := strings.TrimSuffix(profile.Get("metadata.name").Word(""), ".svc.cluster.local")
	for _, s := range r.services {
		if host != s.Get("metadata.name").Word("?")+"."+namespaceOf(s.Value) {
			continue
		}
		s.profiled = true
		for _, v := range s.notes.All() {
			if v.Rule.Key != "*" {
				r.Remark(v, foreign.Lost, "the Service has a ServiceProfile, and with one Linkerd reads neither annotations nor routes, and has no breaker")
			}
		}
	}
}

func fullName(v *foreign.Value) string {
	return namespaceOf(v) + "/" + v.Get("metadata.name").Word("unnamed")
}

// annotated reads an object and its annotations. Those of Linkerd that it does not have are unknown.
func (r *linkerd) annotated(o *yamlstrict.Tree, table *foreign.Table) *annotated {
	a := &annotated{Value: r.Read(o, table, "")}
	t := o.Get("metadata").Get("annotations")
	if t == nil || t.Kind == yamlstrict.Null {
		return a
	}
	a.notes = r.Read(t, linkerdAnnotations, "metadata.annotations")
	var known []string
	for i := range annotationRules {
		known = append(known, annotationRules[i].Key)
	}
	for _, v := range a.notes.All() {
		if ofLinkerd(v.Name) && v.Rule.Key == "*" {
			r.Remark(v, foreign.Unknown, suggest.For(v.Name, known, "Linkerd ignores annotations that it does not know"))
		}
	}
	return a
}

// says reports whether there is an annotation that counts.
func (r *linkerd) says(notes *foreign.Value) bool {
	return slices.ContainsFunc(notes.All(), func(v *foreign.Value) bool { return v.Rule.Key != "*" })
}

// begun is a plan with Linkerd's defaults: no timeout, no retry, and a retry without a wait.
func (r *linkerd) begun(title string, at *foreign.Value) *plan {
	p := planned("Linkerd", title, at)
	p.budget, p.breaker = budget{shape: policy.BudgetWindow}, ejection{open: by(time.Second), most: by(time.Minute), jitter: by(0.5), probes: 1}
	return p
}

// route reads a route. What it says of retries, or of timeouts, replaces what its Service says of them.
func (r *linkerd) route(v *annotated) {
	var parent *annotated
	for _, ref := range treesOf(v.Tree.Get("spec").Get("parentRefs")) {
		for _, s := range r.services {
			if textOf(ref.Get("name")) == s.Get("metadata.name").Word("?") && namespaceOf(s.Value) == namespaceOf(v.Value) {
				parent = s
				s.used = true
			}
		}
	}
	var of *foreign.Value
	if parent != nil && parent.profiled {
		r.Remark(v.Value, foreign.Lost, "its Service has a ServiceProfile, and with one Linkerd does not read routes")
		return
	}
	if parent != nil {
		of = parent.notes
	}
	rules := v.Get("spec.rules").All()
	if len(rules) == 0 {
		rules = []*foreign.Value{nil}
	}
	for i, rule := range rules {
		if answered(rule) {
			continue
		}
		name, at := fullName(v.Value), rule
		if at == nil {
			at = v.Value
		}
		if len(rules) > 1 {
			name += fmt.Sprintf("/%d", i)
		}
		p := r.begun(fmt.Sprintf("%s %s, rules[%d]", textOf(v.Tree.Get("kind")), fullName(v.Value), i), at)
		r.retries(p, r.nearer(v.notes, of, "retry.linkerd.io/"))
		times := r.nearer(v.notes, of, "timeout.linkerd.io/")
		r.times(p, times)
		r.accrual(p, of)
		r.ownTimes(p, rule, times != of)
		p.route(r.Walker, strings.TrimPrefix(name, "default/"))
	}
}

// treesOf are the items of a list that may not be there.
func treesOf(t *yamlstrict.Tree) []*yamlstrict.Tree {
	if t == nil {
		return nil
	}
	return t.Items
}

// nearer is the route's annotations if any of them is of a group, else those of its Service.
func (r *linkerd) nearer(own, of *foreign.Value, group string) *foreign.Value {
	has := func(v *foreign.Value) bool { return strings.HasPrefix(v.Name, group) }
	if !slices.ContainsFunc(own.All(), has) {
		return of
	}
	for _, v := range of.All() {
		if has(v) {
			r.Remark(v, foreign.Lost, "a route to this Service has annotations of "+group+" itself, and then none of the Service's counts")
		}
	}
	return own
}

// ownTimes takes the timeout of a rule of a route. An annotation of the route counts before it, and it counts before those
// of the Service.
func (r *linkerd) ownTimes(p *plan, rule *foreign.Value, annotated bool) {
	if at := rule.Get("timeouts.request"); at != nil && at.Span > 0 {
		if annotated && p.call.at != nil {
			r.Remark(at, foreign.Lost, "the route's annotation timeout.linkerd.io/request counts")
		} else {
			p.call.take(at, at.Span)
		}
	}
	r.Remark(rule.Get("timeouts.backendRequest"), foreign.Lost, "Linkerd does not read it: retry.linkerd.io/timeout bounds an attempt there")
	if of := rule.Get("retry"); of != nil {
		for _, at := range of.All() {
			r.Remark(at, foreign.Lost, "Linkerd reads its annotations, retry.linkerd.io/http and others, and not this key")
		}
	}
}

func (r *linkerd) times(p *plan, notes *foreign.Value) {
	for _, of := range []struct {
		key string
		to  *said[time.Duration]
	}{{"request", &p.call}, {"response", &p.body}, {"idle", &p.idle}} {
		span(of.to, notes.Get("timeout.linkerd.io/"+of.key))
	}
}

func (r *linkerd) retries(p *plan, notes *foreign.Value) {
	on, codes := notes.Get("retry.linkerd.io/http"), notes.Get("retry.linkerd.io/grpc")
	limit, timeout := notes.Get("retry.linkerd.io/limit"), notes.Get("retry.linkerd.io/timeout")
	for _, at := range []*foreign.Value{timeout, codes, on} {
		if at != nil {
			p.tries.take(at, 2)
		}
	}
	if limit != nil {
		if whole(&p.tries, limit, 1); limit.Number == 0 {
			r.Remark(limit, foreign.Kept, "Linkerd takes 0 as its default, 1 retry")
			p.tries.is = 2
		}
	}
	span(&p.attempt, timeout)
	p.repeats = []string{unsent, "timeout"} // a balancer without an endpoint, and retry.linkerd.io/timeout
	r.statuses(p, on)
	r.codes(p, codes)
}

var statusRange = regexp.MustCompile(`^([1-5][0-9][0-9])(?:-([1-5][0-9][0-9]))?$`)

func (r *linkerd) statuses(p *plan, v *foreign.Value) {
	if v == nil {
		return
	}
	var why reasons
	for _, name := range v.Words {
		m := statusRange.FindStringSubmatch(name)
		switch {
		case strings.EqualFold(name, "5xx"), strings.EqualFold(name, "gateway-error"):
			why.add(strings.ToLower(name))
		case m != nil:
			first, _ := strconv.Atoi(m[1])
			last, _ := strconv.Atoi(m[2])
			if last = max(first, last); last >= 599 && first <= 500 {
				why.add("5xx")
				last = 499
			}
			for status := first; status <= last; status++ {
				why.status(status)
			}
		default:
			r.Wrong(v, "has no "+strconv.Quote(short(name)), "write statuses such as 503, ranges such as 500-504, 5xx or gateway-error")
		}
	}
	why.done()
	r.Remark(v, why.fate, short400(why.text()))
	p.statuses = said[[]int]{is: why.statuses, at: v}
	p.repeats = append(why.repeats(), unsent, "timeout")
}

// short400 keeps what is said of a long range readable.
func short400(s string) string {
	if runes := []rune(s); len(runes) > 400 {
		return string(runes[:400]) + "…"
	}
	return s
}

func (r *linkerd) codes(p *plan, v *foreign.Value) {
	if v == nil {
		return
	}
	var why reasons
	known := []string{"cancelled", "deadline-exceeded", "internal", "resource-exhausted", "unavailable"}
	for _, name := range v.Words {
		if name = strings.ToLower(name); !strings.Contains(strings.Join(known, ","), name) || !why.add(name) {
			r.Wrong(v, "has no "+strconv.Quote(short(name)), suggest.For(name, known, "write one of "+strings.Join(known, ", ")))
		}
	}
	why.say(foreign.Nearly, "gabion also repeats UNAVAILABLE and, as a conflict, ABORTED: grpc.permanent names those that it must not")
	r.Remark(v, why.fate, why.text())
	p.repeats = append(p.repeats, why.repeats()...)
	p.codes = said[[]policy.GRPCCode]{is: why.codes, at: v}
}

// accrual takes Linkerd's breakers. With all endpoints out, requests are refused.
func (r *linkerd) accrual(p *plan, notes *foreign.Value) {
	e := &p.breaker
	if notes.Get("balancer.linkerd.io/failure-accrual") == nil {
		for _, key := range []string{"max-failures", "min-penalty", "max-penalty", "jitter-ratio"} {
			r.Remark(notes.Get(accrual+key), foreign.Lost, "without balancer.linkerd.io/failure-accrual: consecutive Linkerd has no breaker and ignores it")
		}
		return
	}
	e.whole, e.failures = true, by(7)
	e.failures.at = notes.Get("balancer.linkerd.io/failure-accrual")
	if at := notes.Get(accrual + "max-failures"); at != nil {
		e.failures.take(at, int(min(max(at.Number, 1), 1<<10)))
	}
	e.open.at = e.failures.at // what is not written of a breaker is Linkerd's, since the breaker is
	if at := notes.Get(accrual + "min-penalty"); at != nil {
		e.open.take(at, at.Span)
	}
	if at := notes.Get(accrual + "max-penalty"); at != nil {
		if at.Span < e.open.is {
			r.Wrong(at, strconv.Quote(at.Tree.Text)+" is less than the shortest penalty, "+policy.FormatDuration(e.open.is), "write at least that")
		}
		e.most.take(at, at.Span)
	}
	if at := notes.Get(accrual + "jitter-ratio"); at != nil {
		if at.Number > 1 {
			r.Remark(at, foreign.Nearly, "{} is 100% here, the most that breaker.open_jitter takes")
		}
		e.jitter.take(at, math.Min(at.Number, 1))
	}
}

// profileRepeats are what a ServiceProfile takes for failures. What is no answer is not repeated.
var profileRepeats = []string{"5xx", "unknown", "deadline_exceeded", "internal", "unavailable", "data_loss"}

// profile reads a ServiceProfile. What it does not say of times has no bound.
func (r *linkerd) profile(v *foreign.Value) {
	name := strings.TrimSuffix(v.Get("metadata.name").Word("unnamed"), ".svc.cluster.local")
	for i, route := range v.Get("spec.routes").All() {
		label := route.Get("name").Word(strconv.Itoa(i))
		p := r.begun(fmt.Sprintf("ServiceProfile %s, route %s", name, short(label)), route)
		p.repeats = profileRepeats
		span(&p.call, route.Get("timeout"))
		if at := route.Get("isRetryable"); at != nil {
			p.endless = at.On
			if p.tries.take(at, 10); !at.On {
				p.tries.is = 1
				r.Remark(at, foreign.Kept, "no retries")
			}
		} else {
			p.tries.at = route // what is not retryable is sent once
		}
		p.budget = budget{shape: policy.BudgetWindow, bounded: true, share: by(0.2), floor: by(10.0), interval: by(10 * time.Second)}
		of := v.Get("spec.retryBudget")
		p.budget.share.take(of.Get("retryRatio"), of.Get("retryRatio").NumberOr(0))
		p.budget.floor.take(of.Get("minRetriesPerSecond"), of.Get("minRetriesPerSecond").NumberOr(0))
		p.budget.interval.take(of.Get("ttl"), of.Get("ttl").SpanOr(0))
		p.route(r.Walker, name+"/"+label)
	}
}
