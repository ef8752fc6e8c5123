package library

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/internal/foreign"
	"github.com/gabion-go/gabion/internal/terms"
	"github.com/gabion-go/gabion/internal/yamlstrict"
	"github.com/gabion-go/gabion/policy"
)

// Where the options of .NET's handlers are explained. What is repeated without a predicate, 408, 429, from 500 on, and what is no
// answer, says netRepeats.
const (
	netRepeats = "https://github.com/dotnet/extensions/blob/main/src/Libraries/Microsoft.Extensions.Http.Resilience/Polly/HttpClientResiliencePredicates.cs"
	netGuide   = "https://learn.microsoft.com/dotnet/core/resilience/http-resilience"
	netRetry   = "https://www.pollydocs.org/strategies/retry.html"
	netBreaker = "https://www.pollydocs.org/strategies/circuit-breaker.html"
	netHedging = "https://www.pollydocs.org/strategies/hedging.html"
	netTimeout = "https://www.pollydocs.org/strategies/timeout.html"
	netLimiter = "https://www.pollydocs.org/strategies/rate-limiter.html"
)

const day = 24 * time.Hour

// netNamed are keys of all strategies.
var netNamed = foreign.Stays("is a name in telemetry", "Name")

var (
	netBreakerRules = foreign.Sourced(netBreaker, append([]foreign.Rule{
		{Key: "FailureRatio", Shape: foreign.Loosely(foreign.Decimal(0, 1)), Fate: foreign.Kept, To: "breaker.failure_rate"},
		{Key: "MinimumThroughput", Shape: foreign.Loosely(foreign.Whole(2, math.MaxInt32)), Fate: foreign.Kept, To: "breaker.min_calls"},
		{Key: "SamplingDuration", Shape: timeSpan(500*time.Millisecond, day), Fate: foreign.Kept, To: "breaker.window"},
		{Key: "BreakDuration", Shape: timeSpan(500*time.Millisecond, day), Fate: foreign.Kept, To: "breaker.open"},
	}, netNamed...))
	netTimeoutRules = foreign.Sourced(netTimeout, append([]foreign.Rule{
		{Key: "Timeout", Shape: timeSpan(10*time.Millisecond, day), Fate: foreign.Kept, To: "timeout.attempt"},
	}, netNamed...))
	netTotalRules = foreign.Sourced(netTimeout, append([]foreign.Rule{
		{Key: "Timeout", Shape: timeSpan(10*time.Millisecond, day), Fate: foreign.Kept, To: "timeout.call"},
	}, netNamed...))
	netLimiterRules = foreign.Sourced(netLimiter, append([]foreign.Rule{
		{Key: "DefaultRateLimiterOptions.PermitLimit", Shape: foreign.Loosely(foreign.Whole(1, math.MaxInt32)), Fate: foreign.Nearly, To: "bulkhead.limit", Text: "{} whole calls at once there; here {} attempts at once"},
		{Key: "DefaultRateLimiterOptions.QueueLimit", Shape: foreign.Loosely(foreign.Whole(0, math.MaxInt32)), Fate: foreign.Nearly, To: "bulkhead.queue", Text: "{} calls wait for as long as they may there; here at most for bulkhead.queue_timeout, 1s"},
		{Key: "DefaultRateLimiterOptions.QueueProcessingOrder", Fate: foreign.Lost, Text: "the queue is first come, first served here"},
	}, netNamed...))
	netTable = foreign.NewTable(".NET ignores it", strings.ToLower,
		foreign.Under("Retry", foreign.Sourced(netRetry, append([]foreign.Rule{
			{Key: "MaxRetryAttempts", Shape: foreign.Loosely(foreign.Whole(1, math.MaxInt32)), Fate: foreign.Kept, To: "retry.attempts"},
			{Key: "BackoffType", Shape: foldedWord("Constant", "Linear", "Exponential"), Fate: foreign.Kept, To: "retry.backoff.kind"},
			{Key: "UseJitter", Shape: springFlag, Fate: foreign.Nearly, To: "retry.backoff.kind", Text: "jitter there is ±25 %, and of exponential waits a decorrelated one around the delay; here it is full, with the same middle"},
			{Key: "Delay", Shape: timeSpan(0, day), Fate: foreign.Kept, To: "retry.backoff.base"},
			{Key: "MaxDelay", Shape: timeSpan(0, day), Fate: foreign.Kept, To: "retry.backoff.cap"},
			{Key: "ShouldRetryAfterHeader", Shape: springFlag, Fate: foreign.Nearly, Text: "Retry-After is heeded here in any case, up to retry.max_after, 30s"},
		}, netNamed...))),
		foreign.Under("CircuitBreaker", netBreakerRules), foreign.Under("Endpoint.CircuitBreaker", netBreakerRules),
		foreign.Under("AttemptTimeout", netTimeoutRules), foreign.Under("Endpoint.Timeout", netTimeoutRules),
		foreign.Under("TotalRequestTimeout", netTotalRules),
		foreign.Under("RateLimiter", netLimiterRules), foreign.Under("Endpoint.RateLimiter", netLimiterRules),
		foreign.Under("Hedging", foreign.Sourced(netHedging, append([]foreign.Rule{
			{Key: "MaxHedgedAttempts", Shape: foreign.Loosely(foreign.Whole(1, 10)), Fate: foreign.Kept, To: "hedge.max"},
			{Key: "Delay", Shape: anySpan, Fate: foreign.Kept, To: "hedge.delay"},
		}, netNamed...))),
	)
)

var dotnet = foreign.Format{
	Name: "dotnet", Aliases: []string{"appsettings", "polly"}, Title: ".NET's appsettings.json (Microsoft.Extensions.Http.Resilience)",
	Source: netGuide, Tables: []*foreign.Table{netTable}, Plain: true,
	Like: func(text []byte, _ []*yamlstrict.Tree) bool {
		start := strings.TrimLeft(string(text[:min(len(text), 1<<16)]), " \t\r\n\ufeff")
		if !strings.HasPrefix(start, "{") && !strings.HasPrefix(start, "/") {
			return false
		}
		_, trees, _ := yamlstrict.Trees("", plainJSON(text))
		return len(trees) == 1 && len(handlers(nested(trees[0], ":", 12), "", 0)) > 0
	},
	Read: readDotnet,
}

func readDotnet(f *foreign.File) *foreign.Import {
	_, trees, found := yamlstrict.Trees(f.Name, plainJSON(f.Text))
	if len(found) > 0 {
		return &foreign.Import{Wrong: found}
	}
	w := foreign.NewWalker(f, "dotnet")
	for _, t := range trees {
		all := handlers(nested(t, ":", 12), "", 0)
		for _, h := range all {
			if v := w.Read(h.tree, netTable, h.path); v != nil {
				handler(w, v, h.path, h.tree.Line)
			}
		}
		for _, p := range t.Pairs {
			if !strings.Contains(p.Key.Text, ":") && !holds(all, p.Key.Text) {
				w.Remark(&foreign.Value{Path: p.Key.Text, Key: p.Key, Tree: p.Value}, foreign.Elsewhere, "is not about calls that fail")
			}
		}
	}
	return w.Done()
}

func holds(all []found, key string) bool {
	return slices.ContainsFunc(all, func(h found) bool { return h.path == key || strings.HasPrefix(h.path, key+".") })
}

// found is a section that configures a handler.
type found struct {
	path string
	tree *yamlstrict.Tree
}

// marks are the keys by which a section is known: its own and one below it.
var marks = map[string][]string{
	"retry":               {"maxretryattempts", "backofftype", "usejitter", "delay", "maxdelay"},
	"circuitbreaker":      {"failureratio", "minimumthroughput", "samplingduration", "breakduration"},
	"attempttimeout":      {"timeout"},
	"totalrequesttimeout": {"timeout"},
	"hedging":             {"maxhedgedattempts", "delay"},
	"ratelimiter":         {"defaultratelimiteroptions"},
	"endpoint":            {"circuitbreaker", "timeout", "ratelimiter"},
}

// handlers finds the sections that configure handlers: a program gives them any name.
func handlers(t *yamlstrict.Tree, path string, depth int) (all []found) {
	if t == nil || t.Kind != yamlstrict.Map || depth > 12 {
		return nil
	}
	for _, p := range t.Pairs {
		for _, below := range p.Value.Pairs {
			for _, mark := range marks[strings.ToLower(p.Key.Text)] {
				if strings.ToLower(below.Key.Text) == mark {
					return []found{{cmp.Or(path, "the document"), t}}
				}
			}
		}
	}
	for _, p := range t.Pairs {
		at := p.Key.Text
		if path != "" {
			at = path + "." + at
		}
		all = append(all, handlers(p.Value, at, depth+1)...)
	}
	return all
}

// handler reads a standard handler, or a hedging one.
func handler(w *foreign.Walker, v *foreign.Value, path string, line int) {
	hedges := v.Get("Hedging") != nil || v.Get("Endpoint") != nil
	kind, under := "standard handler ", v
	if hedges {
		kind, under = "hedging handler ", v.Get("Endpoint")
	}
	d := begin(w, path, kind+path, line)
	total, attempt := v.Get("TotalRequestTimeout.Timeout"), v.Get("AttemptTimeout.Timeout")
	if hedges {
		attempt = under.Get("Timeout.Timeout")
	}
	most, each := total.SpanOr(30*time.Second), attempt.SpanOr(10*time.Second)
	d.plays(func(p *policy.Policy) { p.Timeout.Call, p.Timeout.Attempt = most, each })
	d.says(total, func(p *policy.Policy) { p.Timeout.Call = most }, "timeout.call")
	d.says(attempt, func(p *policy.Policy) { p.Timeout.Attempt = each }, "timeout.attempt")
	d.netJudge(v, total, attempt, under.Get("CircuitBreaker.SamplingDuration"), most, each)
	if total == nil && attempt != nil {
		d.follows(func(p *policy.Policy) { p.Timeout.Call = most })
	}
	d.netBreaker(under.Get("CircuitBreaker"))
	d.netLimiter(under.Get("RateLimiter"))
	if hedges {
		d.netHedging(v, most)
	} else {
		d.netRetry(v, most)
	}
	d.resends("408", "429", "5xx")
	d.done()
}

// netJudge finds what .NET refuses when the program starts.
func (d *draft) netJudge(v, total, attempt, sampling *foreign.Value, most, each time.Duration) {
	if each > most {
		d.w.Wrong(cmp.Or(attempt, total, v), "the timeout of an attempt, "+each.String()+", is longer than that of the whole request, "+most.String(), "write a shorter one: .NET refuses it")
	}
	if window := sampling.SpanOr(30 * time.Second); window < 2*each {
		d.w.Wrong(cmp.Or(sampling, attempt, v), "the breaker's SamplingDuration, "+window.String()+", is less than twice the timeout of an attempt, "+each.String(), "write at least "+(2*each).String()+": .NET refuses it")
	}
}

// netRetry reads a retry: three of them, exponential from 2 s, with jitter.
func (d *draft) netRetry(v *foreign.Value, most time.Duration) {
	r := v.Get("Retry")
	count, kind, jitter, delay, longest := r.Get("MaxRetryAttempts"), r.Get("BackoffType"), r.Get("UseJitter"), r.Get("Delay"), r.Get("MaxDelay")
	tries := int(min(count.NumberOr(3), terms.MaxSends-1)) + 1
	d.plays(func(p *policy.Policy) { p.Retry.Attempts = 4 })
	d.says(count, func(p *policy.Policy) { p.Retry.Attempts = tries }, "retry.attempts")
	if count.NumberOr(0) >= terms.MaxSends {
		d.w.Remark(count, foreign.Nearly, "{} retries are 63 here, the most that a call may make")
	}
	first, upTo := delay.SpanOr(2*time.Second), longest.SpanOr(time.Hour)
	spread := jitter == nil || jitter.On
	b := backoff.Const(first)
	switch name := kind.Word("Exponential"); {
	case name == "Exponential" && spread:
		b = backoff.Full(2*first, max(2*upTo, 2*first))
	case name == "Exponential":
		b = backoff.Exp(first, max(upTo, first))
	case name == "Linear":
		b = backoff.Backoff{Kind: backoff.Linear, Base: first, Cap: max(upTo, first)}
	case spread:
		b = backoff.Equal(first*5/4, first*5/4)
	}
	if first == 0 {
		b = backoff.Const(0)
	}
	if b.Base > 0 {
		b.Base, b.Cap = foreign.Bounded(b.Base), foreign.Bounded(b.Cap)
		if b.Cap > most && most > 0 {
			b.Cap = max(most, b.Base)
		}
	}
	d.plays(func(p *policy.Policy) { p.Retry.Backoff = b })
	for _, at := range []*foreign.Value{kind, jitter, delay, longest} {
		if tries > 1 {
			d.says(at, func(p *policy.Policy) { p.Retry.Backoff = b }, "retry.backoff")
		}
	}
	d.says(delay, func(*policy.Policy) {}, "retry.backoff.base")
	d.says(kind, func(*policy.Policy) {}, "retry.backoff.kind")
	d.says(longest, func(*policy.Policy) {}, "retry.backoff.cap")
	d.repeats(cmp.Or(r, v), ".NET")
}

func (d *draft) netHedging(v *foreign.Value, most time.Duration) {
	h := v.Get("Hedging")
	count, delay := h.Get("MaxHedgedAttempts"), h.Get("Delay")
	wait := delay.SpanOr(2 * time.Second)
	n := int(count.NumberOr(1))
	made := policy.Hedge{Max: n, Delay: wait, Percentile: policy.Off}
	switch {
	case delay != nil && delay.Number < 0: // endless
		made.Delay = policy.Off
	case wait == 0:
		made.Delay = 0
	case most > 0 && time.Duration(n)*wait > most:
		made.Delay = policy.Off
	}
	d.plays(func(p *policy.Policy) { p.Hedge = made })
	for _, at := range []*foreign.Value{count, delay} {
		d.says(at, func(p *policy.Policy) { p.Hedge = made }, "hedge")
	}
	d.says(count, func(*policy.Policy) {}, "hedge.max")
	d.says(delay, func(*policy.Policy) {}, "hedge.delay")
	d.follows(func(p *policy.Policy) { p.Retry.Attempts = 1 })
	d.repeats(cmp.Or(h, v), ".NET")
}

// netBreaker reads a breaker: 10 % of at least 100 in 30 s, open for 5 s.
func (d *draft) netBreaker(v *foreign.Value) {
	made := foreign.Steady(5 * time.Second)
	made.Window, made.MinCalls, made.FailureRate, made.CloseAfter = 30*time.Second, 100, 0.1, 1
	d.plays(func(p *policy.Policy) { p.Breaker = made })
	share, least, window, open := v.Get("FailureRatio"), v.Get("MinimumThroughput"), v.Get("SamplingDuration"), v.Get("BreakDuration")
	d.says(share, func(p *policy.Policy) { p.Breaker.FailureRate = policy.Ratio(max(share.Number, 0.0001)) }, "breaker.failure_rate")
	d.says(least, func(p *policy.Policy) { p.Breaker.MinCalls = int(least.Number) }, "breaker.min_calls")
	d.says(window, func(p *policy.Policy) { p.Breaker.Window = window.Span }, "breaker.window")
	d.says(open, func(p *policy.Policy) {
		p.Breaker.Open, p.Breaker.OpenMax, p.Breaker.OpenGrowth, p.Breaker.OpenJitter = open.Span, open.Span, 1, policy.Off
	}, "breaker.open", "breaker.open_max", "breaker.open_growth", "breaker.open_jitter")
}

func (d *draft) netLimiter(v *foreign.Value) {
	d.plays(func(p *policy.Policy) {
		p.Bulkhead = policy.Bulkhead{Limit: 1000, Queue: policy.Off, QueueTimeout: policy.Off}
	})
	limit, queue := v.Get("DefaultRateLimiterOptions.PermitLimit"), v.Get("DefaultRateLimiterOptions.QueueLimit")
	d.says(limit, func(p *policy.Policy) { p.Bulkhead.Limit = int(limit.Number) }, "bulkhead.limit")
	d.says(queue, func(p *policy.Policy) { p.Bulkhead.Queue = max(int(queue.Number), 0) }, "bulkhead.queue")
	if queue.NumberOr(0) == 0 && (limit != nil || queue != nil) {
		d.follows(func(p *policy.Policy) { p.Bulkhead.Queue = policy.Off })
	}
}
