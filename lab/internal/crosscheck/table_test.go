package crosscheck

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"github.com/gabion-go/gabion/internal/lint"
	"github.com/gabion-go/gabion/internal/testgolden"
)

// shown says what the lab plays for each rule that it can show, and what counts as failure.
var shown = map[string][2]string{
	"G001": {"answers are lost after the work was done; some services look at keys", "work was done twice"},
	"G003": {"thirty calls fail in one moment", "their second attempts come within 5 ms"},
	"G004": {"thirty calls fail in one moment", "their second attempts come within 1 ms"},
	"G006": {"everything fails for 30 s", "the service gets more than six times the calls"},
	"G010": {"no attempt is ever answered", "a call does not make all its attempts, or not for their whole time"},
	"G012": {"all is well", "less than 97 % of the calls are answered in time"},
	"G013": {"the service is down for 40 s", "after 20 s still four of five calls are sent"},
	"G015": {"all is well", "the breaker opens"},
	"G016": {"everything fails, for three windows", "the breaker does not open"},
	"G017": {"one call in twenty fails", "the breaker opens"},
	"G020": {"everything fails for 30 s", "the service gets more than 1.7 times the calls"},
	"G029": {"all is well", "more than 2 % of the calls are refused"},
	"G031": {"all is well", "1 % of the attempts or more is cut off"},
	"G033": {"a call meets the beginning of an outage, twenty times", "it never succeeds"},
	"G036": {"most calls are answered 429 with Retry-After", "three of four calls are sent all the same"},
	"G042": {"all is well", "more than half of the calls are hedged"},
}

// Why the lab does not show the other rules.
const (
	ofTheFile    = "it is about the file, and not about calls"
	ofOthers     = "the lab has no mesh, no SDK below and no proxy between"
	ofStores     = "it is about a store or a route: the lab's services remember keys for ever and lose none"
	ofGraphs     = "it is about several files: the chains of the lab's scenarios show it, one policy does not"
	ofKnowledge  = "it is about what operators see or declare, which changes no call"
	ofConnection = "the lab has no connections and no pools below the bulkhead"
	ofTaste      = "it says that a value has no effect, or is unusual: nothing fails because of it"
	ofFleets     = "what it adds up depends on when each process fails; `lab run` of a scenario with the fleet's size shows it"
)

var notShown = map[string]string{
	"G000": ofTheFile, "G090": ofTheFile, "G091": ofTheFile, "G092": ofTheFile,
	"G002": ofKnowledge, "G005": "the lab's services answer 429, 500, 503 and 529 only", "G007": "without a timeout a call of the lab ends with the run: there is no figure that it would miss",
	"G008": "what it advises is held against the lab: advice_test.go", "G009": "the lab's answers have no bodies", "G011": ofTaste, "G014": "the lab has no bound of memory that calls could reach",
	"G018": "what a breaker refuses in vain depends on the outage; docs/defaults.md has the figures of sixteen", "G019": "likewise",
	"G021": ofTaste, "G022": ofTaste, "G023": ofFleets, "G024": ofFleets, "G025": "the lab has no local calls", "G026": ofConnection, "G027": ofConnection,
	"G028": ofTaste, "G030": ofTaste, "G032": ofTaste, "G034": ofTaste, "G035": ofTaste, "G037": ofStores, "G038": ofStores,
	"G039": "hedges without a budget are played under G042, with it off", "G040": ofTaste, "G045": "what is not tried again is a single try, which docs/defaults.md has as plain", "G041": "a write that is hedged is played under G001",
	"G043": ofOthers, "G044": ofOthers, "G046": ofOthers, "G047": ofKnowledge, "G048": ofKnowledge, "G049": ofFleets,
	"G065": "it is arithmetic: TestTheMachineUsesAQuotaWhole plays the number that is right", "G066": ofTaste, "G067": "TestWhatASecondAttemptIsFor plays it: random policies have no endpoints",
	"G068": "there is nothing that one endpoint does worse than none", "G069": "random policies have no endpoints",
	"G082": "it is arithmetic, and random policies share nothing", "G083": ofTaste, "G084": "TestWhatLostComesTo plays it: random policies share nothing",
}

// reason is why a rule is not shown; the rules of routes and of graphs share one.
func reason(id string) string {
	switch {
	case id >= "G050" && id < "G065":
		return ofStores
	case id >= "G070" && id < "G082":
		return ofGraphs
	case id >= "G085" && id < "G090":
		return "it is about listeners of the proxy, and no policy"
	}
	return notShown[id]
}

// Each rule is held against the lab, or the table says why not.
func TestTheTableNamesEachRule(t *testing.T) {
	var b bytes.Buffer
	b.WriteString("<!-- Made by: go test ./internal/crosscheck -update, in lab. Change table_test.go there. -->\n# The linter held against the lab\n\n" +
		"Random policies go through the linter and through [the lab](lab.md). Where a rule is silent, the lab must not show the failure that the rule is about. Where it\n" +
		"warns, the lab must be able to show it. `make test` draws two dozen policies for each rule, `make soak` a thousand. No disagreement is\naccepted.\n\n" +
		"Policies at the bound of a rule, where one run of the lab does not tell, are counted and not judged: `lab/internal/crosscheck/checks_test.go` says for each rule how near that is.\n" +
		"One bound is wide: the linter knows the median and the 99th percentile, and nothing of how latencies lie between them, so G015 is silent about a\n`slow_call` between the two although the breaker may open.\n\n" +
		"| rule | the lab plays | it shows the failure if |\n|---|---|---|\n")
	rules := lint.Rules()
	for _, r := range rules {
		is := slices.ContainsFunc(checks, func(c check) bool { return c.rule == r.ID })
		what, told := shown[r.ID]
		if is != told || is == (reason(r.ID) != "") {
			t.Errorf("%s %s: held against the lab %v, told what is played %v, why not: %q", r.ID, r.Name, is, told, reason(r.ID))
		}
		if is {
			fmt.Fprintf(&b, "| [%s](lint/%s.md) %s | %s | %s |\n", r.ID, r.ID, r.Name, what[0], what[1])
		}
	}
	b.WriteString("\nThe lab does not show these:\n\n| rule | why not |\n|---|---|\n")
	for _, r := range rules {
		if why := reason(r.ID); why != "" {
			fmt.Fprintf(&b, "| [%s](lint/%s.md) %s | %s |\n", r.ID, r.ID, r.Name, why)
		}
	}
	for _, c := range checks {
		if !slices.ContainsFunc(rules, func(r lint.Rule) bool { return r.ID == c.rule }) {
			t.Errorf("%s is no rule", c.rule)
		}
	}
	testgolden.File(t, "../../../docs/crosscheck.md", b.String())
}
