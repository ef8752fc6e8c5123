package lab

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// written writes a scenario and the files beside it, and returns the scenario's path.
func written(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "lab", "scenario.yaml")
}

const measured = `version: 1
title: with the latencies that were measured
duration: 60s
replications: 3
clients:
  shop: {count: 10, rate: 100/s, calls: [{to: db}]}
services:
  db: {time: "from ../data/latencies.csv, column took ms"}
policies:
  db: {breaker: off, timeout: {attempt: off}}
`

// A scenario goes by latencies from a file whose name counts from the scenario's folder:
// its percentiles come to those of the file.
func TestLatenciesComeFromAFile(t *testing.T) {
	var csv strings.Builder
	csv.WriteString("when,took\n")
	for i := range 1000 { // shuffled, 1 ms to 1 s
		fmt.Fprintf(&csv, "x,%d\n", (i*617)%1000+1)
	}
	path := written(t, map[string]string{"lab/scenario.yaml": measured, "data/latencies.csv": csv.String()})
	run := func(workers int) *Report {
		s, err := Load(path)
		if err != nil {
			t.Fatal(err)
		}
		r, err := s.Run(t.Context(), Options{Workers: workers})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	r := run(1)
	for key, want := range map[string]float64{"p50": 0.5, "p90": 0.9, "p99": 0.99, "mean": 0.5} {
		if got, _, err := r.Metric(0, key, "", ""); err != nil || math.Abs(got.Value-want) > 0.03*want {
			t.Errorf("%s is %v, %v, want %g", key, got, err, want)
		}
	}
	var a, b bytes.Buffer
	if err := r.WriteJSON(&a); err != nil {
		t.Fatal(err)
	}
	if err := run(4).WriteJSON(&b); err != nil || a.String() != b.String() {
		t.Errorf("%v: the same file gives another report", err)
	}
}

const replayed = `version: 1
title: an hour that was recorded
duration: 30s
drain: 5s
during: 10s..20s
replications: 2
clients:
  shop: {count: 4, loop: trace, replay: "from calls.jsonl, at time, took http.ms ms, status http.status", calls: [{to: db, method: GET}]}
services:
  db: {}
policies:
  db: {breaker: off, retry: {budget: off, backoff: {kind: constant, base: 1ms}}}
assert:
  - goodput >= 99% before
`

// calls are ten a second, of which every second one fails from 10 s to 20 s.
func calls() string {
	var b strings.Builder
	for i := range 300 {
		status := 200
		if i >= 100 && i < 200 && i%2 == 0 {
			status = 503
		}
		fmt.Fprintf(&b, `{"time":"2026-11-21T10:00:%02d.%d00Z","http":{"ms":%d,"status":%d}}`+"\n", i/10, i%10, 20+i%10, status)
	}
	return b.String()
}

// Recorded calls are made when they were made, take as long as they took and fail as they
// failed, and the policy decides anew.
func TestRecordedCallsAreReplayed(t *testing.T) {
	for _, c := range []struct {
		fact, policy  string
		tries, answer float64
	}{
		{"as it was", "{retry: off, breaker: off}", 1, 0.5},
		{"what fails is sent again, and meets what the next call met", "{breaker: off, retry: {budget: off, backoff: {kind: constant, base: 1ms}}}", 1.5, 1},
	} {
		text := strings.Replace(replayed, "{breaker: off, retry: {budget: off, backoff: {kind: constant, base: 1ms}}}", c.policy, 1)
		s, err := Load(written(t, map[string]string{"lab/scenario.yaml": text, "lab/calls.jsonl": calls()}))
		if err != nil {
			t.Fatal(err)
		}
		r, err := s.Run(t.Context(), Options{})
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range []struct {
			key, of, phase string
			want           float64
		}{{"goodput", "", "before", 1}, {"goodput", "", "during", c.answer}, {"tries", "db", "during", c.tries}, {"received", "db", "before", 100}, {"p50", "", "before", 0.0245}} {
			got, values, err := r.Metric(0, m.key, m.of, m.phase)
			if err != nil || math.Abs(got.Value-m.want) > 0.03*m.want || values[0] != values[1] {
				t.Errorf("%s: %s %s is %v, %v, %v, want %g", c.fact, m.key, m.phase, got, values, err, m.want)
			}
		}
	}
}

// A mistake in another file is reported with its place there, and one in the scenario with its
// place in the scenario.
func TestMistakesInOtherFiles(t *testing.T) {
	for _, c := range []struct{ fact, text, data, want string }{
		{"a latency", measured, "when,took\nx,soon\n", "latencies.csv:2:3: \"soon\" is no latency\n  | x,soon\n  |   ^ write one such as 12.5 or 12.5ms"},
		{"a column", strings.Replace(measured, "column took", "column tok", 1), "when,took\n", "latencies.csv:1:1: there is no column \"tok\"\n  | when,took\n  | ^ did you mean took?"},
		{"no file", strings.Replace(measured, "../data", "data", 1), "", "scenario.yaml:8:14: db: time: \"from data/latencies.csv, column took ms\" names a file, "},
		{"a part of a mixture", strings.Replace(measured, `"from`, `"50% 1ms | 50% from ../`, 1), "when,took\nx,20\n", "has a part that names a file"},
		{"the form", strings.Replace(measured, "column took ms", "took ms", 1), "", `has "took" where one of column belongs`},
		{"both kinds of trace", strings.Replace(replayed, "loop: trace,", "loop: trace, trace: [1s],", 1), "", "replay contradicts trace"},
		{"a replay in an open loop", strings.Replace(replayed, "loop: trace,", "rate: 1/s,", 1), "", "replay means nothing in an open loop"},
		{"neither", strings.Replace(replayed, `replay: "from calls.jsonl, at time, took http.ms ms, status http.status", `, "", 1), "", "trace is missing"},
		{"several calls", strings.Replace(replayed, "to: db,", "to: db, fan: 2,", 1), "", "is of one call, and not of several"},
		{"after the end", strings.Replace(replayed, "http.status\"", "http.status, begin 1h\"", 1), "", "no call is made before the load ends"},
		{"no from", strings.Replace(replayed, "\"from calls", "\"calls", 1), "", "does not begin with from"},
	} {
		path := written(t, map[string]string{"lab/scenario.yaml": c.text, "data/latencies.csv": c.data, "lab/calls.jsonl": calls()})
		if _, err := Load(path); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v\nwant %s", c.fact, err, c.want)
		}
	}
	for _, text := range []string{measured, replayed} { // a text that is in no folder
		if _, err := Parse("stdin", []byte(text)); err == nil || !strings.Contains(err.Error(), "the scenario itself is not in one") {
			t.Errorf("got %v", err)
		}
	}
}

// What is wrong in the same way in all lines is said once, and a file that is not there is
// answered with where its name counts from and not with the forms of distributions.
func TestAMistakeAboutAFileIsSaidOnceAndWithItsCure(t *testing.T) {
	const where = "^ a file's name counts from the folder of the scenario file"
	for _, c := range []struct{ fact, text, ends string }{
		{"no unit of latencies", strings.Replace(measured, "took ms", "took", 1), "latencies.csv:2:3: \"20\" has no unit\n  | x,20\n  |   ^ say which behind the name in the scenario, such as ms or s"},
		{"no unit of calls", strings.NewReplacer("calls.jsonl", "../data/latencies.csv", "time, took http.ms ms, status http.status", "took").Replace(replayed), "latencies.csv:2:3: \"20\" has no unit\n  | x,20\n  |   ^ say which behind the name in the scenario, such as ms or s"},
		{"no file of latencies", strings.Replace(measured, "../data", "data", 1), where},
		{"no file of calls", strings.Replace(replayed, "calls.jsonl", "call.jsonl", 1), where},
	} {
		path := written(t, map[string]string{"lab/scenario.yaml": c.text, "data/latencies.csv": "when,took\nx,20\nx,30\nx,soon\n", "lab/calls.jsonl": calls()})
		_, err := Load(path)
		if err == nil || !strings.HasSuffix(err.Error(), c.ends) || strings.Count(err.Error(), "^") != 1 {
			t.Errorf("%s: got\n%v\nwant at the end\n%s", c.fact, err, c.ends)
		}
	}
}

// Distributions are added to and mixed as others are.
func TestLatenciesOfAFileAreMixed(t *testing.T) {
	text := strings.Replace(measured, `"from ../data/latencies.csv, column took ms"`, `"50% 1ms | 50% from ../data/a.txt ms + 100ms"`, 1)
	s, err := Load(written(t, map[string]string{"lab/scenario.yaml": text, "data/a.txt": "200\n200\n"}))
	if err != nil {
		t.Fatal(err)
	}
	r, err := s.Run(t.Context(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if got, _, _ := r.Metric(0, "mean", "", ""); math.Abs(got.Value-0.1505) > 0.005 {
		t.Errorf("the mean is %v", got)
	}
}

// The example of docs/lab-reference.md is one that runs.
func TestTheDocumentedFilesAreRead(t *testing.T) {
	text, err := os.ReadFile("../docs/lab-reference.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "\n    services:\n")
	block, _, found := strings.Cut("    services:\n"+rest, "\n\n")
	if !found {
		t.Fatal("docs/lab-reference.md has no example")
	}
	scenario := "version: 1\ntitle: x\nduration: 30s\nreplications: 1\npolicies:\n  db: {safe: true}\n" + strings.ReplaceAll("\n"+block, "\n    ", "\n") + "\n"
	recorded := strings.NewReplacer(`"time":`, `"ts":`, `"ms":`, `"duration":`).Replace(calls())
	s, err := Load(written(t, map[string]string{"lab/scenario.yaml": scenario, "lab/calls.jsonl": recorded, "measured/db.csv": "took\n20\n30\n"}))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Run(t.Context(), Options{}); err != nil {
		t.Error(err)
	}
}
