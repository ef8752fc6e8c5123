package scenario

import (
	"errors"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gabion-go/gabion/internal/bulkhead"
	"github.com/gabion-go/gabion/internal/terms"
	"github.com/gabion-go/gabion/internal/yamlstrict"
	"github.com/gabion-go/gabion/lab/internal/draw"
	"github.com/gabion-go/gabion/lab/internal/recorded"
	"github.com/gabion-go/gabion/lab/internal/sim"
	"github.com/gabion-go/gabion/policy"
)

// The types of values in a file. A zero is what was left out.
type (
	span    time.Duration // longer than nothing
	instant time.Duration // from the beginning of the run; 0s is one
	whole   int           // at least 1
	slots   int           // at least 1; -1 is learned
	places  int           // at least 1; -1 means no queue
	share   float64       // above 0 %, at most 100 %
	percent float64       // above 0 %
	rate    float64       // a second
	factor  float64       // a plain number, above 0

	dist struct {
		draw.Dist
		text string // as the file spells it
	}
	window struct{ from, to time.Duration }

	replay struct {
		recorded.Calls
		text string // as the file spells it
	}
)

// The words of a file and what they mean.
var (
	loops     = []string{"open", "closed", "trace"}
	balances  = []string{"random", "round_robin", "two_choices", "least_busy"}
	orders    = []string{"fifo", "lifo", "codel", "priority"}
	kinds     = []string{"down", "black_hole", "reset", "brown_out", "slow", "errors", "lost_answers", "rate_limit", "restart", "restart_clients", "clock_skew", "reload", "cut_body", "slow_body", "cache_down", "store_down"}
	urgencies = []string{"normal", "low", "high"}
	inboxes   = []string{"none", "hold", "reexecute"}
	harms     = []string{"fails", "permanent", "crashes"}
	methods   = []string{"GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE", "POST", "PATCH"}
)

type (
	loopWord    sim.Loop
	balanceWord sim.Balance
	orderWord   sim.Discipline
	kindWord    int // one more than a sim.Kind, so that zero is left out
	urgentWord  bulkhead.Priority
	inboxWord   sim.Inbox
	harmWord    sim.Harm
	methodWord  string // empty is left out
	tellsWord   sim.Tells
)

// The longest and the most that a file may ask for: what is beyond would only ever
// be a slip.
const (
	maxSpan  = 31 * 24 * time.Hour
	maxRate  = 1e6
	maxWhole = 10_000_000
)

// spellings says how the types above are written.
func spellings(files *files) map[reflect.Type]yamlstrict.Scalar {
	return map[reflect.Type]yamlstrict.Scalar{
		reflect.TypeFor[span]():        {Parse: func(s string) (any, string, string) { return parseSpan(s) }},
		reflect.TypeFor[instant]():     {Parse: parseInstant},
		reflect.TypeFor[whole]():       {Parse: parseWhole},
		reflect.TypeFor[slots]():       {Parse: wholeOr("learned", func(n int) any { return slots(n) })},
		reflect.TypeFor[places]():      {Parse: wholeOr("none", func(n int) any { return places(n) })},
		reflect.TypeFor[share]():       {Parse: parseShare},
		reflect.TypeFor[percent]():     {Parse: parsePercent},
		reflect.TypeFor[rate]():        {Parse: parseRate},
		reflect.TypeFor[factor]():      {Parse: parseFactor},
		reflect.TypeFor[dist]():        {Parse: files.dist},
		reflect.TypeFor[replay]():      {Parse: files.replay},
		reflect.TypeFor[window]():      {Parse: parseWindow},
		reflect.TypeFor[allowance]():   {Parse: parseAllowance},
		reflect.TypeFor[usage]():       {Parse: parseUsage},
		reflect.TypeFor[failing]():     {Parse: parseFailing},
		reflect.TypeFor[tellsWord]():   wordScalar(tells, func(i int) any { return tellsWord(i) }),
		reflect.TypeFor[loopWord]():    wordScalar(loops, func(i int) any { return loopWord(i) }),
		reflect.TypeFor[balanceWord](): wordScalar(balances, func(i int) any { return balanceWord(i) }),
		reflect.TypeFor[orderWord]():   wordScalar(orders, func(i int) any { return orderWord(i) }),
		reflect.TypeFor[kindWord]():    wordScalar(kinds, func(i int) any { return kindWord(i + 1) }),
		reflect.TypeFor[inboxWord]():   wordScalar(inboxes, func(i int) any { return inboxWord(i) }),
		reflect.TypeFor[harmWord]():    wordScalar(harms, func(i int) any { return harmWord(i) }),
		reflect.TypeFor[methodWord]():  wordScalar(methods, func(i int) any { return methodWord(methods[i]) }),
		reflect.TypeFor[urgentWord]():  wordScalar(urgencies, func(i int) any { return urgentWord([]bulkhead.Priority{0, -1, 1}[i]) }),
	}
}

func wordScalar(words []string, value func(int) any) yamlstrict.Scalar {
	return yamlstrict.Scalar{Words: words, Parse: func(s string) (any, string, string) {
		if i := slices.Index(words, s); i >= 0 {
			return value(i), "", ""
		}
		return nil, "is not known", "use one of " + strings.Join(words, ", ")
	}}
}

// textProblem says what a policy's text type has against a text.
func textProblem(err error) (problem, proposal string) {
	if as, is := errors.AsType[*terms.TextError](err); is {
		return as.Problem, as.Proposal
	}
	return err.Error(), ""
}

func parseSpan(s string) (span, string, string) {
	d, err := policy.ParseDuration(s)
	switch {
	case err != nil:
		problem, proposal := textProblem(err)
		return 0, problem, strings.Replace(proposal, ", or write off", "", 1)
	case d == policy.Off:
		return 0, "is no duration", "leave the key out"
	case d > maxSpan:
		return 0, "is longer than a month", "write less"
	}
	return span(d), "", ""
}

func parseInstant(s string) (any, string, string) {
	if s == "0s" {
		return instant(0), "", ""
	}
	d, problem, proposal := parseSpan(s)
	return instant(d), problem, proposal
}

func parseWhole(s string) (any, string, string) {
	n, err := strconv.Atoi(s)
	switch {
	case !errors.Is(err, strconv.ErrRange) && (err != nil || strconv.Itoa(n) != s): // out of range, it is the nearest
		return nil, "is not a whole number", "write digits only, such as 3"
	case n < 1:
		return nil, "is less than one", "write 1 or more, or leave the key out"
	case n > maxWhole:
		return nil, "is more than ten million", "write less"
	}
	return whole(n), "", ""
}

// wholeOr reads a whole number, or a word that means -1.
func wholeOr(word string, value func(int) any) func(string) (any, string, string) {
	return func(s string) (any, string, string) {
		if s == word {
			return value(-1), "", ""
		}
		v, problem, proposal := parseWhole(s)
		if problem != "" {
			return nil, problem, proposal + ", or write " + word
		}
		return value(int(v.(whole))), "", ""
	}
}

func parsePercent(s string) (any, string, string) {
	var r policy.Ratio
	if err := r.UnmarshalText([]byte(s)); err != nil {
		problem, proposal := textProblem(err)
		return nil, problem, strings.Replace(proposal, ", or write off", "", 1)
	}
	if r == policy.Off {
		return nil, "is no percentage", "leave the key out"
	}
	if r > 1000 {
		return nil, "is more than a thousandfold", "write less"
	}
	return percent(r), "", ""
}

func parseShare(s string) (any, string, string) {
	v, problem, proposal := parsePercent(s)
	switch {
	case problem != "":
		return nil, problem, proposal
	case v.(percent) > 1:
		return nil, "is more than all", "write at most 100%"
	}
	return share(v.(percent)), "", ""
}

func parseRate(s string) (any, string, string) {
	var r policy.PerSecond
	if err := r.UnmarshalText([]byte(s)); err != nil {
		problem, proposal := textProblem(err)
		return nil, problem, strings.Replace(proposal, ", or write off", "", 1)
	}
	switch {
	case r == policy.Off:
		return nil, "is no rate", "leave the key out"
	case r > maxRate:
		return nil, "is more than a million a second", "write less"
	case r < 1e-6:
		return nil, "is less than one in a week", "write more"
	}
	return rate(r), "", ""
}

func parseFactor(s string) (any, string, string) {
	f, err := strconv.ParseFloat(s, 64)
	switch {
	case err != nil || strings.Trim(s, "0123456789.") != "":
		return nil, "is not a number", "write one such as 0.25 or 3"
	case f < 1e-3 || f > 1000:
		return nil, "is out of range", "write 0.001 to 1000"
	}
	return factor(f), "", ""
}

func parseWindow(s string) (any, string, string) {
	from, to, ok := strings.Cut(s, "..")
	a, problem, proposal := parseInstant(from)
	if !ok || problem != "" {
		return nil, "is not a span of time", "write one such as 2m..3m"
	}
	b, problem, _ := parseSpan(to)
	w := window{time.Duration(a.(instant)), time.Duration(b)}
	if problem != "" || w.to <= w.from {
		return nil, "does not end after it begins", "write one such as 2m..3m" + proposal
	}
	return w, "", ""
}

func (e *edge) priority() bulkhead.Priority { return bulkhead.Priority(e.Priority) }
