// Package review writes studies for who reviews a change: as Markdown for a pull request,
// and as JUnit XML for a CI server.
package review

import (
	"cmp"
	"fmt"
	"io"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/gabion-go/gabion/lab/internal/junit"
	"github.com/gabion-go/gabion/lab/internal/report"
	"github.com/gabion-go/gabion/lab/internal/scenario"
)

// JUnit writes a suite with a test case for each assertion, of the class of the scenario
// and the dependencies that it is about. What is unresolved is skipped. The error is w's.
func JUnit(w io.Writer, s *scenario.Study) error {
	side := &s.Sides[0]
	suite := junit.Suite{Name: s.Name, Properties: []junit.Property{
		{Name: "title", Value: s.Title},
		{Name: "policies", Value: side.Name},
		{Name: "seed", Value: strconv.FormatUint(s.Seed, 10)},
		{Name: "replications", Value: strconv.Itoa(s.Replications)},
		{Name: "hash", Value: s.Hash},
		{Name: "command", Value: s.Command},
	}}
	for _, j := range s.Judgements {
		suite.Properties = append(suite.Properties, junit.Property{Name: "judgement", Value: j.Sentence})
	}
	for i := range side.Asserts {
		suite.Cases = append(suite.Cases, caseOf(s, i))
	}
	for _, broken := range side.Broken {
		suite.Cases = append(suite.Cases, junit.Case{
			Class: base(s.Name), Name: "the simulation keeps its invariants", Outcome: junit.Errored, Message: broken, Detail: again(s),
		})
	}
	return junit.Write(w, suite)
}

// caseOf is an assertion of the first side.
func caseOf(s *scenario.Study, i int) junit.Case {
	v := &s.Sides[0].Asserts[i]
	c := junit.Case{Class: class(s, v.Of), Name: v.Text, Message: "measured " + measured(v)}
	switch v.Holds {
	case scenario.No:
		c.Outcome = junit.Failed
		c.Message += ", broken by " + report.Value(v.Breaks.Value, scenario.Share) + " of the runs"
	case scenario.Unsure:
		c.Outcome = junit.Skipped
		c.Message += ": more replications would tell"
	}
	lines := []string{c.Message}
	for k := range s.Sides[1:] {
		if other := &s.Sides[k+1]; i < len(other.Asserts) {
			lines = append(lines, other.Name+": measured "+measured(&other.Asserts[i]))
		}
	}
	c.Detail = strings.Join(append(lines, again(s)), "\n")
	return c
}

// measured writes what an assertion's metric came to, and how sure that is.
func measured(v *scenario.Verdict) string {
	text := report.Value(v.Measured.Value, v.Unit)
	if margin := report.Interval(v.Measured, v.Unit); margin != "" {
		text += " (" + margin + ")"
	}
	return text
}

func again(s *scenario.Study) string {
	return fmt.Sprintf("seed %d, %s; to see it: %s", s.Seed, counted(s.Replications, "run", "runs"), s.Command)
}

// class is the scenario and the dependencies that something is about: those by which a
// service is called, by which a fleet calls, or all.
func class(s *scenario.Study, of string) string {
	names := map[string]string{}
	for _, p := range s.Sides[0].Policies {
		names[p.Name] = cmp.Or(p.Called, p.Name)
	}
	var about []string
	for _, e := range s.Sides[0].Series.Edges {
		if of == "" || e.Service == of || e.Caller == of {
			about = append(about, cmp.Or(names[e.Policy], e.Policy))
		}
	}
	slices.Sort(about)
	if about = slices.Compact(about); len(about) == 0 {
		return base(s.Name)
	}
	return base(s.Name) + "." + strings.Join(about, "+")
}

// base is a scenario's name without its folder and ending. A dot would begin another
// package for who reads classes.
func base(name string) string {
	name = path.Base(strings.ReplaceAll(name, `\`, "/"))
	name = strings.TrimSuffix(name, path.Ext(name))
	return strings.ReplaceAll(name, ".", "_")
}
