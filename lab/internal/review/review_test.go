package review

import (
	"bytes"
	"encoding/xml"
	"errors"
	"strings"
	"testing"

	"github.com/gabion-go/gabion/config"
	"github.com/gabion-go/gabion/lab/internal/scenario"
)

const two = `version: 1
title: two services
duration: 40s
drain: 5s
replications: 4
clients:
  shop: {count: 4, rate: 40/s, calls: [{to: db}, {to: mail, chance: 50%}]}
services:
  db: {time: 5ms}
  mail: {time: 5ms}
policies:
  db: {safe: true, breaker: off}
  mail: {safe: true, breaker: off}
against: plain
faults:
  - {kind: errors, service: db, at: 10s, for: 10s, share: 50%}
assert:
  - goodput >= 99% during faults
  - received(mail) >= 10 before
  - tries(db) <= 3
  - stuck <= 1%
`

const production = `version: 1
dependencies:
  payments: {safe: true, timeout: {attempt: 300ms}}
  mail: {safe: true, retry: off}
`

func run(t *testing.T, text string, o scenario.Options) *scenario.Study {
	t.Helper()
	f, err := scenario.Parse("scenarios/two.v2.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	s, err := f.Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func ofProduction(t *testing.T) scenario.Options {
	t.Helper()
	file, err := config.Parse("gabion.yaml", []byte(production))
	if err != nil {
		t.Fatal(err)
	}
	return scenario.Options{Policies: scenario.Policies{File: file, As: map[string]string{"db": "payments"}}, Command: "gabion lab run two"}
}

// suites is what a server reads.
type suites struct {
	Suites []struct {
		Name  string `xml:"name,attr"`
		Cases []struct {
			Class   string  `xml:"classname,attr"`
			Name    string  `xml:"name,attr"`
			Failure *ending `xml:"failure"`
			Skipped *ending `xml:"skipped"`
			Error   *ending `xml:"error"`
		} `xml:"testcase"`
	} `xml:"testsuite"`
}

type ending struct {
	Message string `xml:"message,attr"`
	Text    string `xml:",chardata"`
}

func junitOf(t *testing.T, s *scenario.Study) (got suites) {
	t.Helper()
	var b bytes.Buffer
	if err := JUnit(&b, s); err != nil {
		t.Fatal(err)
	}
	if err := xml.Unmarshal(b.Bytes(), &got); err != nil {
		t.Fatalf("%v in\n%s", err, &b)
	}
	return got
}

// Each assertion is a test case of the dependencies that it is about, by their names in
// production's file, and fails with its numbers.
func TestEachAssertionIsATestCase(t *testing.T) {
	got := junitOf(t, run(t, two, ofProduction(t)))
	if len(got.Suites) != 1 || got.Suites[0].Name != "scenarios/two.v2.yaml" {
		t.Fatalf("%+v", got)
	}
	for i, want := range []struct{ class, name, ends, says string }{
		{"two_v2.mail+payments", "goodput >= 99% during faults", "failure", "broken by 100 % of the runs"},
		{"two_v2.mail", "received(mail) >= 10 before", "", ""},
		{"two_v2.payments", "tries(db) <= 3", "", ""},
		{"two_v2.mail+payments", "stuck <= 1%", "skipped", "more replications would tell"},
	} {
		c := got.Suites[0].Cases[i]
		end := map[string]*ending{"failure": c.Failure, "skipped": c.Skipped}
		if c.Class != want.class || c.Name != want.name || (c.Failure != nil) != (want.ends == "failure") || (c.Skipped != nil) != (want.ends == "skipped") {
			t.Errorf("case %d is %+v, want %+v", i, c, want)
		}
		if e := end[want.ends]; e != nil && (!strings.Contains(e.Message, want.says) || !strings.Contains(e.Text, "plain: measured ") || !strings.Contains(e.Text, "seed 1, 4 runs; to see it: gabion lab run two")) {
			t.Errorf("%s ends with %q, %q", c.Name, e.Message, e.Text)
		}
	}
}

func TestABrokenSimulationIsAnError(t *testing.T) {
	s := run(t, two, scenario.Options{Replications: 1})
	s.Sides[0].Broken = []string{"slots are lost"}
	cases := junitOf(t, s).Suites[0].Cases
	if last := cases[len(cases)-1]; last.Error == nil || last.Error.Message != "slots are lost" {
		t.Errorf("the last case is %+v", last)
	}
	var b bytes.Buffer
	if err := Markdown(&b, s); err != nil || !strings.Contains(b.String(), "slots are lost") || !strings.HasPrefix(b.String(), "### ❌") {
		t.Errorf("%v, %s", err, &b)
	}
}

func TestTheCommentSaysWhatAReviewerNeeds(t *testing.T) {
	s := run(t, two, ofProduction(t))
	var b bytes.Buffer
	if err := Markdown(&b, s); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"### ❌ scenarios/two.v2.yaml: two services\n",
		"- " + plain(s.Judgements[0].Sentence) + "\n",
		"| assertion | of | gabion.yaml | plain |\n| --- | --- | --- | --- |\n",
		"| <code>goodput &#62;= 99% during faults</code> | mail+payments | ❌ **fails:** ",
		"| <code>tries(db) &#60;= 3</code> | payments | ✅ holds: 1.",
		"❔ unresolved: 0 %",
		"|  | gabion.yaml | plain |\n| --- | --: | --: |\n| answered in time | ",
		"settings differ</summary>",
		"\n```\ngabion lab run two\n```\n",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("there is no %q in\n%s", want, &b)
		}
	}
}

// A scenario may come from a stranger's pull request.
func TestNothingInAScenarioBecomesMarkup(t *testing.T) {
	const odd = "a | b\n# c <script> @all #7 `d` *e* [f](g) \x1b[31m ``` h"
	s := run(t, two, scenario.Options{Replications: 2})
	s.Name, s.Title, s.Command = odd, odd, odd
	s.Sides[0].Name, s.Judgements[0].Sentence, s.Sides[0].Asserts[0].Text = odd, odd, odd
	s.Settings = []scenario.SettingDiff{{Policy: odd, Path: odd, A: odd, B: odd}}
	var b bytes.Buffer
	if err := Markdown(&b, s); err != nil {
		t.Fatal(err)
	}
	text, block, _ := strings.Cut(b.String(), "\n````\n")
	for _, bad := range []string{"<script", "@all", "`d`", "*e*", "[f]", "\x1b", "# c", "#7"} {
		if strings.Contains(text, bad) {
			t.Errorf("%q is in\n%s", bad, text)
		}
	}
	if strings.Count(block, "\n````\n") != 1 {
		t.Errorf("the command is\n%s", block)
	}
	columns := 0
	for line := range strings.Lines(text) {
		n := strings.Count(line, "|")
		if n > 0 && columns > 0 && n != columns {
			t.Errorf("%d columns, and %d above: %s", n, columns, line)
		}
		columns = n
	}
	junitOf(t, s)
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left") }

func TestWhatCannotBeWrittenIsAnError(t *testing.T) {
	s := run(t, two, scenario.Options{Replications: 1})
	if Markdown(full{}, s) == nil || JUnit(full{}, s) == nil {
		t.Error("no error of a full disk")
	}
}
