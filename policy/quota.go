package policy

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/gabion-go/gabion/internal/terms"
)

// Quota is how much of something the calls of a dependency, or of each of its partitions, may use
// in a time: requests, tokens, money. Files write it as a line: "200000 tokens/1m estimate 900 among 10 window".
type Quota struct {
	// Unit names what is counted, such as requests, tokens, input, output or usd. A quota of
	// requests counts attempts.
	Unit string

	// Amount is how much there is. It is also the most that may be used at once.
	Amount float64

	// Span is the time in which the whole amount comes back. Zero means 1 min.
	Span time.Duration

	// Estimate is what an attempt is thought to use where its call does not say. Zero means 1. Of requests it is
	// always 1.
	Estimate float64

	// Among is how many processes share the quota, where the dependency does not say what is left: each
	// uses its part. Zero means 1.
	Among int

	// Window says that the whole amount comes back at once at the end of each span. Zero means
	// that it comes back steadily.
	Window bool

	// Each says that every endpoint has the whole amount by itself, for the calls of all partitions, as where each
	// has a key of its own. Zero means that all endpoints share it. Without endpoints it means nothing.
	Each bool
}

// Remaining is what a dependency said is left of one of its quotas. The zero value of a field but
// Left says nothing.
type Remaining struct {
	Unit   string        // as in [Quota.Unit]; of units without a quota nothing is done
	Left   float64       // what is left, as the dependency counts
	Limit  float64       // how much there is in all
	Reset  time.Duration // from now until there is more
	Window time.Duration // the time in which it all comes back
	Full   bool          // Reset is the time until there is all of it
}

// Requests is the unit of which each attempt uses one.
const Requests = "requests"

const (
	minAmount        = 1e-6
	maxAmount        = 1e15
	maxAmong         = 100_000
	maxQuotaText     = 160
	defaultQuotaSpan = time.Minute
	minQuotaSpan     = 100 * time.Millisecond
	maxQuotaSpan     = 32 * 24 * time.Hour
	quotaExample     = "write one such as 200000 tokens/1m estimate 900"
)

var quotaUnit = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,31}$`)

// String returns the quota as files write it.
func (q Quota) String() string {
	var b strings.Builder
	b.WriteString(formatFloat(q.Amount) + " " + q.Unit)
	if q.Span != 0 {
		b.WriteString("/" + FormatDuration(q.Span))
	}
	if q.Estimate != 0 && q.Unit != Requests {
		b.WriteString(" estimate " + formatFloat(q.Estimate))
	}
	if q.Among > 1 {
		b.WriteString(" among " + strconv.Itoa(q.Among))
	}
	if q.Window {
		b.WriteString(" window")
	}
	if q.Each {
		b.WriteString(" each")
	}
	return b.String()
}

// MarshalText returns the quota as files write it.
func (q Quota) MarshalText() ([]byte, error) { return []byte(q.String()), nil }

// UnmarshalText reads a line such as "200000 tokens/1m estimate 900 among 10 window". On an error q
// stays as it was.
func (q *Quota) UnmarshalText(text []byte) error {
	s := string(text)
	words := strings.Fields(s)
	switch {
	case len(s) > maxQuotaText || len(words) == 0 || !isDecimal(words[0]):
		return textError(fmt.Sprintf("%.60s", s), "is no quota", quotaExample)
	case len(words) == 1:
		return textError(s, "has no unit", fmt.Sprintf("write %s requests/1m, or tokens", words[0]))
	}
	var read Quota
	read.Amount, _ = strconv.ParseFloat(words[0], 64)
	unit, span, spanned := strings.Cut(words[1], "/")
	read.Unit = unit
	if spanned {
		d, err := ParseDuration(spanText(span))
		if err != nil || d == Off {
			return textError(s, "has no span that can be read", "write 1m, 1h or 24h after the slash")
		}
		read.Span = d
	}
	for rest := words[2:]; len(rest) > 0; {
		n, problem := read.word(rest)
		if problem != "" {
			return textError(s, problem, "after the span come estimate N, among N, window and each")
		}
		rest = rest[n:]
	}
	if problem, proposal := read.wrong(); problem != "" {
		return textError(s, problem, proposal)
	}
	*q = read
	return nil
}

// spanText lets a span be a unit alone, such as the m of tokens/m.
func spanText(s string) string {
	switch s {
	case "s", "m", "h":
		return "1" + s
	}
	return s
}

// word reads one of the words after the span, and returns how many were used.
func (q *Quota) word(rest []string) (n int, problem string) {
	switch rest[0] {
	case "window":
		q.Window = true
		return 1, ""
	case "each":
		q.Each = true
		return 1, ""
	}
	if rest[0] != "estimate" && rest[0] != "among" {
		return 0, fmt.Sprintf("has %q, which means nothing here", rest[0])
	}
	if len(rest) < 2 || !isDecimal(rest[1]) {
		return 0, "has no number after " + rest[0]
	}
	v, _ := strconv.ParseFloat(rest[1], 64)
	if rest[0] == "estimate" {
		q.Estimate = v
		return 2, ""
	}
	if v < 1 || v > maxAmong || v != math.Trunc(v) {
		return 0, "is shared among no number of processes"
	}
	q.Among = int(v)
	return 2, ""
}

// wrong says what is wrong with a quota by itself.
func (q Quota) wrong() (problem, proposal string) {
	switch {
	case !quotaUnit.MatchString(q.Unit):
		return "has no unit", "write requests, tokens, usd or another word of small letters"
	case !(q.Amount >= minAmount) || q.Amount > maxAmount:
		return "has an amount that is not between 0.000001 and 1e15", quotaExample
	case q.Span != 0 && (q.Span < minQuotaSpan || q.Span > maxQuotaSpan):
		return "has a span that is not between 100 ms and 32 days", quotaExample
	case q.Estimate != 0 && !(q.Estimate >= minAmount):
		return "has an estimate that is not above 0.000001", "write what an attempt uses on average"
	case q.Estimate > q.Amount:
		return "has an estimate above its amount, so no call could ever go", "write a smaller estimate, or the amount that you have"
	case q.Among < 0 || q.Among > maxAmong:
		return "is shared among no number of processes", "write how many there are"
	case q.Unit == Requests && q.Amount < 1:
		return "has less than one request", "write a longer span"
	}
	return "", ""
}

func (q Quota) resolved() Quota {
	q.Span = or(q.Span, defaultQuotaSpan)
	q.Estimate = or(q.Estimate, min(1, q.Amount))
	q.Among = or(q.Among, 1)
	if q.Unit == Requests {
		q.Estimate = 1
	}
	return q
}

func (c *check) quotas(list []Quota) {
	const path = "rate_limit.quotas"
	if len(list) > terms.MaxQuotas {
		c.add(path, "", fmt.Sprintf("%d quotas", len(list)), "are too many", fmt.Sprintf("write at most %d", terms.MaxQuotas))
		return
	}
	type kind struct {
		unit   string
		span   time.Duration
		window bool
		each   bool
	}
	seen := map[kind]bool{}
	for i, q := range list {
		r := q.resolved()
		k := kind{r.Unit, r.Span, r.Window, r.Each}
		if problem, proposal := q.wrong(); problem != "" {
			addItem(c, path, i, q.String(), problem, proposal)
		} else if seen[k] {
			addItem(c, path, i, q.String(), "has the unit and span of another", "keep the smaller one")
		}
		seen[k] = true
	}
}
