package grpcconfig

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/internal/grpccode"
	"github.com/gabion-go/gabion/internal/suggest"
	"github.com/gabion-go/gabion/policy"
)

// maxAttempts is how often gRPC sends a call at most, whatever a config says.
const maxAttempts = 5

// The bounds of what a policy takes.
const (
	longest       = 365 * 24 * time.Hour
	leastTimeout  = 100 * time.Microsecond
	leastWait     = 10 * time.Microsecond
	leastPerToken = 0.001
)

// resolve makes the policies of the method configs.
func (r *reader) resolve(root *node, read []methodConfig, f map[string]*node, o Options) {
	used := suggest.Names{}
	for i := range read {
		m := &read[i]
		p := r.policyOf(m, o)
		if found, _ := p.Validate().(policy.Mistakes); len(found) > 0 {
			for _, f := range found {
				r.stricter(m.at, "can't be a policy: "+f.Path+": "+f.Value+" "+f.Problem, f.Proposal)
			}
			continue
		}
		if len(m.names) == 0 {
			continue
		}
		name := used.Make(m.names[0])
		for _, path := range m.names {
			r.config.byName[path] = len(r.config.Methods)
		}
		r.config.Methods = append(r.config.Methods, Method{Dependency: name, Names: m.names, Policy: p, Line: r.line(m.at.at), From: from(r.document, m, r.config.throttle)})
	}
	if len(r.config.Methods) == 0 {
		r.note(root.at, false, "no method has a config: there is no policy in it", "")
	}
	r.remark(read, f, o)
	r.config.Rest = r.rest(read, f)
}

// from says which line each part of a policy comes from.
func from(d *document, m *methodConfig, t *throttling) map[string]int {
	lines := map[string]int{}
	set := func(fields map[string]*node, key string, paths ...string) {
		if at := fields[key]; at != nil {
			for _, path := range paths {
				lines[path] = d.line(at.at)
			}
		}
	}
	set(m.fields, "timeout", "timeout.call", "timeout.body")
	set(m.fields, "retryPolicy", "safe", "retry", "timeout.attempt", "grpc")
	set(m.fields, "hedgingPolicy", "safe", "hedge", "retry", "timeout.attempt", "grpc")
	if s := m.retry; s != nil {
		set(s.fields, "maxAttempts", "retry.attempts")
		set(s.fields, "initialBackoff", "retry.backoff.base")
		set(s.fields, "maxBackoff", "retry.backoff.cap")
		set(s.fields, "retryableStatusCodes", "grpc", "retry.contention")
	}
	if s := m.hedge; s != nil {
		set(s.fields, "maxAttempts", "hedge.max")
		set(s.fields, "hedgingDelay", "hedge.delay")
		set(s.fields, "nonFatalStatusCodes", "grpc", "retry.contention")
	}
	if t != nil && (m.retry != nil || m.hedge != nil) {
		lines["retry.budget"], lines["retry.budget.capacity"], lines["retry.budget.ratio"] = d.line(t.at.at), d.line(t.tokensAt.at), d.line(t.ratioAt.at)
	}
	return lines
}

// policyOf says what a method config means.
func (r *reader) policyOf(m *methodConfig, o Options) (p policy.Policy) {
	r.call(m, &p, o)
	switch {
	case m.hedge != nil:
		r.hedging(m, &p)
	case m.retry != nil:
		r.retrying(m, &p)
	default:
		p.Retry.Attempts = 1
	}
	if m.hedge != nil || m.retry != nil {
		r.budget(&p, o)
	}
	if o.Exact {
		exact(&p)
	}
	return p
}

// exact switches off what gRPC does not have.
func exact(p *policy.Policy) {
	p.Timeout.Attempt, p.Timeout.Margin, p.Timeout.Idle = policy.Off, policy.Off, policy.Off
	p.Breaker.Off, p.Bulkhead.Off, p.Pace.Off = true, true, true
	if p.Retry.Attempts > 1 || p.Hedge.Max > 0 {
		p.Retry.Hold = policy.Off
		p.Retry.MaxAfter = longest
	}
}

// call takes the time of the whole call.
func (r *reader) call(m *methodConfig, p *policy.Policy, o Options) {
	at := m.fields["timeout"]
	switch {
	case m.timeout == nil && o.Exact:
		p.Timeout.Call = policy.Off
	case m.timeout == nil:
	case *m.timeout > longest:
		r.note(at.at, false, "timeout: "+quoted(at.text)+" is more than a year, and off here", "")
		p.Timeout.Call = policy.Off
	case *m.timeout < leastTimeout:
		r.note(at.at, false, "timeout: "+quoted(at.text)+" is raised to "+seconds(leastTimeout), "")
		p.Timeout.Call = leastTimeout
	default:
		p.Timeout.Call = *m.timeout
	}
	if p.Timeout.Call > 0 {
		p.Timeout.Body = max(p.Timeout.Call, time.Millisecond) // of a stream, from its header on
	}
}

// retrying takes a retryPolicy.
func (r *reader) retrying(m *methodConfig, p *policy.Policy) {
	p.Safe = true
	p.Retry.Attempts = r.capped(m.retry, "retryPolicy")
	p.Retry.Backoff = r.backoff(m.retry, p.Retry.Attempts)
	r.classes(m.retry.fields["retryableStatusCodes"], m.retry, p)
}

// capped bounds the attempts as gRPC does.
func (r *reader) capped(s *resending, what string) int {
	if s.attempts > maxAttempts {
		r.note(s.fields["maxAttempts"].at, false, fmt.Sprintf("%s.maxAttempts: %d behaves as %d, as in gRPC", what, s.attempts, maxAttempts), "write at most 5; a policy may have more")
	}
	return s.sends()
}

// backoff finds the waits that are most like gRPC's. Here they double, and are drawn between
// zero and the whole, as in gRFC A6 before its jitter became ±20 %.
func (r *reader) backoff(s *resending, attempts int) backoff.Backoff {
	most, at := s.max, s.fields["backoffMultiplier"]
	last := min(float64(s.max), float64(s.initial)*math.Pow(max(s.multiplier, 1), float64(attempts-2)))
	switch {
	case attempts == 2: // there is one wait only
	case s.multiplier < 2:
		most = time.Duration(last)
		r.note(at.at, false, fmt.Sprintf("retryPolicy.backoffMultiplier: %s; here waits double, up to gRPC's last one, %s", clip(at.text), seconds(most)), "")
	case s.multiplier > 2:
		r.note(at.at, false, fmt.Sprintf("retryPolicy.backoffMultiplier: %s; here waits double, so the last one is %s, not %s",
			clip(at.text), seconds(doubled(s.initial, s.max, attempts)), seconds(time.Duration(last))), "a longer initialBackoff makes up for it")
	}
	b := backoff.Full(min(s.initial, most), most)
	b.Cap = r.wait(s.fields["maxBackoff"], "retryPolicy.maxBackoff", b.Cap)
	b.Base = min(r.wait(s.fields["initialBackoff"], "retryPolicy.initialBackoff", b.Base), b.Cap)
	return b
}

// doubled is the longest that the last wait of a number of attempts can be.
func doubled(initial, most time.Duration, attempts int) time.Duration {
	return backoff.Exp(initial, most).Delay(attempts-2, 0, 0)
}

// wait keeps a wait within what policies take.
func (r *reader) wait(at *node, what string, d time.Duration) time.Duration {
	bounded := min(max(d, leastWait), longest)
	if bounded != d {
		r.note(at.at, false, what+": "+quoted(at.text)+" is "+seconds(bounded)+" here", "")
	}
	return bounded
}

// sends is how often a call is sent at most.
func (s *resending) sends() int { return min(s.attempts, maxAttempts) }

// classes says which codes are retried: those that are listed, and no others.
func (r *reader) classes(at *node, s *resending, p *policy.Policy) {
	var other []string
	for _, code := range s.codes {
		switch code {
		case grpccode.Unavailable:
		case grpccode.Aborted:
			p.Retry.Contention.Attempts, p.Retry.Contention.Backoff = s.sends(), p.Retry.Backoff
			r.note(at.at, false, "retry.contention: ABORTED is a conflict here: a call repeats it as often as other failures, but counts and bounds the two apart, and it is no failure of the dependency", "")
		default:
			p.GRPC.Transient = append(p.GRPC.Transient, code)
			other = append(other, code.String())
		}
	}
	if len(other) > 0 {
		r.note(at.at, false, "grpc.transient: gabion retries "+strings.Join(other, ", ")+" because the list has it, and counts it as a failure of the dependency", "")
	}
	if !slices.Contains(s.codes, grpccode.DeadlineExceeded) {
		p.Timeout.Attempt = policy.Off // its end would be retried
	}
	for _, code := range []policy.GRPCCode{grpccode.Unavailable, grpccode.Aborted} {
		if slices.Contains(s.codes, code) {
			continue
		}
		p.GRPC.Permanent = append(p.GRPC.Permanent, code)
		if code == grpccode.Unavailable {
			r.note(s.at.at, false, "grpc.permanent: UNAVAILABLE is not listed, so it is not retried, and is no failure of the dependency", "list it: that is the code of what is down")
		}
	}
}

// hedging takes a hedgingPolicy. A failure that is not fatal brings the next hedge at once.
func (r *reader) hedging(m *methodConfig, p *policy.Policy) {
	h := m.hedge
	p.Safe = true
	p.Retry.Attempts = 1
	p.Hedge.Max = r.capped(h, "hedgingPolicy") - 1
	switch at := h.fields["hedgingDelay"]; {
	case h.delay == 0:
		p.Hedge.Percentile = policy.Off
		r.note(h.at.at, false, "hedgingPolicy: without a delay each call is sent as often as it may be, at once", `write "hedgingDelay": the time in which 95 % of the answers come`)
	case h.delay > longest:
		p.Hedge.Delay = policy.Off
		r.note(at.at, false, "hedgingPolicy.hedgingDelay: more than a year: only a failure brings a hedge", "")
	default:
		p.Hedge.Delay = r.wait(at, "hedgingPolicy.hedgingDelay", h.delay)
	}
	if call := p.Resolved().Timeout.Call; p.Hedge.Delay > 0 && call > 0 && time.Duration(p.Hedge.Max)*p.Hedge.Delay > call {
		p.Hedge.Max = int(call / p.Hedge.Delay)
		r.note(h.fields["hedgingDelay"].at, false, fmt.Sprintf("hedgingPolicy: %d hedges fit into the call's %s, the others are left out", p.Hedge.Max, seconds(call)), "write a shorter delay, or a longer timeout")
		if p.Hedge.Max == 0 {
			p.Hedge = policy.Hedge{}
		}
	}
	at := h.fields["nonFatalStatusCodes"]
	if at == nil {
		at = h.at
	}
	r.classes(at, h, p)
}

// budget takes the throttling.
func (r *reader) budget(p *policy.Policy, o Options) {
	t := r.config.throttle
	if t == nil {
		p.Retry.Budget.Off = o.Exact
		return
	}
	p.Retry.Budget = policy.Budget{
		Shape:    policy.BudgetGRPC,
		Capacity: max(int(t.tokens), 1),
		Ratio:    policy.Ratio(min(max(math.Round(t.ratio*1000)/1000, leastPerToken), 1)),
	}
}

// seconds spells a duration as a service config does.
func seconds(d time.Duration) string {
	return strconv.FormatFloat(d.Seconds(), 'f', -1, 64) + "s"
}
