package upstream

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// A result is what became of a test. The zero value is a test that has not run.
type result struct {
	state state
	said  string
}

type state int

const (
	failed state = iota
	passed
	skipped // by itself: it says nothing about gabion
)

// compare returns the tests that pass without gabion and do not pass with it. What is wrong is one
// that is not listed, and one that is listed without need. One whose reason begins with "sometimes: "
// may pass as well.
func compare(without, with map[string]result, reasons map[string]string) (differ, wrong []string) {
	for _, name := range slices.Sorted(maps.Keys(without)) {
		reason, listed := reasons[name]
		before, after := without[name], with[name]
		switch lost := before.state == passed && after.state != passed; {
		case lost && listed:
			differ = append(differ, name)
		case lost:
			wrong = append(wrong, fmt.Sprintf("%s %s with gabion in between:\n%s", name, after.state, after.said))
		case before.state == passed && strings.HasPrefix(reason, "sometimes: "):
		case listed:
			wrong = append(wrong, fmt.Sprintf("%s need not be listed: without gabion it %s, and with it, it %s\n%s", name, before.state, after.state, before.said))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(reasons)) {
		if _, ok := without[name]; !ok {
			wrong = append(wrong, name+" is listed, and there is no such test")
		}
	}
	return differ, wrong
}

func (s state) String() string { return [...]string{"fails", "passes", "is skipped"}[s] }

// readKnown reads known.txt: the reason of each test of each suite.
func readKnown(text string, suites []string) (map[string]map[string]string, error) {
	all := map[string]map[string]string{}
	for _, s := range suites {
		all[s] = map[string]string{}
	}
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		f := strings.SplitN(line, " ", 3)
		if len(f) < 3 {
			return nil, fmt.Errorf("%q has no reason", line)
		}
		reasons, ok := all[f[0]]
		if !ok {
			return nil, fmt.Errorf("%q is of no suite", line)
		}
		if _, twice := reasons[f[1]]; twice {
			return nil, fmt.Errorf("%q is there twice", line)
		}
		reasons[f[1]] = f[2]
	}
	return all, nil
}

// outcome is how go test -v=test2json tells what became of a test. The mark before it is also
// there where a test has printed a line without its end.
var outcome = regexp.MustCompile(`(?m)(?:^ *|\x16)--- (PASS|FAIL|SKIP): (\S+)`)

// readTests reads what go test has printed.
func readTests(out []byte) map[string]result {
	all := map[string]result{}
	for _, m := range outcome.FindAllSubmatch(out, -1) {
		all[string(m[2])] = result{state: map[string]state{"PASS": passed, "FAIL": failed, "SKIP": skipped}[string(m[1])]}
	}
	return all
}

// exactly matches tests and subtests by their names.
func exactly(names ...string) string {
	var all []string
	for _, name := range names {
		all = append(all, "^"+strings.ReplaceAll(regexp.QuoteMeta(name), "/", "$/^")+"$")
	}
	return strings.Join(all, "|")
}

// readSpecs reads ginkgo's report. The name of a spec is its whole text with underscores for
// spaces. Of specs of the same text all have to pass.
func readSpecs(report []byte) (map[string]result, error) {
	var suites []struct {
		SpecialSuiteFailureReasons []string
		SpecReports                []struct {
			ContainerHierarchyTexts           []string
			LeafNodeType, LeafNodeText, State string
			Failure                           struct{ Message string }
		}
	}
	if err := json.Unmarshal(report, &suites); err != nil {
		return nil, err
	}
	if len(suites) != 1 {
		return nil, errors.New("it is not the report of one suite")
	}
	if why := suites[0].SpecialSuiteFailureReasons; len(why) > 0 { // such as a timeout, after which specs are skipped
		return nil, fmt.Errorf("it ended early: %v", why)
	}
	all := map[string]result{}
	for _, s := range suites[0].SpecReports {
		if s.LeafNodeType != "It" {
			if s.State != "passed" && s.State != "skipped" { // what goes before the specs, or after
				return nil, fmt.Errorf("%s %s: %s", s.LeafNodeType, s.State, s.Failure.Message)
			}
			continue
		}
		name := strings.ReplaceAll(strings.Join(append(s.ContainerHierarchyTexts, s.LeafNodeText), " "), " ", "_")
		got := result{said: s.State + ": " + s.Failure.Message}
		switch s.State {
		case "passed":
			got.state = passed
		case "skipped", "pending":
			got.state = skipped
		}
		if old, ok := all[name]; !ok || old.state == skipped || got.state == failed {
			all[name] = got
		}
	}
	return all, nil
}

// patternOf matches specs of a suite by their names.
func patternOf(suite string, names ...string) string {
	var all []string
	for _, name := range names {
		all = append(all, strings.ReplaceAll(regexp.QuoteMeta(name), "_", "[ _]"))
	}
	return "^" + suite + " (" + strings.Join(all, "|") + ")$"
}
