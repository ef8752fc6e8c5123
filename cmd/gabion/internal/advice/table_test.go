package advice

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/gabion-go/gabion/internal/lint"
	"github.com/gabion-go/gabion/internal/testgolden"
)

// soakRuns is how often each scenario of the library is played for each file. Most have more than
// 50,000 calls, and both files meet the same ones.
const soakRuns = 1

const page = "../../../../docs/lint.md"

var table = regexp.MustCompile(`(?s)<!-- played by.*?<!-- played -->\n`)

// theTable writes what the library came to into docs/lint.md. Short runs look only for the rows. A row that
// was not played, since -run names others, stays as it is.
func theTable(t *testing.T, results []result, long bool) {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	b.WriteString("<!-- played by: GABION_SOAK=1 go test ./internal/advice -args -update, in cmd/gabion -->\n" +
		"| rule | the file says | scenarios | answered in time, of 100 | requests for each needed | loses most |\n|---|---|--:|--:|--:|---|\n")
	for i, r := range rows {
		begin := fmt.Sprintf("| [%s](lint/%s.md) | `%s` |", r.rule, r.rule, r.says)
		if !strings.Contains(string(text), begin) && !testgolden.Updating() {
			t.Errorf("docs/lint.md does not have %s: GABION_SOAK=1 go test ./internal/advice -args -update, in cmd/gabion", begin)
		}
		x := results[i]
		if _, rest, has := strings.Cut(string(text), begin); has && x.worlds == 0 {
			line, _, _ := strings.Cut(rest, "\n")
			b.WriteString(begin + line + "\n")
			continue
		}
		n := float64(x.worlds)
		worst := "nothing"
		if x.most >= 0.005 {
			worst = fmt.Sprintf("%.2f in %s", x.most, x.worst)
		}
		fmt.Fprintf(&b, "%s %d | %.2f, then %.2f | %.2f, then %.2f | %s |\n", begin, x.worlds, x.before.answered/n, x.after.answered/n, x.before.load/n, x.after.load/n, worst)
	}
	b.WriteString("<!-- played -->\n")
	if !long {
		return
	}
	if !table.Match(text) {
		t.Fatal("docs/lint.md has no place for the table")
	}
	testgolden.File(t, page, table.ReplaceAllLiteralString(string(text), b.String()))
}

// Why the proposals of the other rules are not played.
const (
	ofTheFile = "it is about the file, and changes no policy"
	ofOthers  = "it asks for a change of what is not gabion's: a client below, a mesh, a transport, metrics"
	ofStores  = "it is about routes and stores"
	ofFleets  = "no scenario that is played has a fleet with a store: TestWhatLostComesTo of the lab plays G084"
	ofGraphs  = "it is about several programs, and says what one of them has to do"
	noNumber  = "it names no value that one could write"
)

var notPlayed = map[string]string{
	"G000": ofTheFile, "G090": ofTheFile, "G091": ofTheFile, "G092": ofTheFile,
	"G011": noNumber, "G033": noNumber, "G037": noNumber, "G038": noNumber,
	"G082": ofFleets, "G083": ofFleets, "G084": ofFleets,
	"G012": "no scenario of the library is overloaded when all is well", "G025": "the lab has no local calls",
	"G027": ofOthers, "G043": ofOthers, "G044": ofOthers, "G046": ofOthers, "G047": ofOthers, "G048": ofOthers,
}

// Each rule has a row, or says why not. A rule with a fix always has one.
func TestEachRuleHasARow(t *testing.T) {
	is := map[string]bool{}
	for _, r := range rows {
		is[r.rule] = true
	}
	for _, r := range lint.Rules() {
		why := notPlayed[r.ID]
		switch {
		case r.ID >= "G050" && r.ID < "G070":
			why = ofStores
		case r.ID >= "G070" && r.ID < "G082":
			why = ofGraphs
		case r.ID >= "G085" && r.ID < "G090":
			why = "it is about listeners of the proxy, and changes no policy"
		}
		if is[r.ID] == (why != "") {
			t.Errorf("%s %s: it is played: %v; why not: %q", r.ID, r.Name, is[r.ID], why)
		}
		delete(is, r.ID)
	}
	for id := range is {
		t.Errorf("%s is no rule", id)
	}
}

// Where following a proposal loses calls in a scenario, the page of its rule names the scenario.
func TestPagesNameWhatIsLost(t *testing.T) {
	for _, r := range rows {
		text, err := os.ReadFile("../../../../docs/lint/" + r.rule + ".md")
		if err != nil {
			t.Fatal(err)
		}
		for _, scenario := range strings.Fields(r.loses) {
			if !strings.Contains(string(text), "`"+scenario+"`") {
				t.Errorf("the page of %s does not say that %s loses in %s", r.rule, r.says, scenario)
			}
		}
	}
}
