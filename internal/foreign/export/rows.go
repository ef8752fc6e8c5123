package export

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/internal/foreign"
	"github.com/gabion-go/gabion/internal/grpccode"
	"github.com/gabion-go/gabion/policy"
)

// losses are a format's lines, and those of what it has nothing for. These give way to its own. It
// is without those that its own never leave a policy for.
func losses(format, source string, own []Mapping, without ...string) []Mapping {
	all := slices.Clone(own)
	for _, m := range usualLosses {
		if slices.Contains(without, m.Key) {
			continue
		}
		m.ID, m.Fate, m.usual = "lost", foreign.Lost, true
		m.Source = cmp.Or(m.Source, source)
		all = append(all, m)
	}
	for i := range all {
		all[i].ID = format + ": " + all[i].Key + ": " + all[i].ID
		if all[i].Source == "" {
			all[i].Source = source
		}
	}
	return all
}

var usualLosses = []Mapping{
	{Key: "trust", Text: "no deadline goes along, so the dependency works on for callers that have gone"},
	{Key: "key", Text: "no key is made, and none is asked for: calls go out as the program sent them"},
	{Key: "timeout.call", Text: "nothing bounds all attempts together: with their waits they may take %s, here %s",
		args: func(c *call) []any { return []any{longest(c.comes), spell(c.p.Timeout.Call)} }},
	{Key: "timeout.attempt", Text: "one attempt has no time of its own: a first one that hangs takes the whole call; here it ends after %s",
		args: func(c *call) []any { return []any{spell(c.p.Timeout.Attempt)} }},
	{Key: "timeout.percentile", Text: "the time of an attempt is not taken from what is measured"},
	{Key: "timeout.attempt_min", Text: "the time of an attempt is not taken from what is measured"},
	{Key: "timeout.last", Text: "an attempt that no other can follow has %s; here it has %s",
		args: func(c *call) []any { return []any{attemptOr(c.comes), lastOr(c.p)} }},
	{Key: "timeout.strict", Text: "where all attempts have become slower than their timeout, all are cut off; here they get what is left of the call"},
	{Key: "timeout.idle", Text: "an answer that falls silent has %s; here %s", args: func(c *call) []any { return []any{callOr(c.comes), spell(c.p.Timeout.Idle)} }},
	{Key: "timeout.body", Text: "the body has no time of its own; here %s", args: func(c *call) []any { return []any{spell(c.p.Timeout.Body)} }},
	{Key: "timeout.margin", Text: "a retry goes however little time is left; here at least %s", args: func(c *call) []any { return []any{spell(c.p.Timeout.Margin)} }},
	{Key: "timeout.fit", Text: "a retry goes also where most answers would come too late for it"},
	{Key: "retry.hold", Text: "a retry goes while other calls fail, too; here it waits for one that succeeds"},
	{Key: "retry.immediate", Text: "a first retry waits also where nothing was sent"},
	{Key: "retry.max_after", Text: "Retry-After is not read: a retry goes after its usual wait, also where the dependency asked for more"},
	{Key: "retry.budget", Text: "no budget: in an outage %d attempts are %s× the load",
		args: func(c *call) []any { return []any{c.comes.Retry.Attempts, times(float64(c.comes.Retry.Attempts))} }},
	{Key: "retry.contention", Text: "a conflict is an answer like others and is not tried again; here up to %d times",
		args: func(c *call) []any { return []any{c.p.Retry.Contention.Attempts - 1} }},
	{Key: "hedge", Text: "no further attempt goes while the first is out, so the slowest answers stay as slow as they are; here up to %d do",
		args: func(c *call) []any { return []any{c.p.Hedge.Max} }},
	{Key: "pace", Text: "a 429 holds no other call back; here all wait, at most %s", args: func(c *call) []any { return []any{spell(c.p.Pace.Max)} }},
	{Key: "throttle", Text: "nothing is refused while the dependency refuses most; here from %s requests for each that is accepted",
		args: func(c *call) []any { return []any{times(c.p.Throttle.K)} }},
	{Key: "breaker", Text: "no breaker: in an outage every call is sent, and waits for its timeout"},
	{Key: "bulkhead", Text: "as many are out at once as come: when the dependency hangs, they pile up; here at most %s",
		args: func(c *call) []any { return []any{limitOf(c.p.Bulkhead)} }},
	{Key: "rate_limit", Text: "all go when they come; here %s", args: func(c *call) []any { return []any{rates(c.p.RateLimit)} }},
	{Key: "http", Text: "http.transient and http.permanent say nothing there"},
	{Key: "http.replay_limit", Text: "how much of a body is kept for a retry is not gabion's to say"},
	{Key: "grpc", Text: "grpc.transient and grpc.permanent say nothing there"},
	{Key: "prices", Text: "what calls cost is not added up"},
	{Key: "partitions", Text: "how many partitions are kept says nothing there"},
	{Key: "endpoints", Text: "all go to one host: where it fails, no other endpoint is tried"},
	{Key: "fleet", Text: "limits are each client's own, and not shared: ten of them allow ten times as much"},
}

func spell(d time.Duration) string {
	if d <= 0 {
		return "none"
	}
	return policy.FormatDuration(d)
}

// times writes a factor: 3 is "3.0", and 1.25 is "1.25".
func times(x float64) string {
	text := strconv.FormatFloat(math.Round(x*100)/100, 'f', -1, 64)
	if !strings.Contains(text, ".") {
		text += ".0"
	}
	return text
}

func percent(r policy.Ratio) float64 { return math.Round(float64(max(r, 0))*1000) / 10 }

// longest is how long all attempts with their waits may take.
func longest(p policy.Policy) string {
	if p.Timeout.Attempt <= 0 {
		return "any time"
	}
	all := time.Duration(p.Retry.Attempts) * p.Timeout.Attempt
	for n := range p.Retry.Attempts - 1 {
		all += p.Retry.Backoff.Delay(n, 0, 1)
	}
	return policy.FormatDuration(all.Round(time.Millisecond))
}

func attemptOr(p policy.Policy) string {
	switch {
	case p.Timeout.Attempt > 0:
		return policy.FormatDuration(p.Timeout.Attempt)
	case p.Timeout.Call > 0:
		return "the call's " + policy.FormatDuration(p.Timeout.Call)
	}
	return "no bound"
}

func callOr(p policy.Policy) string {
	if p.Timeout.Call > 0 {
		return "what is left of " + policy.FormatDuration(p.Timeout.Call)
	}
	return "no bound"
}

func rates(r policy.RateLimit) string {
	var words []string
	if r.Rate > 0 {
		words = append(words, "at most "+r.Rate.String())
	}
	for _, q := range r.Quotas {
		words = append(words, "at most "+q.String())
	}
	return strings.Join(words, ", ")
}

func lastOr(p policy.Policy) string {
	if p.Timeout.Last > 0 {
		return policy.FormatDuration(p.Timeout.Last)
	}
	return callOr(p)
}

func hedgeDelay(h policy.Hedge) string {
	switch {
	case h.Percentile > 0:
		return "each after a measured time"
	case h.Delay > 0:
		return "each after " + policy.FormatDuration(h.Delay)
	case h.Delay == policy.Off:
		return "each after a failure"
	}
	return "at once"
}

func limitOf(b policy.Bulkhead) string {
	if b.Limit == policy.Learned {
		return fmt.Sprintf("a learned limit of up to %d", b.Max)
	}
	return strconv.Itoa(b.Limit)
}

// What lines are for.

func retries(c *call) bool   { return c.p.Retry.Attempts > 1 }
func noRetries(c *call) bool { return !retries(c) }
func hedges(c *call) bool    { return c.p.Hedge.Max > 0 }
func unsafe(c *call) bool    { return !c.p.Safe && retries(c) }

func both(a, b func(*call) bool) func(*call) bool { return func(c *call) bool { return a(c) && b(c) } }
func not(a func(*call) bool) func(*call) bool     { return func(c *call) bool { return !a(c) } }

func callBounded(c *call) bool    { return c.p.Timeout.Call > 0 }
func attemptBounded(c *call) bool { return c.p.Timeout.Attempt > 0 && retries(c) }
func budgeted(c *call) bool       { return retries(c) && !c.p.Retry.Budget.Off }
func breaks(c *call) bool         { return !c.p.Breaker.Off }
func inRow(c *call) bool          { return breaks(c) && !c.p.Breaker.Observe && c.p.Breaker.Consecutive > 0 }
func bounded(c *call) bool        { return !c.p.Bulkhead.Off && c.p.Bulkhead.Limit > 0 }
func learns(c *call) bool         { return !c.p.Bulkhead.Off && c.p.Bulkhead.Limit == policy.Learned }

func shaped(s policy.BudgetShape) func(*call) bool {
	return func(c *call) bool { return budgeted(c) && c.p.Retry.Budget.Shape == s }
}

// The lines of a silent answer, where silence ends a request.
const idleText = "%s of silence end a request also before its answer begins"

func silence(c *call) bool   { return c.p.Timeout.Idle > 0 }
func idle(c *call)           { c.comes.Timeout.Idle = inMillis(c.p.Timeout.Idle) }
func idleArgs(c *call) []any { return []any{spell(c.comes.Timeout.Idle)} }

// extra is the share of a policy's load that its budget lets re-sends add while all goes on as
// before.
func extra(b policy.Budget) float64 {
	r := float64(max(b.Ratio, 0))
	switch b.Shape {
	case policy.BudgetShare: // of what is in flight, re-sends included
		return r / (1 - min(r, 0.99))
	case policy.BudgetTokens, policy.BudgetQuota:
		return r / float64(max(b.Cost, 1))
	}
	return r
}

// outage says in numbers what a policy's budget allows where nothing succeeds.
func outage(b policy.Budget) string {
	switch b.Shape {
	case policy.BudgetWindow:
		return times(1+extra(b)) + "×"
	case policy.BudgetShare: // it bounds what is in flight, and no rate
		return times(1+extra(b)) + "×, or more where failures come at once"
	}
	return "1.0× once what is kept is used up"
}

// toShare makes a share of what is in flight out of another budget.
func toShare(c *call) {
	b := c.p.Retry.Budget
	more := extra(b)
	c.comes.Retry.Budget = policy.Budget{Shape: policy.BudgetShare, Ratio: roundRatio(more/(1+more), 1000), MinInFlight: max(b.MinInFlight, 1)}
}

// toWindow makes a share of the calls of some time out of another budget.
func toWindow(c *call) {
	b := c.p.Retry.Budget
	floor := policy.PerSecond(1)
	if b.Shape == policy.BudgetWindow {
		floor = b.Floor
	}
	c.comes.Retry.Budget = policy.Budget{Shape: policy.BudgetWindow, Ratio: roundRatio(min(extra(b), 1), 100), Window: 10 * time.Second, Floor: floor}
}

// roundRatio rounds to whole parts, and keeps Off for none.
func roundRatio(x float64, parts float64) policy.Ratio {
	if r := policy.Ratio(math.Round(x*parts) / parts); r > 0 {
		return r
	}
	return policy.Off
}

// full makes full jitter of another backoff.
func full(base, most time.Duration) backoff.Backoff {
	base = max(inMillis(base), time.Millisecond)
	return backoff.Full(base, max(inMillis(most), base))
}

// transient are the statuses that are repeated.
func transient(p policy.Policy) (codes []int) {
	for _, code := range append([]int{408, 429, 502, 503, 504}, p.HTTP.Transient...) {
		if !slices.Contains(p.HTTP.Permanent, code) && !slices.Contains(codes, code) {
			codes = append(codes, code)
		}
	}
	slices.Sort(codes)
	return codes
}

// repeated are the gRPC codes that are repeated, as conditions of Envoy and Linkerd.
func repeated(p policy.Policy) (words []string) {
	for _, code := range known(grpcCodes(p)) {
		words = append(words, strings.ReplaceAll(strings.ToLower(code.String()), "_", "-"))
	}
	return words
}

// known keeps the five gRPC codes that Envoy and Linkerd have conditions for.
func known(codes []policy.GRPCCode) []policy.GRPCCode {
	return slices.DeleteFunc(slices.Clone(codes), func(code policy.GRPCCode) bool {
		return !slices.Contains([]policy.GRPCCode{grpccode.Cancelled, grpccode.DeadlineExceeded, grpccode.Internal, grpccode.ResourceExhausted, grpccode.Unavailable}, code)
	})
}

func numbers(codes []int) string {
	words := make([]string, len(codes))
	for i, code := range codes {
		words[i] = strconv.Itoa(code)
	}
	return strings.Join(words, ",")
}

// object names for Kubernetes.
func objectName(name string) string {
	clean := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '-':
			return r
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		}
		return '-'
	}, name)
	if clean = strings.Trim(clean[:min(len(clean), 60)], "-"); clean == "" {
		return "dependency"
	}
	return clean
}

func number(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }

func queued(b policy.Bulkhead) string {
	says := fmt.Sprintf("%d wait, at most %s", b.Queue, spell(b.QueueTimeout))
	switch {
	case b.Queue < 0:
		says = "it does, too"
	case b.Queue == 0:
		says = "up to twice the limit wait, at most " + spell(b.QueueTimeout)
	}
	if b.Fair {
		says += ", and tenants share the slots"
	}
	if b.Per == policy.PerCall {
		says += ", and the bound is of calls"
	}
	return says
}
