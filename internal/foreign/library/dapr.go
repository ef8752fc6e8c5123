package library

import (
	"cmp"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/internal/foreign"
	"github.com/gabion-go/gabion/internal/grpccode"
	"github.com/gabion-go/gabion/internal/outcome"
	"github.com/gabion-go/gabion/internal/terms"
	"github.com/gabion-go/gabion/internal/yamlstrict"
	"github.com/gabion-go/gabion/policy"
)

// Where Dapr's keys are explained. That a retry repeats every status and code that is an error where matching names none is
// also in https://github.com/dapr/dapr/blob/master/pkg/resiliency/retry.go, and the defaults of breakers in
// https://github.com/dapr/dapr/blob/master/pkg/resiliency/breaker/circuitbreaker.go
const (
	daprSpec     = "https://docs.dapr.io/reference/resource-specs/resiliency-schema"
	daprTimeouts = "https://docs.dapr.io/operations/resiliency/policies/timeouts/"
	daprRetries  = "https://docs.dapr.io/operations/resiliency/policies/retries/retries-overview/"
	daprBreakers = "https://docs.dapr.io/operations/resiliency/policies/circuit-breakers/"
	daprTargets  = "https://docs.dapr.io/operations/resiliency/targets/"
)

var daprTarget = []foreign.Rule{
	{Key: "timeout", Shape: foreign.Word, Fate: foreign.Kept, To: "timeout.attempt"},
	{Key: "retry", Shape: foreign.Word, Fate: foreign.Kept, To: "retry"},
	{Key: "circuitBreaker", Shape: foreign.Word, Fate: foreign.Kept, To: "breaker"},
}

var daprTable = foreign.NewTable("Dapr ignores it", nil,
	foreign.Sourced(daprSpec, foreign.Stays("names the resource, and says for whom it is", "apiVersion", "kind", "metadata", "version", "scopes")),
	foreign.Sourced(daprTimeouts, []foreign.Rule{{Key: "spec.policies.timeouts.*", Shape: daprSpan, Fate: foreign.Kept, To: "timeout.attempt"}}),
	foreign.Sourced(daprRetries, foreign.Under("spec.policies.retries.*", []foreign.Rule{
		{Key: "policy", Shape: foreign.OneOf("constant", "exponential"), Fate: foreign.Kept, To: "retry.backoff.kind"},
		{Key: "duration", Shape: daprSpan, Fate: foreign.Kept, To: "retry.backoff.base"},
		{Key: "maxInterval", Shape: daprSpan, Fate: foreign.Kept, To: "retry.backoff.cap"},
		{Key: "maxRetries", Shape: foreign.Loosely(foreign.Whole(-1, math.MaxInt32)), Fate: foreign.Kept, To: "retry.attempts"},
		{Key: "matching.httpStatusCodes", Fate: foreign.Lost, Text: "{} are the only statuses that are repeated there; here 408, 429, 502, 503 and 504 are, and http.transient and http.permanent change that"},
		{Key: "matching.gRPCStatusCodes", Fate: foreign.Lost, Text: "{} are the only codes that are repeated there; here UNAVAILABLE is, and grpc.transient and grpc.permanent change that"},
	})),
	foreign.Sourced(daprBreakers, foreign.Under("spec.policies.circuitBreakers.*", []foreign.Rule{
		{Key: "maxRequests", Shape: foreign.Loosely(foreign.Whole(0, math.MaxInt32)), Fate: foreign.Kept, To: "breaker.probes"},
		{Key: "interval", Shape: daprSpan, Fate: foreign.Nearly, Text: "counts begin anew every {} there; here failures in a row count, however long it takes"},
		{Key: "timeout", Shape: daprSpan, Fate: foreign.Kept, To: "breaker.open"},
		{Key: "trip", Shape: foreign.Word, Fate: foreign.Kept, To: "breaker.consecutive"},
	})),
	foreign.Sourced(daprTargets, foreign.Under("spec.targets.apps.*", append([]foreign.Rule{
		{Key: "circuitBreakerCacheSize", Shape: foreign.Loosely(foreign.Whole(0, math.MaxInt32)), Fate: foreign.Kept, To: "partitions.max"},
	}, daprTarget...))),
	foreign.Sourced(daprTargets, foreign.Under("spec.targets.components.*.outbound", daprTarget)),
	foreign.Sourced(daprTargets, foreign.Under("spec.targets.components.*.inbound", daprTarget)),
	foreign.Sourced(daprTargets, foreign.Under("spec.targets.actors.*", append([]foreign.Rule{
		{Key: "circuitBreakerScope", Shape: foreign.OneOf("type", "id", "both"), Fate: foreign.Nearly, Text: "a breaker for each {} there; here one for each partition that calls name"},
		{Key: "circuitBreakerCacheSize", Shape: foreign.Loosely(foreign.Whole(0, math.MaxInt32)), Fate: foreign.Kept, To: "partitions.max"},
	}, daprTarget...))),
)

var dapr = foreign.Format{
	Name: "dapr", Title: "Dapr's Resiliency", Source: daprSpec, Tables: []*foreign.Table{daprTable},
	Like: func(_ []byte, documents []*yamlstrict.Tree) bool {
		return slices.ContainsFunc(documents, isDapr)
	},
	Read: readDapr,
}

func isDapr(d *yamlstrict.Tree) bool {
	api, kind := d.Get("apiVersion"), d.Get("kind")
	return api != nil && strings.HasPrefix(api.Text, "dapr.io/") && kind != nil && kind.Text == "Resiliency"
}

// daprSpan takes a time as Dapr does: Go's form, or a number of milliseconds.
func daprSpan(v *foreign.Value) (reason, proposal string) {
	if n, err := strconv.ParseInt(v.Tree.Text, 10, 64); err == nil && n >= 0 && n < math.MaxInt64/int64(time.Millisecond) && v.Tree.Kind != yamlstrict.Map {
		v.Span, v.Text = time.Duration(n)*time.Millisecond, v.Tree.Text
		return "", ""
	}
	return foreign.GoSpan(v)
}

func readDapr(f *foreign.File) *foreign.Import {
	w := foreign.NewWalker(f, "dapr")
	for _, d := range f.Documents {
		if !isDapr(d) {
			continue
		}
		spec := w.Read(d, daprTable, "").Get("spec")
		r := daprReader{w, spec.Get("policies"), map[*foreign.Value]bool{}}
		targets := spec.Get("targets")
		for _, t := range targets.Get("apps").All() {
			r.target(t, "App", t.Name, "app "+t.Name)
		}
		for _, t := range targets.Get("components").All() {
			for _, way := range t.All() {
				r.target(way, "Component"+strings.ToUpper(way.Name[:1])+way.Name[1:], t.Name+"."+way.Name, "component "+t.Name+", "+way.Name)
			}
		}
		for _, t := range targets.Get("actors").All() {
			r.target(t, "Actor", t.Name, "actor "+t.Name)
		}
		if targets.Get("apps") == nil && r.standard("App") {
			r.target(spec, "App", "default", "apps without a target")
		}
		r.untaken()
	}
	return w.Done()
}

// standard reports whether there are policies for what names none.
func (r daprReader) standard(kind string) bool {
	for _, of := range daprSections {
		if r.unnamed(kind, of) != nil {
			return true
		}
	}
	return false
}

// daprSections are where policies stand, by the key of a target, and what those are called that need no target.
var daprSections = []struct{ key, section, word string }{
	{"timeout", "timeouts", "Timeout"}, {"retry", "retries", "Retry"}, {"circuitBreaker", "circuitBreakers", "CircuitBreaker"},
}

// unnamed finds the policy for targets of a kind that name none: that of the kind, else that of all.
func (r daprReader) unnamed(kind string, of struct{ key, section, word string }) *foreign.Value {
	all := r.policies.Get(of.section)
	if v := item(all, "Default"+kind+of.word+"Policy"); v != nil {
		return v
	}
	return item(all, "Default"+of.word+"Policy")
}

// daprTyped are policies for components of one type, which targets do not tell.
var daprTyped = regexp.MustCompile(`^Default(Binding|Configuration|Lock|Pubsub|Crypto|Secretstore|Statestore)Component(Outbound|Inbound)?(Timeout|Retry|CircuitBreaker)Policy$`)

// daprOwn begins the names of Dapr's own retries, which a policy of that name replaces.
const daprOwn = "DaprBuiltIn"

// untaken names the policies that no dependency has.
func (r daprReader) untaken() {
	for _, of := range daprSections {
		for _, v := range r.policies.Get(of.section).All() {
			switch {
			case r.taken[v]:
			case daprTyped.MatchString(v.Name):
				r.w.Remark(v, foreign.Lost, "it is for all components of a type, and targets don't say their type: name it in the targets that it is for")
			case strings.HasPrefix(v.Name, daprOwn):
				r.w.Remark(v, foreign.Lost, "it replaces Dapr's own retries, where the other sidecar can't be reached; here nothing is repeated for them")
			default:
				r.w.Remark(v, foreign.Lost, "no target of this file takes it")
			}
		}
	}
}

type daprReader struct {
	w        *foreign.Walker
	policies *foreign.Value
	taken    map[*foreign.Value]bool // by a target
}

// named finds the policy that a target names, or the one that counts where it names none.
func (r daprReader) named(t *foreign.Value, kind, key string) *foreign.Value {
	for _, of := range daprSections {
		if of.key != key {
			continue
		}
		name := t.Get(key)
		v := r.unnamed(kind, of)
		if name != nil {
			v = item(r.policies.Get(of.section), name.Text)
		}
		if r.taken[v] = true; v == nil && name != nil {
			r.w.Wrong(name, "there is no policy "+name.Text+" below "+of.section, "add it, or name one that is there")
		}
		return v
	}
	return nil
}

func (r daprReader) target(t *foreign.Value, kind, name, title string) {
	d := begin(r.w, name, "Dapr "+title, t.Line(0))
	if v := r.named(t, kind, "timeout"); v != nil {
		d.says(v, func(p *policy.Policy) { p.Timeout.Attempt = orOff(v.Span) }, "timeout.attempt")
	}
	retry := r.named(t, kind, "retry")
	if retry == nil {
		d.follows(func(p *policy.Policy) { p.Retry.Attempts = 1 })
		if kind == "App" || kind == "Actor" {
			name := daprOwn + map[string]string{"App": "Service", "Actor": "Actor"}[kind] + "Retries"
			does := "3 times, 1s apart"
			if item(r.policies.Get("retries"), name) != nil {
				does = "as " + name + " says"
			}
			r.w.Remark(t, foreign.Lost, "without a retry Dapr itself repeats "+does+", where the other sidecar can't be reached ("+name+"); here nothing is repeated")
		}
	} else {
		d.daprRetry(retry)
	}
	if v := r.named(t, kind, "circuitBreaker"); v != nil {
		d.daprBreaker(v)
	}
	if size := t.Get("circuitBreakerCacheSize"); size.NumberOr(0) >= 1 {
		d.says(size, func(p *policy.Policy) { p.Partitions.Max = int(size.Number) }, "partitions.max")
	}
	d.done()
}

// daprRetry reads a retry: without maxRetries it goes on for ever, in waits of 5 s, or of 0.5 s
// and half as much again each time.
func (d *draft) daprRetry(v *foreign.Value) {
	most := v.Get("maxRetries")
	tries := terms.MaxSends
	if n := most.NumberOr(-1); n >= 0 && n < terms.MaxSends {
		tries = int(n) + 1
	}
	set := func(p *policy.Policy) { p.Retry.Attempts = tries }
	switch {
	case most == nil:
		d.says(v, set, "retry.attempts")
		d.w.Remark(v, foreign.Nearly, "without maxRetries there is no end of retries there; here there are 64 attempts, the most of a call, within timeout.call")
	case tries == terms.MaxSends:
		d.w.Remark(most, foreign.Nearly, "{} retries are 64 attempts here, the most of a call, within timeout.call")
		fallthrough
	default:
		d.says(most, set, "retry.attempts")
	}
	kind, base, longest := v.Get("policy"), v.Get("duration"), v.Get("maxInterval")
	b := backoff.Const(base.SpanOr(5 * time.Second))
	if kind.Word("") == "exponential" {
		if base != nil {
			d.w.Remark(base, foreign.Lost, "an exponential policy begins with 0.5s there, whatever duration says")
		}
		base = nil
		const first = 500 * time.Millisecond // no key sets it
		b = backoff.Full(first*3/2, max(longest.SpanOr(time.Minute), first*3/2))
		d.w.Remark(kind, foreign.Nearly, "a wait is 1.5 times the one before, ±50 %, there; here it doubles, and is drawn between zero and one and a half of it")
	}
	if tries > 1 {
		for _, at := range []*foreign.Value{kind, base} {
			d.says(at, func(p *policy.Policy) { p.Retry.Backoff = b }, "retry.backoff")
		}
		d.says(base, func(*policy.Policy) {}, "retry.backoff.base")
		d.says(kind, func(*policy.Policy) {}, "retry.backoff.kind")
		if b.Kind == backoff.FullJitter {
			d.says(longest, func(p *policy.Policy) { p.Retry.Backoff = b }, "retry.backoff.cap")
		}
	}
	d.plays(func(p *policy.Policy) { p.Retry.Backoff = b })
	d.resends(append(daprStatuses(v.Get("matching.httpStatusCodes")), daprCodes(v.Get("matching.gRPCStatusCodes"))...)...)
	d.repeats(v, "Dapr")
}

var daprRange = regexp.MustCompile(`[1-5][0-9][0-9](-[1-5][0-9][0-9])?`)

// daprStatuses are those that a retry names, or all that are failures.
func daprStatuses(v *foreign.Value) []string {
	if v == nil || v.Tree.Text == "" {
		return []string{"4xx", "5xx"}
	}
	return daprRange.FindAllString(v.Tree.Text, -1)
}

var daprCode = regexp.MustCompile(`([0-9]+)(?:-([0-9]+))?`)

// daprCodes are the codes of gRPC that a retry names, or all.
func daprCodes(v *foreign.Value) (words []string) {
	if v == nil || v.Tree.Text == "" {
		return []string{outcome.AnyCode}
	}
	for _, m := range daprCode.FindAllStringSubmatch(v.Tree.Text, 20) {
		first, _ := strconv.Atoi(m[1])
		last, _ := strconv.Atoi(cmp.Or(m[2], m[1]))
		for code := max(first, 1); code <= min(last, int(grpccode.Unauthenticated)); code++ {
			words = append(words, outcome.Word(outcome.OfCode(policy.GRPCCode(code))))
		}
	}
	return words
}

// trips is what a breaker's rule may be, as far as a policy has it.
var trips = regexp.MustCompile(`^\s*consecutiveFailures\s*(>=|>)\s*(\d{1,6})\s*$`)

func (d *draft) daprBreaker(v *foreign.Value) {
	made := foreign.Steady(foreign.Bounded(v.Get("timeout").SpanOr(time.Minute)))
	made.Consecutive, made.CloseAfter, made.ConsecutiveFor = 6, 1, policy.Off
	trip := v.Get("trip")
	known := true
	if trip != nil {
		m := trips.FindStringSubmatch(trip.Text)
		if known = m != nil; known {
			made.Consecutive, _ = strconv.Atoi(m[2])
			if m[1] == ">" {
				made.Consecutive++
			}
			made.Consecutive = max(made.Consecutive, 1)
		} else {
			d.w.Remark(trip, foreign.Lost, "{} is no rule of a policy, which has failures in a row, failures in a window, and a share: gabion's breaker counts, and in the lab six failures in a row do")
		}
	}
	if n := v.Get("maxRequests").NumberOr(1); n > 1 {
		made.Probes, made.ProbeCalls, made.CloseAfter = int(n), int(n), int(n)
	}
	d.plays(func(p *policy.Policy) { p.Breaker = made })
	if known {
		from := cmp.Or(trip, v)
		d.says(from, func(p *policy.Policy) { p.Breaker.Consecutive = made.Consecutive }, "breaker.consecutive")
	}
	open := v.Get("timeout")
	d.says(open, func(p *policy.Policy) {
		p.Breaker.Open, p.Breaker.OpenMax, p.Breaker.OpenGrowth, p.Breaker.OpenJitter = made.Open, made.Open, 1, policy.Off
	}, "breaker.open", "breaker.open_max", "breaker.open_growth", "breaker.open_jitter")
	probes := v.Get("maxRequests")
	if probes.NumberOr(0) >= 1 {
		d.says(probes, func(p *policy.Policy) { p.Breaker.Probes, p.Breaker.CloseAfter = made.Probes, made.CloseAfter }, "breaker.probes", "breaker.close_after")
	}
}
