package library

import (
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gabion-go/gabion/internal/foreign"
	"github.com/gabion-go/gabion/internal/yamlstrict"
)

// Where resilience4j's keys are explained. Without lists each exception is repeated (r4jRetry), and Spring's clients make one of each
// status from 400 on:
// https://docs.spring.io/spring-framework/docs/current/javadoc-api/org/springframework/web/client/DefaultResponseErrorHandler.html
const (
	r4jRetry    = "https://resilience4j.readme.io/docs/retry"
	r4jBreaker  = "https://resilience4j.readme.io/docs/circuitbreaker"
	r4jBulkhead = "https://resilience4j.readme.io/docs/bulkhead"
	r4jRate     = "https://resilience4j.readme.io/docs/ratelimiter"
	r4jTime     = "https://resilience4j.readme.io/docs/timeout"
	r4jSpring   = "https://resilience4j.readme.io/docs/getting-started-3"
)

const (
	byClass   = "what is repeated and what is a failure goes by statuses, codes and kinds of errors here, not by classes of exceptions: without the list those decide"
	isMetrics = "is about events, metrics and health"
)

var retryRules = foreign.Sourced(r4jRetry, append([]foreign.Rule{
	{Key: "maxAttempts", Shape: foreign.Loosely(foreign.Whole(1, math.MaxInt32)), Fate: foreign.Kept, To: "retry.attempts"},
	{Key: "maxRetryAttempts", Shape: foreign.Loosely(foreign.Whole(1, math.MaxInt32)), Fate: foreign.Nearly, To: "retry.attempts", Text: "the name of maxAttempts in resilience4j 1, read where that is not written; resilience4j 2 ignores it, and makes 3 attempts"},
	{Key: "waitDuration", Shape: springSpan, Fate: foreign.Kept, To: "retry.backoff.base"},
	{Key: "enableExponentialBackoff", Shape: springFlag, Fate: foreign.Kept, To: "retry.backoff.kind"},
	{Key: "exponentialBackoffMultiplier", Shape: foreign.Loosely(foreign.Decimal(1, 1e6)), Fate: foreign.Kept, To: "retry.backoff.kind"},
	{Key: "exponentialMaxWaitDuration", Shape: springSpan, Fate: foreign.Kept, To: "retry.backoff.cap"},
	{Key: "enableRandomizedWait", Shape: springFlag, Fate: foreign.Nearly, To: "retry.backoff.kind", Text: "waits are drawn around their middle there; here between a half and the whole of what the factor allows at most"},
	{Key: "randomizedWaitFactor", Shape: foreign.Loosely(foreign.Decimal(0, 1)), Fate: foreign.Nearly, To: "retry.backoff.base", Text: "±{} of the wait there; here waits are drawn between a half and the whole, and the whole is as long as there"},
	{Key: "failAfterMaxAttempts", Shape: springFlag, Fate: foreign.Lost, Text: "here a call whose attempts are used up ends with the last attempt's answer or error, in any case"},
	{Key: "ignoreClassBindingExceptions", Fate: foreign.Elsewhere, Text: byClass},
	{Key: "retryExceptions", Fate: foreign.Lost, Text: byClass},
	{Key: "ignoreExceptions", Fate: foreign.Lost, Text: byClass},
	{Key: "retryExceptionPredicate", Fate: foreign.Lost, Text: byClass},
	{Key: "resultPredicate", Fate: foreign.Lost, Text: byClass},
	{Key: "consumeResultBeforeRetryAttempt", Fate: foreign.Lost, Text: "nothing is called with a result before a retry: events say what was decided"},
	{Key: "intervalBiFunction", Fate: foreign.Lost, Text: "waits are no function here: the backoff's kind, base and cap count"},
}, shared...))

var breakerRules = foreign.Sourced(r4jBreaker, append([]foreign.Rule{
	{Key: "slidingWindowType", Shape: springWord("COUNT_BASED", "TIME_BASED"), Fate: foreign.Kept, To: "breaker.window"},
	{Key: "slidingWindowSize", Shape: foreign.Loosely(foreign.Whole(1, math.MaxInt32)), Fate: foreign.Kept, To: "breaker.window"},
	{Key: "minimumNumberOfCalls", Shape: foreign.Loosely(foreign.Whole(1, math.MaxInt32)), Fate: foreign.Kept, To: "breaker.min_calls"},
	{Key: "ringBufferSizeInClosedState", Shape: foreign.Loosely(foreign.Whole(1, math.MaxInt32)), Fate: foreign.Nearly, To: "breaker.window_calls", Text: "the name of slidingWindowSize and minimumNumberOfCalls in resilience4j 1, read where those are not written; resilience4j 2 ignores it, and has 100 of each"},
	{Key: "ringBufferSizeInHalfOpenState", Shape: foreign.Loosely(foreign.Whole(1, math.MaxInt32)), Fate: foreign.Nearly, To: "breaker.probes", Text: "the name of permittedNumberOfCallsInHalfOpenState in resilience4j 1, read where that is not written; resilience4j 2 ignores it, and has 10"},
	{Key: "failureRateThreshold", Shape: foreign.Loosely(foreign.Decimal(0.0001, 100)), Fate: foreign.Kept, To: "breaker.failure_rate"},
	{Key: "slowCallRateThreshold", Shape: foreign.Loosely(foreign.Decimal(0.0001, 100)), Fate: foreign.Kept, To: "breaker.slow_rate"},
	{Key: "slowCallDurationThreshold", Shape: springSpan, Fate: foreign.Kept, To: "breaker.slow_call"},
	{Key: "waitDurationInOpenState", Shape: springSpan, Fate: foreign.Kept, To: "breaker.open"},
	{Key: "permittedNumberOfCallsInHalfOpenState", Shape: foreign.Loosely(foreign.Whole(1, math.MaxInt32)), Fate: foreign.Kept, To: "breaker.probes"},
	{Key: "maxWaitDurationInHalfOpenState", Shape: springSpan, Fate: foreign.Nearly, To: "breaker.probe_timeout", Text: "there half-open as a whole ends after {}; here each probe that has not ended by then counts as failed"},
	{Key: "transitionToStateAfterWaitDuration", Fate: foreign.Lost, Text: "a probe that does not end opens the breaker again; probe_expiry_closes: true closes it"},
	{Key: "automaticTransitionFromOpenToHalfOpenEnabled", Shape: springFlag, Fate: foreign.Nearly, Text: "no thread waits here: half-open begins with the first call after the open time, which is as early for who calls"},
	{Key: "enableExponentialBackoff", Shape: springFlag, Fate: foreign.Kept, To: "breaker.open_growth"},
	{Key: "exponentialBackoffMultiplier", Shape: foreign.Loosely(foreign.Decimal(1, 1e6)), Fate: foreign.Kept, To: "breaker.open_growth"},
	{Key: "exponentialMaxWaitDurationInOpenState", Shape: springSpan, Fate: foreign.Kept, To: "breaker.open_max"},
	{Key: "enableRandomizedWait", Shape: springFlag, Fate: foreign.Nearly, To: "breaker.open_jitter", Text: "the open time is drawn around its middle there; here it is lengthened only, by as much at most"},
	{Key: "randomizedWaitFactor", Shape: foreign.Loosely(foreign.Decimal(0, 1)), Fate: foreign.Nearly, To: "breaker.open_jitter", Text: "±{} of the open time there; here up to as much longer, never shorter"},
	{Key: "recordExceptions", Fate: foreign.Lost, Text: byClass},
	{Key: "ignoreExceptions", Fate: foreign.Lost, Text: byClass},
	{Key: "recordFailurePredicate", Fate: foreign.Lost, Text: byClass},
	{Key: "ignoreExceptionPredicate", Fate: foreign.Lost, Text: byClass},
	{Key: "recordResultPredicate", Fate: foreign.Lost, Text: byClass},
	{Key: "ignoreClassBindingExceptions", Fate: foreign.Elsewhere, Text: byClass},
	{Key: "initialState", Fate: foreign.Lost, Text: "a breaker begins closed here"},
	{Key: "writableStackTraceEnabled", Fate: foreign.Elsewhere, Text: isMetrics},
	{Key: "allowHealthIndicatorToFail", Fate: foreign.Elsewhere, Text: isMetrics},
}, shared...))

var bulkheadRules = foreign.Sourced(r4jBulkhead, append([]foreign.Rule{
	{Key: "maxConcurrentCalls", Shape: foreign.Loosely(foreign.Whole(1, math.MaxInt32)), Fate: foreign.Kept, To: "bulkhead.limit"},
	{Key: "maxWaitDuration", Shape: springSpan, Fate: foreign.Kept, To: "bulkhead.queue_timeout"},
	{Key: "writableStackTraceEnabled", Fate: foreign.Elsewhere, Text: isMetrics},
	{Key: "fairCallHandlingEnabled", Fate: foreign.Nearly, Text: "the queue is first come, first served here, in any case"},
}, shared...))

var poolRules = foreign.Sourced(r4jBulkhead, append([]foreign.Rule{
	{Key: "maxThreadPoolSize", Shape: foreign.Loosely(foreign.Whole(1, math.MaxInt32)), Fate: foreign.Kept, To: "bulkhead.limit"},
	{Key: "coreThreadPoolSize", Shape: foreign.Loosely(foreign.Whole(1, math.MaxInt32)), Fate: foreign.Nearly, Text: "there {} threads work at once until the queue is full; here as many as maxThreadPoolSize do, before any waits"},
	{Key: "queueCapacity", Shape: foreign.Loosely(foreign.Whole(1, math.MaxInt32)), Fate: foreign.Kept, To: "bulkhead.queue"},
	{Key: "keepAliveDuration", Fate: foreign.Elsewhere, Text: "goroutines need no pool"},
	{Key: "contextPropagators", Fate: foreign.Elsewhere, Text: "a context is passed on in any case"},
	{Key: "writableStackTraceEnabled", Fate: foreign.Elsewhere, Text: isMetrics},
}, shared...))

var rateRules = foreign.Sourced(r4jRate, append([]foreign.Rule{
	{Key: "limitForPeriod", Shape: foreign.Loosely(foreign.Whole(1, math.MaxInt32)), Fate: foreign.Nearly, To: "rate_limit.rate", Text: "all {} may start at the begin of a period there; here they start evenly, and as many at once after a pause"},
	{Key: "limitRefreshPeriod", Shape: springSpan, Fate: foreign.Kept, To: "rate_limit.rate"},
	{Key: "timeoutDuration", Shape: springSpan, Fate: foreign.Kept, To: "rate_limit.max_wait"},
	{Key: "subscribeForEvents", Fate: foreign.Elsewhere, Text: isMetrics},
	{Key: "allowHealthIndicatorToFail", Fate: foreign.Elsewhere, Text: isMetrics},
	{Key: "writableStackTraceEnabled", Fate: foreign.Elsewhere, Text: isMetrics},
	{Key: "drainPermissionsOnResult", Fate: foreign.Lost, Text: "an answer does not empty the limit here; pace holds calls back when the dependency asks for it"},
}, shared...))

var timeRules = foreign.Sourced(r4jTime, append([]foreign.Rule{
	{Key: "timeoutDuration", Shape: springSpan, Fate: foreign.Kept, To: "timeout.attempt"},
	{Key: "cancelRunningFuture", Shape: springFlag, Fate: foreign.Nearly, Text: "an attempt that timed out is always canceled here"},
}, shared...))

// shared are keys of all sections.
var shared = []foreign.Rule{
	{Key: "baseConfig", Shape: foreign.Word, Fate: foreign.Kept, Source: r4jSpring},
	{Key: "registerHealthIndicator", Fate: foreign.Elsewhere, Text: isMetrics, Source: r4jSpring},
	{Key: "eventConsumerBufferSize", Fate: foreign.Elsewhere, Text: isMetrics, Source: r4jSpring},
}

// sections are those of resilience4j, by the name that they have below it.
var sections = []struct {
	name  string
	rules []foreign.Rule
}{
	{"retry", retryRules},
	{"circuitbreaker", breakerRules},
	{"bulkhead", bulkheadRules},
	{"thread-pool-bulkhead", poolRules},
	{"ratelimiter", rateRules},
	{"timelimiter", timeRules},
}

// springKeys are keys of Spring that are about calls that fail, and are not resilience4j's.
var springKeys = slices.Concat(
	foreign.Stays("is Spring's own", "spring.*", "spring.cloud.*", "spring.cloud.openfeign.*", "spring.cloud.openfeign.client.*", "spring.cloud.openfeign.client.config.*.*"),
	foreign.Sourced("https://docs.spring.io/spring-cloud-openfeign/reference/spring-cloud-openfeign.html", foreign.Under("spring.cloud.openfeign.client.config.*", []foreign.Rule{
		{Key: "connectTimeout", Fate: foreign.Lost, Text: "{} ms for a connection of this client there: set it in the HTTP client's dialer"},
		{Key: "readTimeout", Fate: foreign.Lost, Text: "{} ms without a byte end an attempt of this client there: write it as timeout.attempt"},
		{Key: "retryer", Fate: foreign.Lost, Text: "this client repeats by itself there, beside resilience4j, and both multiply. It is not read: one of the two should be off"},
	})),
	foreign.Sourced("https://docs.spring.io/spring-cloud-gateway/reference/", []foreign.Rule{
		{Key: "spring.cloud.gateway", Fate: foreign.Lost, Text: "Spring Cloud Gateway is not read: what its filters Retry, CircuitBreaker and RequestRateLimiter say is not said here"},
	}),
)

var springTable = func() *foreign.Table {
	all := [][]foreign.Rule{foreign.Stays("is Spring's own", "*"), springKeys}
	for _, s := range sections {
		under := "resilience4j." + s.name
		all = append(all,
			foreign.Under(under+".instances.*", s.rules), foreign.Under(under+".configs.*", s.rules),
			foreign.Under(under, []foreign.Rule{{Key: strings.ReplaceAll(s.name, "-", "") + "AspectOrder", Fate: foreign.Lost, Source: r4jSpring,
				Text: "the order is fixed here: retry around rate limit, bulkhead, breaker and timeout of an attempt"}}),
			foreign.Under(under, foreign.Stays(isMetrics, "metrics", "enabled", "tags")))
	}
	all = append(all, foreign.Stays(isMetrics, "resilience4j.micrometer", "resilience4j.scheduled"))
	return foreign.NewTable("resilience4j ignores it", relaxed, all...)
}()

// relaxed makes Spring's spellings of a key one: max-attempts is maxAttempts.
func relaxed(key string) string { return strings.ToLower(unmarked.Replace(key)) }

var unmarked = strings.NewReplacer("-", "", "_", "")

// springForm is a time as Spring writes it, where it is not ISO 8601's.
var springForm = regexp.MustCompile(`(?i)^\+?\d+(ns|us|ms|s|m|h|d)?$`)

// springSpan takes a time as Spring does: 500ms, 10s, PT10S, or a number of milliseconds.
func springSpan(v *foreign.Value) (reason, proposal string) {
	text := strings.TrimSpace(v.Tree.Text)
	if n, err := strconv.ParseInt(text, 10, 64); err == nil && v.Tree.Kind != yamlstrict.Map {
		switch {
		case n < 0:
			return text + " is negative", "write one such as 500ms"
		case n > math.MaxInt64/int64(time.Millisecond):
			return text + " is too long", "write one such as 10s"
		}
		v.Span, v.Text = time.Duration(n)*time.Millisecond, text
		return "", ""
	}
	if strings.HasPrefix(strings.ToUpper(text), "P") {
		return foreign.ISOSpan(v)
	}
	if reason, _ := foreign.GoSpan(v); reason == "" && !springForm.MatchString(text) {
		return strconv.Quote(text) + " is no time of Spring: it takes one whole number with one unit", "write " + strconv.FormatInt(v.Span.Milliseconds(), 10) + "ms"
	}
	v.Span = 0
	if days, ok := strings.CutSuffix(strings.ToLower(text), "d"); ok {
		if n, err := strconv.Atoi(days); err == nil && n >= 0 && n < 100_000 {
			v.Span, v.Text = time.Duration(n)*24*time.Hour, text
			return "", ""
		}
	}
	return foreign.GoSpan(v)
}

// springFlag takes what Spring takes for true and false.
func springFlag(v *foreign.Value) (reason, proposal string) {
	switch strings.ToLower(v.Tree.Text) {
	case "true", "on", "yes", "1":
		v.On = true
		return "", ""
	case "false", "off", "no", "0":
		return "", ""
	}
	return foreign.Flag(v)
}

// springWord takes a constant, in any spelling that Spring takes.
func springWord(words ...string) foreign.Shape {
	return func(v *foreign.Value) (reason, proposal string) {
		for _, w := range words {
			if v.Tree.Kind == yamlstrict.Text && relaxed(w) == relaxed(v.Tree.Text) {
				v.Text = w
				return "", ""
			}
		}
		return foreign.OneOf(words...)(v)
	}
}
