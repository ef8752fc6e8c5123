package play

import (
	"encoding/json"
	"strings"
	"testing"
)

const spring = "resilience4j.retry.instances:\n  stock: {maxAttempts: 4, waitDuration: 10ms, maxTries: 3}\n  once: {maxAttempts: 1}\n"

func asked(t *testing.T, q Question, into any) (problem string) {
	t.Helper()
	w := usual()
	q.World = &w
	text, err := json.Marshal(q)
	if err != nil {
		t.Fatal(err)
	}
	answer := Answer(t.Context(), text)
	var wrong struct{ Problem string }
	if err := json.Unmarshal(answer, &wrong); err != nil || wrong.Problem != "" {
		return wrong.Problem
	}
	if err := json.Unmarshal(answer, into); err != nil {
		t.Fatal(err)
	}
	return ""
}

// A file of another system says what it is, and plays by its own rules.
func TestAFileOfAnotherSystem(t *testing.T) {
	var what Theirs
	if problem := asked(t, Question{File: &File{Name: "application.yml", Text: spring}}, &what); problem != "" {
		t.Fatal(problem)
	}
	if what.Format != "resilience4j" || len(what.Routes) != 2 || !strings.Contains(what.Policy, "attempts: 4 # application.yml:2") {
		t.Errorf("%+v", what)
	}
	if len(what.Said) != 2 || what.Said[1].Fate != "not known" || what.Said[1].Line != 2 {
		t.Errorf("%+v", what.Said)
	}
	var loads []Side
	for route := range 2 {
		var s Side
		if problem := asked(t, Question{Side: theirsSide, File: &File{Name: "application.yml", Text: spring, Route: route}}, &s); problem != "" {
			t.Fatal(problem)
		}
		loads = append(loads, s)
	}
	if loads[0].Totals.Load < 1.2*loads[1].Totals.Load {
		t.Errorf("four attempts are a load of %v, and one of %v", loads[0].Totals.Load, loads[1].Totals.Load)
	}
	for want, f := range map[string]File{
		"-1 is too small": {Name: "a.yml", Text: "resilience4j.retry.instances:\n  a: {maxAttempts: -1}"},
		"has 2 routes":    {Name: "a.yml", Text: spring, Route: 2},
		"of no format":    {Name: "a.yml", Text: "a: b"},
	} {
		problem := asked(t, Question{File: &f}, &what)
		if !strings.Contains(problem, want) {
			t.Errorf("%s: %s", want, problem)
		}
	}
}
