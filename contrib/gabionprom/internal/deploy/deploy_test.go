package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gabion-go/gabion/contrib/gabionprom/internal/catalog"
	"github.com/gabion-go/gabion/internal/testservers"
	"github.com/gabion-go/gabion/policy"
)

var update = flag.Bool("update", false, "write the files")

const root = "../../../.."

func TestFilesAreUpToDate(t *testing.T) {
	if *update {
		if err := write(root); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range files() {
		got, err := os.ReadFile(filepath.Join(root, name))
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not what the catalog makes (%v): cd contrib/gabionprom && go generate .", name, err)
		}
	}
}

// TestExpressionsNameWhatThereIs reads every expression of rules and panels.
func TestExpressionsNameWhatThereIs(t *testing.T) {
	for where, expr := range expressions() {
		names := namesIn(expr)
		if len(names) == 0 {
			t.Errorf("%s names no metric: %s", where, expr)
		}
		for _, name := range names {
			if catalog.Find(name) == nil && !slices.ContainsFunc(recordings, func(r recording) bool { return r.name == name }) {
				t.Errorf("%s names %s, which nothing exposes", where, name)
			}
		}
		for _, m := range selector.FindAllStringSubmatch(expr, -1) {
			for _, match := range matcher.FindAllStringSubmatch(m[2], -1) {
				if found := unknown(m[1], match[1], match[3]); found != "" {
					t.Errorf("%s: %s in %s", where, found, m[0])
				}
			}
		}
	}
}

var (
	selector = regexp.MustCompile(`(gabion_[a-z0-9_]+)\{([^}]*)\}`)
	matcher  = regexp.MustCompile(`(\w+)(=~|!~|!=|=)"([^"]*)"`)
)

// unknown says what is wrong with a matcher, if anything is.
func unknown(series, label, values string) string {
	m := catalog.Find(series)
	if label == "job" || label == "instance" {
		return ""
	}
	if m == nil || !m.Has(label) {
		return "no label " + label
	}
	if strings.HasPrefix(values, "$") {
		return ""
	}
	for value := range strings.SplitSeq(values, "|") {
		if known := valuesOf(label, m); len(known) > 0 && !slices.Contains(known, value) {
			return fmt.Sprintf("no %s is called %s", label, value)
		}
	}
	return ""
}

// valuesOf are the values of labels whose values are a closed set.
func valuesOf(label string, m *catalog.Metric) (values []string) {
	switch {
	case label == "reason" && m != catalog.Messages || label == "outcome":
		for _, r := range policy.Reasons() {
			values = append(values, r.String())
		}
		values = append(values, "canceled")
	case label == "state" && m == catalog.DeadLetters:
		values = []string{"waiting", "taken"}
	case label == "state" && m == catalog.OutboxMessages:
		values = []string{"waiting", "resting", "parked"}
	case label == "state":
		for s := policy.StateClosed; s <= policy.StateObserveOnly; s++ {
			values = append(values, s.String())
		}
	case label == "kind":
		values = []string{"first", "retry", "hedge"}
	case label == "result" && slices.Contains([]*catalog.Metric{catalog.CallDuration, catalog.RetriedCalls, catalog.AttemptDuration}, m):
		values = []string{"success", "failure", "canceled"}
	case label == "retried" || label == "won":
		values = []string{"yes", "no"}
	}
	return values
}

// expressions are all there are, by where they stand.
func expressions() map[string]string {
	all := map[string]string{}
	for _, r := range recordings {
		all["recording "+r.name] = r.expr
	}
	for i := range alerts {
		all["alert "+alerts[i].name] = alerts[i].expr
	}
	for _, p := range allPanels() {
		for i, t := range p.targets {
			all[fmt.Sprintf("panel %s, line %d", p.title, i)] = t.expr
		}
	}
	return all
}

func TestEveryMetricIsSomewhereToBeSeen(t *testing.T) {
	uses := usage()
	for _, m := range catalog.All() {
		if len(uses[m.Name]) == 0 {
			t.Errorf("no panel and no alert uses %s", m.Name)
		}
	}
}

func TestStatesOfThePanelAreThoseOfThePolicy(t *testing.T) {
	known := valuesOf("state", nil)
	for _, s := range states {
		known = slices.DeleteFunc(known, func(k string) bool { return k == s.name })
	}
	if len(known) > 0 || len(states) != 6 {
		t.Errorf("the panel does not know %v", known)
	}
}

func TestEveryAlertHasASection(t *testing.T) {
	doc := string(alertsDoc())
	for i := range alerts {
		a := &alerts[i]
		if !strings.Contains(doc, "\n## "+a.name+"\n") || a.means == "" || a.look == "" || a.do == "" || a.summary == "" {
			t.Errorf("docs/alerts.md says too little of %s", a.name)
		}
		for _, p := range quoted.FindAllStringSubmatch(a.look, -1) {
			if !slices.ContainsFunc(allPanels(), func(have panel) bool { return have.title == p[1] }) {
				t.Errorf("%s sends its reader to a panel %q that there is not", a.name, p[1])
			}
		}
	}
}

func TestTheProgramInTheDocumentIsWhole(t *testing.T) {
	doc := string(metricsDoc())
	_, rest, _ := strings.Cut(doc, "```go\n")
	shown, _, found := strings.Cut(rest, "```")
	if !found || !strings.Contains(doc, "\ngo get github.com/gabion-go/gabion/contrib/gabionprom") {
		t.Fatal("docs/metrics.md does not say how to get it")
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(shown), 0o644); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", os.DevNull, filepath.Join(dir, "main.go")).CombinedOutput()
	if err != nil {
		t.Errorf("docs/metrics.md: %v\n%s", err, out)
	}
}

var quoted = regexp.MustCompile(`"([^"]+)"`)

func TestDashboardIsWhatGrafanaReads(t *testing.T) {
	var d struct {
		Panels []struct {
			ID      int
			Type    string
			Title   string
			GridPos struct{ X, Y, W, H int }
		}
		Templating struct{ List []struct{ Name string } }
	}
	if err := json.Unmarshal(dashboardFile(), &d); err != nil {
		t.Fatal(err)
	}
	ids, titles := map[int]bool{}, map[string]bool{}
	taken := map[[2]int]bool{}
	for _, p := range d.Panels {
		if ids[p.ID] || titles[p.Title] {
			t.Errorf("there are two panels %d, %s", p.ID, p.Title)
		}
		ids[p.ID], titles[p.Title] = true, true
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if taken[[2]int{x, y}] || x >= 24 {
					t.Fatalf("%s lies over another panel, or outside", p.Title)
				}
				taken[[2]int{x, y}] = true
			}
		}
	}
	if d.Panels[1].Title != "Amplification" {
		t.Errorf("the first panel is %s", d.Panels[1].Title)
	}
	var names []string
	for _, v := range d.Templating.List {
		names = append(names, v.Name)
	}
	if !slices.Equal(names, []string{"datasource", "job", "instance", "dependency"}) {
		t.Errorf("variables %v", names)
	}
}

// promtool runs it on a file of that text and returns what it says.
func promtool(t *testing.T, dir, name, text string, command ...string) (string, error) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), testservers.Promtool(t), append(command, path)...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func TestPromtoolReadsTheRules(t *testing.T) {
	if out, err := promtool(t, t.TempDir(), "alerts.yaml", string(rulesFile()), "check", "rules"); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestPanelsAreSound has promtool parse the panels' expressions, as if they were rules.
func TestPanelsAreSound(t *testing.T) {
	var b strings.Builder
	b.WriteString("groups:\n  - name: panels\n    rules:\n")
	n := 0
	for _, p := range allPanels() {
		for _, target := range p.targets {
			n++
			fmt.Fprintf(&b, "      - record: panel:number:%d\n        expr: %s\n", n, strings.ReplaceAll(target.expr, window, "5m"))
		}
	}
	out, err := promtool(t, t.TempDir(), "panels.yaml", b.String(), "check", "rules")
	if err != nil || !strings.Contains(out, fmt.Sprintf("%d rules found", n)) {
		t.Errorf("%v\n%s", err, out)
	}
}

// A reader of an alert gets from each reason that its section names to what the reason means.
func TestReasonsInTheRunbookAreLinks(t *testing.T) {
	links := 0
	for _, line := range strings.Split(string(alertsDoc()), "\n") {
		if !strings.HasPrefix(line, "**") {
			continue
		}
		for _, r := range policy.Reasons() {
			word := "`" + r.String() + "`"
			to := "[" + word + "](reasons.md#" + r.String() + ")"
			links += strings.Count(line, to)
			if strings.Contains(strings.ReplaceAll(line, to, ""), word) {
				t.Errorf("%s is no link: %.80s", word, line)
			}
		}
	}
	if links < 10 {
		t.Errorf("%d links", links)
	}
}
