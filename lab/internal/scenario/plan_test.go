package scenario

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const aPlan = `version: 1
title: A bad day
service: {workers: 4, queue: 10, time: exp 10ms, honours_keys: true}
faults:
  - {kind: errors, at: 5s, for: 5s, share: 80%, status: 503}
  - {kind: lost_answers, at: 12s, for: 3s, share: 50%}
  - {kind: slow_body, at: 16s, for: 1s, add: 30ms}
`

const itsScenario = `version: 1
title: A bad day
duration: 30s
replications: 2
clients:
  shop: {count: 10, rate: 50/s, calls: [{to: db, keyed: true}]}
services:
  db: {plan: day.yaml}
policies:
  db: {timeout: {call: 2s}}
`

// inFolder writes files into a folder, by name and text in turn.
func inFolder(t testing.TB, files ...string) string {
	t.Helper()
	dir := t.TempDir()
	for i := 0; i < len(files); i += 2 {
		if err := os.WriteFile(filepath.Join(dir, files[i]), []byte(files[i+1]), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestAScenarioTakesAPlan(t *testing.T) {
	with, err := ParseIn(inFolder(t, "day.yaml", aPlan), "s.yaml", []byte(itsScenario))
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Replace(itsScenario, "{plan: day.yaml}", "{workers: 4, queue: 10, time: exp 10ms, honours_keys: true}", 1)
	for line := range strings.Lines(aPlan) {
		if strings.Contains(line, "faults:") || strings.Contains(line, "- {") {
			text += strings.Replace(line, ", at:", ", service: db, at:", 1)
		}
	}
	written, err := Parse("s.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	var studies [2]string
	for i, f := range []*File{with, written} {
		s, err := f.Run(context.Background(), Options{Alone: true})
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		for _, m := range s.Sides[0].Metrics {
			b.WriteString(m.Key + m.Of)
			for _, v := range m.Values {
				b.WriteString(" " + time.Duration(float64(v)*1e9).String())
			}
		}
		studies[i] = b.String()
	}
	if studies[0] != studies[1] {
		t.Error("a scenario that takes a plan is not the one that has it written out")
	}
	if len(with.Marks()) != 3 || with.Marks()[0].Kind != "errors" {
		t.Errorf("marks %v", with.Marks())
	}
}

func TestAPlanLastsUntilItsLastFaultIsOver(t *testing.T) {
	for text, want := range map[string]time.Duration{
		aPlan:                        17 * time.Second,
		"version: 1\nduration: 1m\n": time.Minute,
		"version: 1\n":               time.Nanosecond,
		"version: 1\nfaults: [{kind: reset, at: 0s, for: 1s, every: 10s, until: 45s}]\n":  41 * time.Second,
		"version: 1\nduration: 1m\nfaults: [{kind: down, at: 1s, for: 1s, every: 10s}]\n": time.Minute,
	} {
		f, err := ParsePlan("", "p.yaml", []byte(text))
		if err != nil {
			t.Error(err)
		} else if f.Duration() != want {
			t.Errorf("%s lasts %v, want %v", text, f.Duration(), want)
		}
	}
}

func TestMistakesInPlans(t *testing.T) {
	for _, c := range []struct{ fact, text, want string }{
		{"an unknown key", "version: 1\nservice: {worker: 3}\n", "2:11: service: unknown key \"worker\" here\n  | service: {worker: 3}\n  |           ^ did you mean workers?"},
		{"an unknown key of a fault", "version: 1\nfaults: [{kind: errors, at: 0s, for: 1s, shares: 20%}]\n", "share"},
		{"an unknown kind", "version: 1\nfaults: [{kind: error, at: 0s, for: 1s}]\n", "errors"},
		{"a service", "version: 1\nfaults: [{kind: down, service: db, at: 0s, for: 1s}]\n", "fault 1: service means nothing in a plan, which is of one service"},
		{"calls", "version: 1\nservice: {calls: [{to: db}]}\n", "db"},
		{"a deadline", "version: 1\nservice: {stops_retries: true}\n", "stops_retries means nothing"},
		{"a plan in a plan", "version: 1\nservice: {plan: x.yaml}\n", "plan means nothing in a plan"},
		{"a cost that an error has anyway", "version: 1\nservice: {time: 1s}\nfaults: [{kind: errors, at: 0s, for: 1s, status: 500, costs_work: true}]\n", "such an error costs the work anyway"},
		{"a cost of what is not begun", "version: 1\nservice: {time: 1s}\nfaults: [{kind: down, at: 0s, for: 1s, costs_work: true}]\n", "costs_work means nothing for down"},
		{"faults of clients", "version: 1\nfaults: [{kind: reload, clients: shop, at: 1s, policy: x}]\n", "reload is of clients"},
		{"no version", "service: {workers: 1}\n", "version is missing"},
		{"what comes again for ever", "version: 1\nfaults: [{kind: down, at: 0s, for: 1s, every: 3s}]\n", "nothing says how long it comes again"},
		{"what comes too often", "version: 1\nfaults: [{kind: down, at: 0s, for: 1ns, every: 2ns, until: 1s}]\n", "more than ten thousand times"},
		{"an end after the end", "version: 1\nduration: 5s\nfaults: [{kind: down, at: 3s, for: 3s}]\n", "after the plan"},
		{"slow work of no time", "version: 1\nfaults: [{kind: slow, factor: 3, at: 0s, for: 1s}]\n", "whose work takes no time"},
		{"slow bodies without a time", "version: 1\nfaults: [{kind: slow_body, at: 0s, for: 1s}]\n", "add is missing"},
		{"a file that was cut", aPlan[:len(aPlan)-20], "day.yaml:8:1: not YAML"},
		{"a file of nothing", "", "the file is empty"},
	} {
		t.Run(c.fact, func(t *testing.T) {
			_, err := ParsePlan("", "day.yaml", []byte(c.text))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v\nwant %s", err, c.want)
			}
		})
	}
}

func TestMistakesOfScenariosWithPlans(t *testing.T) {
	for _, c := range []struct{ fact, scenario, plan, want string }{
		{"a key beside the plan", strings.Replace(itsScenario, "{plan", "{workers: 3, plan", 1), aPlan, "s.yaml:8:17: db: workers contradicts plan"},
		{"no such file", strings.Replace(itsScenario, "day.yaml", "night.yaml", 1), aPlan, `"night.yaml" can't be read: no such file`},
		{"mistakes in the plan", itsScenario, strings.Replace(aPlan, "80%", "80", 1), "day.yaml:5"},
		{"a plan that outlasts the load", strings.Replace(itsScenario, "30s", "16s", 1), aPlan, "fault 3 of"},
	} {
		t.Run(c.fact, func(t *testing.T) {
			_, err := ParseIn(inFolder(t, "day.yaml", c.plan), "s.yaml", []byte(c.scenario))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v\nwant %s", err, c.want)
			}
		})
	}
	if _, err := Parse("s.yaml", []byte(itsScenario)); err == nil || !strings.Contains(err.Error(), "not in one") {
		t.Errorf("a scenario that is in no folder took a plan: %v", err)
	}
}

func TestIsPlan(t *testing.T) {
	for text, want := range map[string]bool{aPlan: true, itsScenario: false, "version: 1\n": true, "{": false, "clients: {}": false} {
		if got := IsPlan("x", []byte(text)); got != want {
			t.Errorf("%.40q: %v", text, got)
		}
	}
}

// FuzzPlan reads anything without a panic, and what it reads can be asked.
func FuzzPlan(f *testing.F) {
	f.Add(aPlan)
	f.Add("version: 1\nservice: {admission: {limit: learned}, replicas: 3, balance: two_choices, order: codel, queue: 3, workers: 1}\n")
	f.Add("version: 1\nfaults: [{kind: restart, at: 0s, for: 1s, ramp: 1s, every: 3s, until: 10s}, {kind: clock_skew, at: 0s, for: 3s, add: 1s}]\n")
	f.Fuzz(func(t *testing.T, text string) {
		file, err := ParsePlan("", "p", []byte(text))
		if err != nil {
			return
		}
		live, err := file.Live(0, 1)
		if err != nil {
			t.Fatalf("%v of %q", err, text)
		}
		_, _ = live.Next()
		live.Advance(time.Second)
	})
}
