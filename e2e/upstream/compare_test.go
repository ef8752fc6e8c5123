package upstream

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestADifferenceIsListedOrWrong(t *testing.T) {
	for _, c := range []struct {
		fact          string
		without, with state
		listed        bool
		differs       bool
		wrong         string // what is said of it
	}{
		{"what passes twice is well", passed, passed, false, false, ""},
		{"what fails twice is its own affair", failed, failed, false, false, ""},
		{"what fails only without gabion, too", failed, passed, false, false, ""},
		{"what is skipped twice says nothing", skipped, skipped, false, false, ""},
		{"a new difference is wrong", passed, failed, false, false, "X fails with gabion in between:\nwhy"},
		{"so is a test that gabion makes skip itself", passed, skipped, false, false, "X is skipped with gabion in between:\nwhy"},
		{"one that is listed is a difference", passed, failed, true, true, ""},
		{"one that is listed may skip itself", passed, skipped, true, true, ""},
		{"what is listed and passes is wrong", passed, passed, true, false, "X need not be listed: without gabion it passes, and with it, it passes"},
		{"what is listed and fails by itself is wrong", failed, failed, true, false, "X need not be listed: without gabion it fails, and with it, it fails"},
		{"what is listed and skips itself is wrong", skipped, skipped, true, false, "X need not be listed: without gabion it is skipped, and with it, it is skipped"},
	} {
		t.Run(c.fact, func(t *testing.T) {
			reasons := map[string]string{}
			if c.listed {
				reasons["X"] = "a reason"
			}
			differ, wrong := compare(map[string]result{"X": {state: c.without}}, map[string]result{"X": {c.with, "why"}}, reasons)
			if slices.Contains(differ, "X") != c.differs {
				t.Errorf("differences: %q", differ)
			}
			if said := strings.TrimSpace(strings.Join(wrong, "; ")); said != c.wrong {
				t.Errorf("said %q, want %q", said, c.wrong)
			}
		})
	}
}

func TestTestsThatAreNotThere(t *testing.T) {
	ran := map[string]result{"A": {state: passed}, "B": {state: passed}}
	for _, c := range []struct {
		fact    string
		with    map[string]result
		reasons map[string]string
		wrong   string
	}{
		{"one that does not run with gabion fails", map[string]result{"A": {state: passed}}, nil, "B fails with gabion in between:\n"},
		{"one that only runs with gabion is not compared", map[string]result{"A": {state: passed}, "B": {state: passed}, "C": {}}, nil, ""},
		{"one that is listed and nowhere is wrong", ran, map[string]string{"Gone": "a reason"}, "Gone is listed, and there is no such test"},
		{"one that is listed as failing sometimes may pass", ran, map[string]string{"A": "sometimes: a reason"}, ""},
		{"it may fail, too", map[string]result{"B": {state: passed}}, map[string]string{"A": "sometimes: a reason"}, ""},
	} {
		t.Run(c.fact, func(t *testing.T) {
			if _, wrong := compare(ran, c.with, c.reasons); strings.Join(wrong, "; ") != c.wrong {
				t.Errorf("said %q, want %q", wrong, c.wrong)
			}
		})
	}
}

func TestWhatTheListSays(t *testing.T) {
	for _, c := range []struct{ fact, text, reason, err string }{
		{"a test has a reason", "a T it is so", "it is so", ""},
		{"what begins with # is a remark, and empty lines are none", "# a T no\n\n  a T yes  \n", "yes", ""},
		{"a test of another suite is not this one's", "b T it is so", "", ""},
		{"a test without a reason is refused", "a T", "", `"a T" has no reason`},
		{"a suite that is not there is refused", "A T it is so", "", `"A T it is so" is of no suite`},
		{"a test that is there twice is refused", "a T one\na T two", "", `"a T two" is there twice`},
	} {
		t.Run(c.fact, func(t *testing.T) {
			all, err := readKnown(c.text, []string{"a", "b"})
			if err != nil || c.err != "" {
				if err == nil || err.Error() != c.err {
					t.Errorf("%v, want %q", err, c.err)
				}
				return
			}
			if all["a"]["T"] != c.reason {
				t.Errorf("%q", all)
			}
		})
	}
}

func TestWhatGoTestHasPrinted(t *testing.T) {
	all := readTests([]byte("=== RUN   TestA\n\x16--- PASS: TestA (0.00s)\n" +
		"a line without its end\x16--- FAIL: TestB (1.00s)\n    x_test.go:1: why\n" +
		"\x16--- SKIP: TestC (0.00s)\n    \x16--- PASS: TestD/part (0.00s)\n    --- PASS: TestE/part (0.00s)\n" +
		"it says --- PASS: TestF\n=== RUN   TestG\n"))
	for _, c := range []struct {
		fact, name string
		there      bool
		want       state
	}{
		{"a test passes", "TestA", true, passed},
		{"a test fails after a line without its end", "TestB", true, failed},
		{"a test is skipped", "TestC", true, skipped},
		{"a part of a test passes", "TestD/part", true, passed},
		{"a part of a test passes, without the mark", "TestE/part", true, passed},
		{"what a test itself prints is no result", "TestF", false, failed},
		{"a test that has begun has no result", "TestG", false, failed},
	} {
		t.Run(c.fact, func(t *testing.T) {
			if got, there := all[c.name]; there != c.there || got.state != c.want {
				t.Errorf("%v: it %s", there, got.state)
			}
		})
	}
}

func TestWhatGinkgoReports(t *testing.T) {
	const spec = `{"LeafNodeType": "It", "ContainerHierarchyTexts": ["Client"], "LeafNodeText": "should go", "State": `
	for _, c := range []struct {
		fact, report string
		want         result
		err          string
	}{
		{"a spec passes", spec + `"passed"}`, result{passed, "passed: "}, ""},
		{"a spec fails", spec + `"failed", "Failure": {"Message": "why"}}`, result{failed, "failed: why"}, ""},
		{"one that panics fails", spec + `"panicked"}`, result{failed, "panicked: "}, ""},
		{"one that takes too long fails", spec + `"timedout"}`, result{failed, "timedout: "}, ""},
		{"one that is not run is skipped", spec + `"pending"}`, result{skipped, "pending: "}, ""},
		{"of two of the same text one fails", spec + `"failed"},` + spec + `"passed"}`, result{failed, "failed: "}, ""},
		{"in the other order, too", spec + `"passed"},` + spec + `"failed"}`, result{failed, "failed: "}, ""},
		{"of two of the same text one is skipped", spec + `"skipped"},` + spec + `"passed"}`, result{passed, "passed: "}, ""},
		{"what goes before the specs may fail", `{"LeafNodeType": "BeforeSuite", "State": "failed", "Failure": {"Message": "why"}}`, result{}, "BeforeSuite failed: why"},
	} {
		t.Run(c.fact, func(t *testing.T) {
			all, err := readSpecs([]byte(`[{"SpecReports": [` + c.report + `]}]`))
			if err != nil || c.err != "" {
				if err == nil || err.Error() != c.err {
					t.Errorf("%v, want %q", err, c.err)
				}
				return
			}
			if got := all["Client_should_go"]; got != c.want {
				t.Errorf("%+v, want %+v", got, c.want)
			}
		})
	}
	for _, broken := range []string{"", "[]", `[{"SpecialSuiteFailureReasons": ["Suite Timeout Elapsed"], "SpecReports": [` + spec + `"passed"}]}]`} {
		if all, err := readSpecs([]byte(broken)); err == nil {
			t.Errorf("%q is a report: %v", broken, all)
		}
	}
}

func TestAPatternMatchesWhatItNames(t *testing.T) {
	for _, c := range []struct{ pattern, yes, no string }{
		{patternOf("go-redis", "Client_should_(really)_go"), "go-redis Client should (really) go", "go-redis Client should (really) go on"},
		{patternOf("go-redis", "A", "B_c_d"), "go-redis B c_d", "go-redis AB c d"},
		{exactly("TestA"), "TestA", "TestAB"},
		{exactly("TestA", "TestB"), "TestB", "XTestB"},
	} {
		re := regexp.MustCompile(c.pattern)
		if !re.MatchString(c.yes) || re.MatchString(c.no) {
			t.Errorf("%s: %q %v, %q %v", c.pattern, c.yes, re.MatchString(c.yes), c.no, re.MatchString(c.no))
		}
	}
	if got := exactly("TestA/one.two"); got != `^TestA$/^one\.two$` {
		t.Errorf("a part of a test: %s", got)
	}
}
