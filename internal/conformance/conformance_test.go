package conformance

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gabion-go/gabion/internal/testgolden"
)

const decisions = "testdata/decisions.txt"

// TestCases runs every case in virtual time and through the front door, and wants
// the same decisions of both, and those that are written down.
func TestCases(t *testing.T) {
	want := readDecisions(t)
	var anew strings.Builder
	anew.WriteString("# What is decided in each case without a check of its own: written by go test -run TestCases -update, then read.\n" +
		"# Time, call (-- is the dependency), decision. Lines of one instant are in alphabetical order.\n")
	for _, c := range Cases() {
		t.Run(c.name(), func(t *testing.T) {
			v := World{}.Run(&c)
			for _, f := range v.Faults {
				t.Errorf("virtual: %s", f)
			}
			if c.Check == nil {
				anew.WriteString("\n## " + c.name() + "\n" + strings.Join(v.Log.Sorted(), "\n") + "\n")
			}
			if c.Check != nil || !testgolden.Updating() {
				judgeLog(t, "virtual", &c, v.Log, want)
			}
			l := live(t, &c)
			if err := same(v.Log, l); err != nil {
				t.Errorf("the runs differ: %v", err)
			}
		})
	}
	if testgolden.Updating() && !t.Failed() {
		testgolden.File(t, decisions, anew.String())
	}
}

// TestTheOriginOfTimeDecidesNothing runs every case from far below zero. The
// origin is a multiple of every bucket's width in the table, since buckets begin
// at multiples of their width.
func TestTheOriginOfTimeDecidesNothing(t *testing.T) {
	for _, c := range Cases() {
		here, there := World{}.Run(&c), World{Origin: -1428571429e9}.Run(&c)
		for _, f := range there.Faults {
			t.Errorf("%s: %s", c.name(), f)
		}
		if err := same(here.Log, there.Log); err != nil {
			t.Errorf("%s: %v", c.name(), err)
		}
	}
}

// TestNoCaseDependsOnTheOrderInAnInstant runs the cases of few calls in other orders:
// a live program takes what happens in one instant in any.
func TestNoCaseDependsOnTheOrderInAnInstant(t *testing.T) {
	for _, c := range Cases() {
		first := World{}.Run(&c).Log
		if len(first) > 60 {
			continue // crowds, whose members are alike
		}
		for order := range uint64(10) {
			w := World{Orders: map[time.Duration]uint64{}}
			for _, line := range first {
				w.Orders[line.At] = order + 1
			}
			if err := same(first, w.Run(&c).Log); err != nil {
				t.Errorf("%s: in another order %v", c.name(), err)
				break
			}
		}
	}
}

func (c *Case) name() string { return c.ID + ": " + c.Fact }

func judgeLog(t *testing.T, run string, c *Case, l Log, want map[string][]string) {
	t.Helper()
	if c.Check != nil {
		if err := c.Check(l); err != nil {
			t.Errorf("%s: %v", run, err)
		}
		return
	}
	if got := l.Sorted(); !slices.Equal(got, want[c.name()]) {
		t.Errorf("%s:\n%s\nwant:\n%s", run, strings.Join(got, "\n"), strings.Join(want[c.name()], "\n"))
	}
}

// readDecisions reads the logs that are written down, by the names of the cases.
func readDecisions(t *testing.T) map[string][]string {
	t.Helper()
	text, err := os.ReadFile(decisions)
	if err != nil && !(testgolden.Updating() && errors.Is(err, os.ErrNotExist)) {
		t.Fatal(err)
	}
	logs := map[string][]string{}
	name := ""
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if next, ok := strings.CutPrefix(line, "## "); ok {
			name = next
		} else if name != "" && line != "" {
			logs[name] = append(logs[name], line)
		}
	}
	return logs
}
