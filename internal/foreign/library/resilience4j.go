package library

import (
	"cmp"
	"math"
	"time"

	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/internal/foreign"
	"github.com/gabion-go/gabion/internal/outcome"
	"github.com/gabion-go/gabion/internal/terms"
	"github.com/gabion-go/gabion/internal/yamlstrict"
	"github.com/gabion-go/gabion/policy"
)

var resilience4j = foreign.Format{
	Name: "resilience4j", Aliases: []string{"spring"}, Title: "resilience4j in Spring's application.yml",
	Source: r4jSpring, Tables: []*foreign.Table{springTable},
	Like: func(_ []byte, documents []*yamlstrict.Tree) bool {
		for _, d := range documents {
			if t := nested(d, ".", 3); t.Get("resilience4j") != nil || t.Get("spring").Get("cloud").Get("gateway") != nil { // whose filters are named, at least
				return true
			}
		}
		return false
	},
	Read: readResilience4j,
}

func readResilience4j(f *foreign.File) *foreign.Import {
	return readSpring(foreign.NewWalker(f, "resilience4j"), f.Documents)
}

func readSpring(w *foreign.Walker, documents []*yamlstrict.Tree) *foreign.Import {
	taken, configs := map[place]bool{}, []*foreign.Value(nil)
	for _, f := range springFiles(w, documents) {
		profile := ""
		if f.profile != "" {
			profile = " (profile " + f.profile + ")"
		}
		r := r4j{w: w, file: w.Read(f.tree, springTable, "").Get("resilience4j"), taken: taken}
		for _, name := range r.names() {
			if f.touched == nil || f.touched["*"] || f.touched[name] || f.touched["["+name+"]"] {
				r.instance(name, profile)
			}
		}
		for _, section := range r.file.All() {
			configs = append(configs, section.Get("configs").All()...)
		}
	}
	for _, c := range configs {
		if c.Name != "default" && !taken[placeOf(c)] {
			w.Remark(c, foreign.Lost, "no instance of this file has "+c.Name+" as its base: what code or annotations make of it is not known")
		}
	}
	return once(w.Done())
}

// place is where a key stands. Files of profiles share it, and not the value.
type place struct{ line, col int }

func placeOf(v *foreign.Value) place { return place{v.Key.Line, v.Key.Col} }

// r4j is the section resilience4j of a document.
type r4j struct {
	w     *foreign.Walker
	file  *foreign.Value
	taken map[place]bool // configurations that are the base of an instance
}

// names are those of all instances, in the order of the file. Without any, what annotations name has the default.
func (r r4j) names() (names []string) {
	defer func() {
		for _, section := range r.file.All() {
			if names == nil && item(section.Get("configs"), "default") != nil {
				names = []string{"default"}
			}
		}
	}()
	seen := map[string]bool{}
	for _, section := range r.file.All() {
		for _, i := range section.Get("instances").All() {
			if !seen[i.Name] {
				seen[i.Name] = true
				names = append(names, i.Name)
			}
		}
	}
	return names
}

// part is what a section says of an instance, and the configurations below it.
type part struct {
	own    *foreign.Value
	layers []*foreign.Value
}

// former are the names that resilience4j 1 had for keys.
var former = map[string]string{
	"maxAttempts":                           "maxRetryAttempts",
	"slidingWindowSize":                     "ringBufferSizeInClosedState",
	"minimumNumberOfCalls":                  "ringBufferSizeInClosedState",
	"permittedNumberOfCallsInHalfOpenState": "ringBufferSizeInHalfOpenState",
}

// get finds a key where the instance has it, else where its base has it.
func (p part) get(key string) *foreign.Value {
	for _, l := range p.layers {
		if v := cmp.Or(l.Get(key), l.Get(former[key])); v != nil {
			return v
		}
	}
	return nil
}

// section finds what is said of an instance. Base configurations may have bases of their own;
// without one the one that is called default counts.
func (r r4j) section(name, instance string) (p part) {
	s := r.file.Get(name)
	if p.own = item(s.Get("instances"), instance); p.own == nil {
		if instance != "default" {
			return p
		}
		if p.own = item(s.Get("configs"), instance); p.own == nil {
			return p
		}
	}
	p.layers = append(p.layers, p.own)
	for at, hops := p.own, 0; hops < 10; hops++ {
		base := at.Get("baseConfig")
		next := item(s.Get("configs"), base.Word("default"))
		if next != nil {
			r.taken[placeOf(next)] = true
		}
		if next == nil && base != nil {
			r.w.Wrong(base, "there is no configuration "+base.Text, "add it below configs, or name one that is there")
		}
		if next == nil || next == at {
			break
		}
		p.layers = append(p.layers, next)
		at = next
	}
	return p
}

// item is a value below a map by its exact name.
func item(of *foreign.Value, name string) *foreign.Value {
	for _, v := range of.All() {
		if v.Name == name {
			return v
		}
	}
	return nil
}

func (r r4j) instance(name, profile string) {
	line := 0
	parts := map[string]part{}
	for _, s := range sections {
		p := r.section(s.name, name)
		parts[s.name] = p
		if p.own != nil && (line == 0 || p.own.Line(0) < line) {
			line = p.own.Line(0)
		}
	}
	d := begin(r.w, name, "resilience4j "+name+profile, line)
	d.r4jTime(parts["timelimiter"])
	d.r4jRetry(parts["retry"])
	d.resends("4xx", "5xx", outcome.AnyCode) // each is an exception of Spring's clients, or of gRPC's
	d.r4jBreaker(parts["circuitbreaker"])
	d.r4jBulkhead(parts["bulkhead"], parts["thread-pool-bulkhead"])
	d.r4jRate(parts["ratelimiter"])
	d.done()
}

func (d *draft) r4jTime(p part) {
	if p.own == nil {
		return
	}
	d.plays(func(p *policy.Policy) { p.Timeout.Attempt = time.Second })
	v := p.get("timeoutDuration")
	d.says(v, func(p *policy.Policy) { p.Timeout.Attempt = orOff(v.SpanOr(0)) }, "timeout.attempt")
}

func (d *draft) r4jRetry(p part) {
	if p.own == nil { // without its section nothing is repeated
		d.follows(func(p *policy.Policy) { p.Retry.Attempts = 1 })
		return
	}
	d.plays(func(p *policy.Policy) { p.Retry.Attempts = 3 })
	tries := p.get("maxAttempts")
	n := min(int(tries.NumberOr(3)), terms.MaxSends)
	if tries != nil && tries.NumberOr(0) > terms.MaxSends {
		d.w.Remark(tries, foreign.Nearly, "{} attempts are 64 here, the most that a call may make")
	}
	d.says(tries, func(p *policy.Policy) { p.Retry.Attempts = n }, "retry.attempts")
	d.r4jWaits(p, n)
	d.repeats(p.own, "resilience4j")
}

// r4jWaits finds the backoff that waits as the retry does.
func (d *draft) r4jWaits(p part, tries int) {
	wait, grows, jitter := p.get("waitDuration"), p.get("enableExponentialBackoff"), p.get("enableRandomizedWait")
	if wait == nil { // resilience4j looks at neither then
		for _, v := range []*foreign.Value{grows, jitter} {
			if v != nil && v.On {
				d.w.Remark(v, foreign.Lost, "without waitDuration resilience4j ignores it, and waits 500ms each time")
			}
		}
		grows, jitter = nil, nil
	}
	first := wait.SpanOr(500 * time.Millisecond)
	factor := p.get("exponentialBackoffMultiplier").NumberOr(1.5)
	b := backoff.Const(first)
	if grows != nil && grows.On {
		longest := time.Duration(min(float64(first)*math.Pow(factor, float64(max(tries-2, 0))), float64(time.Hour)))
		if most := p.get("exponentialMaxWaitDuration"); most != nil {
			longest = min(longest, most.Span)
		}
		b = backoff.Exp(first, max(longest, first))
		if v := p.get("exponentialBackoffMultiplier"); v != nil && factor != 2 && tries > 2 {
			d.w.Remark(v, foreign.Nearly, "a wait is {} times the one before there; here waits double, up to the longest of there, "+policy.FormatDuration(max(longest, first)))
		}
	}
	if jitter != nil && jitter.On && first > 0 {
		share := 1 + p.get("randomizedWaitFactor").NumberOr(0.5)
		b = backoff.Equal(time.Duration(float64(first)*share), time.Duration(float64(b.Cap)*share))
	}
	if b.Base > 0 {
		b.Base = foreign.Bounded(b.Base)
		b.Cap = max(foreign.Bounded(b.Cap), b.Base)
	}
	d.plays(func(p *policy.Policy) { p.Retry.Backoff = b })
	if tries < 2 {
		return
	}
	for _, v := range []*foreign.Value{jitter, grows, wait} {
		d.says(v, func(p *policy.Policy) { p.Retry.Backoff = b }, "retry.backoff")
	}
	d.says(wait, func(*policy.Policy) {}, "retry.backoff.base")
	d.says(grows, func(*policy.Policy) {}, "retry.backoff.kind")
	d.says(p.get("exponentialMaxWaitDuration"), func(*policy.Policy) {}, "retry.backoff.cap")
}

// r4jBreaker reads a circuit breaker. Its defaults are 50 % of 100 calls, 60 s, 10 probes.
func (d *draft) r4jBreaker(p part) {
	if p.own == nil {
		return
	}
	open := p.get("waitDurationInOpenState")
	wait := foreign.Bounded(open.SpanOr(60 * time.Second))
	made := foreign.Steady(wait)
	made.WindowCalls, made.MinCalls, made.FailureRate = 100, 100, 0.5
	made.Probes, made.ProbeCalls = 10, 10
	if t := p.get("slidingWindowType"); t != nil && t.Text == "TIME_BASED" {
		made.WindowCalls, made.Window = 0, 100*time.Second
	}
	d.plays(func(p *policy.Policy) { p.Breaker = made })
	d.r4jWindow(p)
	rate := p.get("failureRateThreshold")
	d.says(rate, func(p *policy.Policy) { p.Breaker.FailureRate = percent(rate.Number) }, "breaker.failure_rate")
	slow, share := p.get("slowCallDurationThreshold"), p.get("slowCallRateThreshold")
	if attempt := d.route.Plays.Timeout.Attempt; slow != nil && attempt > 0 && slow.Span >= attempt {
		d.w.Remark(slow, foreign.Lost, "no call is as slow as {}: an attempt ends after "+policy.FormatDuration(attempt)+", and is a failure")
		slow = nil
	}
	d.says(slow, func(p *policy.Policy) { p.Breaker.SlowCall, p.Breaker.SlowRate = orOff(slow.Span), 1 }, "breaker.slow_call", "breaker.slow_rate")
	if slow != nil {
		d.says(share, func(p *policy.Policy) { p.Breaker.SlowRate = percent(share.Number) }, "breaker.slow_rate")
	} else if share != nil {
		d.w.Remark(share, foreign.Lost, "without slowCallDurationThreshold a call is slow after 60s there; no attempt is as long here")
	}
	d.says(open, func(p *policy.Policy) {
		p.Breaker.Open, p.Breaker.OpenMax, p.Breaker.OpenGrowth, p.Breaker.OpenJitter = wait, wait, 1, policy.Off
	},
		"breaker.open", "breaker.open_max", "breaker.open_growth", "breaker.open_jitter")
	d.r4jGrowth(p, wait)
	probes := p.get("permittedNumberOfCallsInHalfOpenState")
	d.says(probes, func(p *policy.Policy) {
		p.Breaker.Probes, p.Breaker.ProbeCalls = int(probes.Number), int(probes.Number)
	}, "breaker.probes", "breaker.probe_calls")
	if half := p.get("maxWaitDurationInHalfOpenState"); half != nil && half.Span > 0 {
		d.says(half, func(p *policy.Policy) { p.Breaker.ProbeTimeout = foreign.Bounded(half.Span) }, "breaker.probe_timeout")
	}
}

func (d *draft) r4jWindow(p part) {
	kind, size, least := p.get("slidingWindowType"), p.get("slidingWindowSize"), p.get("minimumNumberOfCalls")
	n := int(size.NumberOr(100))
	if kind != nil && kind.Text == "TIME_BASED" {
		d.says(size, func(p *policy.Policy) { p.Breaker.Window = time.Duration(n) * time.Second }, "breaker.window")
	} else {
		d.says(size, func(p *policy.Policy) {
			p.Breaker.WindowCalls = n
			p.Breaker.MinCalls = min(100, n)
		}, "breaker.window_calls", "breaker.min_calls")
	}
	d.says(least, func(p *policy.Policy) {
		p.Breaker.MinCalls = int(least.Number)
		if p.Breaker.WindowCalls > 0 {
			p.Breaker.MinCalls = min(p.Breaker.MinCalls, p.Breaker.WindowCalls)
		}
	}, "breaker.min_calls")
}

func (d *draft) r4jGrowth(p part, wait time.Duration) {
	if p.get("waitDurationInOpenState") == nil {
		for _, key := range []string{"enableExponentialBackoff", "enableRandomizedWait"} {
			if v := p.get(key); v != nil && v.On {
				d.w.Remark(v, foreign.Lost, "without waitDurationInOpenState resilience4j ignores it, and is open for 60s each time")
			}
		}
		return
	}
	if grows := p.get("enableExponentialBackoff"); grows != nil && grows.On {
		factor := p.get("exponentialBackoffMultiplier").NumberOr(1.5)
		most := foreign.Bounded(p.get("exponentialMaxWaitDurationInOpenState").SpanOr(time.Hour))
		d.says(grows, func(p *policy.Policy) { p.Breaker.OpenGrowth, p.Breaker.OpenMax = factor, max(most, wait) }, "breaker.open_growth", "breaker.open_max")
	}
	if jitter := p.get("enableRandomizedWait"); jitter != nil && jitter.On {
		d.says(jitter, func(q *policy.Policy) {
			q.Breaker.OpenJitter = policy.Ratio(p.get("randomizedWaitFactor").NumberOr(0.5))
		}, "breaker.open_jitter")
	}
}

// r4jBulkhead reads both kinds of bulkheads; of a thread pool the number of threads depends on
// the machine if the file does not say it.
func (d *draft) r4jBulkhead(calls, pool part) {
	if calls.own != nil {
		d.plays(func(p *policy.Policy) {
			p.Bulkhead = policy.Bulkhead{Limit: 25, Queue: policy.Off, QueueTimeout: policy.Off}
		})
		limit, wait := calls.get("maxConcurrentCalls"), calls.get("maxWaitDuration")
		d.says(limit, func(p *policy.Policy) { p.Bulkhead.Limit = int(limit.Number) }, "bulkhead.limit")
		if wait.SpanOr(0) > 0 {
			d.says(wait, func(p *policy.Policy) {
				p.Bulkhead.Queue, p.Bulkhead.QueueTimeout = 1<<20-1, foreign.Bounded(wait.Span)
			}, "bulkhead.queue_timeout", "bulkhead.queue")
		} else {
			d.follows(func(p *policy.Policy) { p.Bulkhead.Queue = policy.Off })
		}
		return
	}
	if pool.own == nil {
		return
	}
	threads, queue := pool.get("maxThreadPoolSize"), pool.get("queueCapacity")
	d.plays(func(p *policy.Policy) {
		p.Bulkhead = policy.Bulkhead{Limit: 8, Queue: 100, QueueTimeout: policy.Off}
	})
	if threads == nil {
		d.w.Remark(pool.own, foreign.Lost, "without maxThreadPoolSize there are as many threads as processors there; in the lab there are 8")
	}
	d.says(threads, func(p *policy.Policy) { p.Bulkhead.Limit = int(threads.Number) }, "bulkhead.limit")
	d.says(queue, func(p *policy.Policy) { p.Bulkhead.Queue = int(queue.Number) }, "bulkhead.queue")
}

// r4jRate reads a rate limiter; without a period of its own it has one of 500 ns, which is no limit.
func (d *draft) r4jRate(p part) {
	if p.own == nil {
		return
	}
	period, limit, wait := p.get("limitRefreshPeriod"), p.get("limitForPeriod"), p.get("timeoutDuration")
	rate := limit.NumberOr(50) / period.SpanOr(500*time.Nanosecond).Seconds()
	if rate > 1e6 || period.SpanOr(1) <= 0 {
		d.w.Remark(limit, foreign.Lost, "{} in a period of 500ns, the default, is no limit")
		return
	}
	set := func(p *policy.Policy) {
		p.RateLimit = policy.RateLimit{Rate: policy.PerSecond(rate), Burst: int(limit.NumberOr(50)), MaxWait: orOff(wait.SpanOr(5 * time.Second))}
	}
	d.says(period, set, "rate_limit", "rate_limit.rate")
	d.says(limit, set, "rate_limit.burst")
	d.says(wait, set, "rate_limit.max_wait")
}
