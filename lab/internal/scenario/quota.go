package scenario

import (
	"cmp"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/gabion-go/gabion/internal/terms"
	"github.com/gabion-go/gabion/lab/internal/draw"
	"github.com/gabion-go/gabion/lab/internal/sim"
	"github.com/gabion-go/gabion/policy"
)

// allowance is a line of quotas: how much of something there is in a time.
type allowance sim.Quota

// usage is what a call uses of a quota.
type usage struct {
	draw.Dist // a millisecond is one of the unit
	unit      string
}

// tells are the words for what answers say is left.
var tells = []string{"left", "nothing", "none", "all"}

const (
	allowanceExample = "write one such as 200000 tokens/1m, or 25 usd/24h window"
	usageExample     = "write one such as 900 tokens, exp 900 tokens, lognormal 700/5000 tokens, uniform 200..1060 tokens, or parts such as 90% 500 | 10% exp 5000 tokens"
)

func parseAllowance(s string) (any, string, string) {
	var q policy.Quota
	if err := q.UnmarshalText([]byte(s)); err != nil {
		problem, _ := textProblem(err)
		return nil, problem, allowanceExample
	}
	if q.Estimate != 0 || q.Among != 0 {
		return nil, "says what callers do, and a service knows nothing of that", "remove estimate and among"
	}
	q.Span = cmp.Or(q.Span, time.Minute)
	return allowance{Unit: q.Unit, Amount: q.Amount, Span: q.Span, Window: q.Window}, "", ""
}

var (
	usageNumber = regexp.MustCompile(`[0-9]+(\.[0-9]+)?%?`)
	usageUnit   = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,31}$`)
	usageWords  = []string{"exp", "lognormal", "uniform"}
)

// usagePattern is what a usage looks like, for the schema.
const usagePattern = `^[a-z0-9.%/| +]+ [a-z][a-z0-9_-]{0,31}$`

// parseUsage reads a distribution of plain numbers, and a unit.
func parseUsage(s string) (any, string, string) {
	at := strings.LastIndexByte(s, ' ')
	if at < 0 || !usageUnit.MatchString(s[at+1:]) {
		return nil, "has no unit", usageExample
	}
	text, unit := strings.TrimSpace(s[:at]), s[at+1:]
	if unit == policy.Requests {
		return nil, "is one of each request anyway", "remove it"
	}
	for _, word := range strings.FieldsFunc(text, func(r rune) bool { return !(r >= 'a' && r <= 'z') && r <= 127 }) {
		if !slices.Contains(usageWords, word) {
			return nil, "is no amount of " + unit, usageExample
		}
	}
	d, problem := (*files)(nil).readDist(usageNumber.ReplaceAllStringFunc(text, func(n string) string {
		if strings.HasSuffix(n, "%") {
			return n
		}
		return n + "ms" // durations are read by the same forms
	}), true)
	if problem != "" {
		return nil, strings.Replace(problem, "duration", "number", 1), usageExample
	}
	return usage{d, unit}, "", ""
}

func (it item) quotas(q *quotas) {
	if !it.has("quotas") {
		return
	}
	switch {
	case len(q.List) == 0:
		it.fail("quotas", "quotas.list is missing", "write quotas: {list: [200000 tokens/1m]}")
	case len(q.List) > terms.MaxQuotas:
		it.fail("quotas.list", fmt.Sprintf("%d quotas are too many", len(q.List)), fmt.Sprintf("write at most %d", terms.MaxQuotas))
	}
	if q.Exact && q.RetryAfter > 0 {
		it.fail("quotas.retry_after", "retry_after contradicts exact", "remove one")
	}
}

// uses checks what a call uses.
func (it item) uses(e *edge) {
	if len(e.Uses) == 0 {
		it.never("without uses", "estimates")
	}
	for i, u := range e.Uses {
		if slices.ContainsFunc(e.Uses[:i], func(other usage) bool { return other.unit == u.unit }) {
			it.fail("uses", "it says twice what it uses of "+u.unit, "remove one")
		}
	}
}

// metered refuses quotas of which no call uses anything, and uses of what no quota is of. The service may be
// an endpoint, so all services count.
func (r *reader) metered() {
	units := map[string]bool{}
	for i := range r.file.services {
		v := &r.file.services[i]
		for _, q := range v.Quotas.List {
			units[q.Unit] = true
			if q.Unit != policy.Requests && !slices.ContainsFunc(callsTo(r.file, i), func(e namedEdge) bool { return e.usesOf(q.Unit) > 0 }) {
				r.fail(v.at, v.name+": no call of it uses "+q.Unit, fmt.Sprintf("write uses: [exp 900 %s] at a call", q.Unit))
			}
		}
	}
	for _, e := range allCalls(r.file) {
		for _, u := range e.Uses {
			if !units[u.unit] {
				r.fail(e.at, fmt.Sprintf("%s is used, and no service has a quota of it", u.unit), fmt.Sprintf("write quotas: {list: [200000 %s/1m]} at a service, or remove it", u.unit))
			}
		}
	}
}

// usesOf is how much of that unit a call uses on average.
func (e namedEdge) usesOf(unit string) float64 {
	for _, u := range e.Uses {
		if u.unit == unit {
			return float64(u.Mean()) / float64(time.Millisecond)
		}
	}
	return 0
}

func (q *quotas) lower() *sim.Quotas {
	if len(q.List) == 0 {
		return nil
	}
	made := &sim.Quotas{PerCaller: q.PerCaller, Tells: sim.Tells(q.Tells), After: time.Duration(q.RetryAfter), Honest: q.Exact}
	for _, one := range q.List {
		made.List = append(made.List, sim.Quota(one))
	}
	return made
}

func (e *edge) lowerUses() (uses []sim.Use) {
	for _, u := range e.Uses {
		uses = append(uses, sim.Use{Unit: u.unit, Amount: u.Dist, Says: float64(e.Estimates)})
	}
	return uses
}

// quotaRate is how many requests a second the quotas of a service allow, of those that its calls make on average.
func (w *world) quotaRate(service int) float64 {
	least, q := math.Inf(1), w.Services[service].Quotas
	if q == nil || q.PerCaller {
		return least
	}
	for i := range q.List {
		if use := w.meanUse(service, q.List[i].Unit); use > 0 {
			least = min(least, q.List[i].Amount/q.List[i].Span.Seconds()/use)
		}
	}
	return least
}

// meanUse is what a request at a service uses of a quota: the mean of the calls that may reach it.
func (w *world) meanUse(service int, unit string) float64 {
	if unit == policy.Requests {
		return 1
	}
	sum, n := 0.0, 0
	add := func(p *sim.Plan) {
		for i := range p.Steps {
			for _, u := range p.Steps[i].Edge.Uses {
				if u.Unit == unit && p.Steps[i].Edge.To == service {
					sum, n = sum+float64(u.Amount.Mean())/float64(time.Millisecond), n+1
				}
			}
		}
	}
	for i := range w.Fleets {
		add(&w.Fleets[i].Plan)
	}
	for i := range w.Services {
		add(&w.Services[i].Plan)
	}
	return sum / float64(max(n, 1))
}

// defsOfQuotas returns what is said of a service that has quotas.
func defsOfQuotas(f *File, i int, name string) []def {
	if len(f.services[i].Quotas.List) == 0 {
		return nil
	}
	return []def{
		{"quota", name, "of the quota of " + name + " that is used most, what was used of what came back", Share, true, func(m *measured) float64 {
			most := math.NaN()
			for k, back := range m.Services[i].Back {
				if share := m.Services[i].Taken[k] / back; back > 0 && !(share <= most) {
					most = share
				}
			}
			return most
		}},
		{"over_quota", name, "requests at " + name + " for which a quota had not enough left", Share, false, func(m *measured) float64 {
			return div(m.Services[i].OverQuota, m.Services[i].Received)
		}},
	}
}
