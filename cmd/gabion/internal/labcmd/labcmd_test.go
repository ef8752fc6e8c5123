package labcmd

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v4"

	"github.com/gabion-go/gabion/cmd/gabion/internal/cli"
	kept "github.com/gabion-go/gabion/internal/recording"
	"github.com/gabion-go/gabion/lab"
)

const small = `version: 1
title: small
duration: 30s
bin: 5s
drain: 5s
replications: 3
clients:
  shop: {count: 4, rate: 40/s, calls: [{to: db}]}
services:
  db: {workers: 4, queue: 10, time: exp 20ms}
policies:
  db: {safe: true}
faults:
  - {kind: errors, service: db, at: 10s, for: 10s, share: 50%}
assert:
  - amplification(db) <= 1.9 during faults
`

// file writes a file for a test and returns its path.
func file(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestExitCodes(t *testing.T) {
	good := file(t, "good.yaml", small)
	bad := file(t, "bad.yaml", strings.Replace(small, "30s", "30", 1))
	fails := file(t, "fails.yaml", strings.Replace(small, "<= 1.9", "<= 0.5", 1))
	busy := file(t, "busy.yaml", strings.NewReplacer("count: 4, rate: 40/s", "count: 1, rate: 400/s", "at: 10s, for: 10s", "at: 20s, for: 1s").Replace(small))
	policies := file(t, "gabion.yaml", "version: 1\ndependencies:\n  db: {retry: off}\n  payments: {safe: true}\n")
	other := file(t, "other.yaml", "version: 1\ndependencies:\n  payments: {safe: true, retry: {attempts: 5}}\n")
	wrong := file(t, "wrong.yaml", "version: 1\ndependencies:\n  db: {retry: on}\n")
	type main = func() *cobra.Command
	for _, c := range []struct {
		fact           string
		do             main
		args           []string
		code           int
		stdout, stderr string
	}{
		{"a run that holds", Run, []string{good}, 0, "amplification(db) <= 1.9", ""},
		{"an assertion that does not", Run, []string{fails}, 1, "amplification(db) <= 0.5", ""},
		{"a scenario with a mistake", Run, []string{bad}, 1, "", "has no unit"},
		{"no scenario", Run, nil, 2, "", "no scenario is named"},
		{"two scenarios", Run, []string{good, bad}, 2, "", "is not expected"},
		{"a name that is misspelled", Run, []string{"eror-storm"}, 2, "", "did you mean error-storm?"},
		{"a file that is not there", Run, []string{"./nothing.yaml"}, 3, "", "nothing.yaml"},
		{"a flag that does not exist", Run, []string{good, "--fast"}, 2, "", "usage: gabion lab run"},
		{"a flag that is misspelled", Run, []string{good, "--agianst", "plain"}, 2, "", "did you mean --against?\n"},
		{"a flag that is misspelled, with its value", RunTournament, []string{"-scenrio=flap"}, 2, "", "did you mean --scenario?\n"},
		{"no such fleet to record", Run, []string{good, "--record", "x", "--record-of", "shopp"}, 3, "", "did you mean shop?"},
		{"no number to record", Run, []string{good, "--record", "x", "--record-of", "shop/x"}, 2, "", "write NAME or NAME/N"},
		{"whom to record, and not where", Run, []string{good, "--record-of", "shop"}, 2, "", "--record FILE is missing"},
		{"a sweep that is recorded", Run, []string{good, "--record", "x", "--sweep", "breaker.open=1s,2s"}, 2, "", "without --sweep"},
		{"a recording in a missing directory", Run, []string{good, "--record", "/nowhere/x"}, 3, "small", "open /nowhere/x: no such file or directory"},
		{"help", Run, []string{"-h"}, 0, "usage: gabion lab run", ""},
		{"against nothing known", Run, []string{good, "--against", "./nothing.yaml"}, 3, "", "nothing.yaml"},
		{"against an opponent", Run, []string{good, "--against", "resilience4j"}, 0, "resilience4j", ""},
		{"against an opponent by its other name", Run, []string{good, "--against", "finagle"}, 0, "linkerd", ""},
		{"against an opponent that is misspelled", Run, []string{good, "--against", "resilence4j"}, 2, "", "did you mean resilience4j?"},
		{"against a name that is far from any", Run, []string{good, "--against", "xyzzy"}, 2, "", "gabion lab opponents"},
		{"a tournament", RunTournament, []string{"--scenario", "family:steady-5pct-1x0.02", "--against", "naive", "--replications", "2"}, 0, "*gabion", ""},
		{"a tournament of a file", RunTournament, []string{"--config", policies, "--scenario", "family:steady-5pct-1x0.02", "--against", "naive", "--replications", "2", "--seeds", "validation"}, 0, "on the validation seed", ""},
		{"a tournament against an unknown rival", RunTournament, []string{"--against", "poly"}, 2, "", "did you mean polly?"},
		{"a tournament in no scenario", RunTournament, []string{"--scenario", "eror-storm"}, 3, "", "did you mean error-storm?"},
		{"a tournament that is quick and full", RunTournament, []string{"--quick", "--full"}, 2, "", "exclude each other"},
		{"a tournament on no seed", RunTournament, []string{"--seeds", "best"}, 2, "", "write default, validation, or a number"},
		{"a tournament of a file with a mistake", RunTournament, []string{"--config", wrong}, 1, "", "wrong.yaml:3"},
		{"a generated scenario", Run, []string{"family:steady-5pct-1x0.02", "--replications", "1"}, 0, "5 % errors for ever", ""},
		{"the file of a generated scenario", Show, []string{"family:steady-5pct-1x0.02"}, 0, "rate: 0.02/s", ""},
		{"a generated scenario that is not there", Show, []string{"family:steady"}, 2, "", "--families"},
		{"generated scenarios in the list", List, []string{"--families"}, 0, "family:flap-3s-of-10s-100x2", ""},
		{"all policies by one dependency", Run, []string{good, "--config", policies, "--as", "*=payments", "--against", "grpc"}, 0, "grpc", ""},
		{"the opponents", Opponents, nil, 0, "hashicorp/go-retryablehttp v0.7.8", ""},
		{"the opponents and a word", Opponents, []string{"polly"}, 2, "", "is not expected"},
		{"against none", Run, []string{good, "--against", "none"}, 0, "defaults against none", ""},
		{"policies of a file", Run, []string{good, "--config", policies}, 0, "small", ""},
		{"policies by another name", Run, []string{good, "--config", policies, "--as", "db=payments"}, 0, "small", ""},
		{"a dependency that the file does not have", Run, []string{good, "--config", policies, "--as", "db=payment"}, 3, "", `no dependency "payment": did you mean payments?`},
		{"another name for what nothing goes by", Run, []string{good, "--config", policies, "--as", "bd=payments"}, 3, "", "did you mean db?"},
		{"another name without a file", Run, []string{good, "--as", "db=payments"}, 3, "", "no file is given"},
		{"a file of policies with a mistake", Run, []string{good, "--config", wrong}, 1, "", "wrong.yaml:3"},
		{"a name for nothing", Run, []string{good, "--as", "db"}, 2, "", "NAME=DEPENDENCY"},
		{"a map", Run, []string{good, "--map", "--replications", "2"}, 0, "small", ""},
		{"two dependencies of one file", Run, []string{good, "--config", policies, "--as", "db=payments", "--against-as", "db=db"}, 0, "gabion.yaml payments", ""},
		{"all policies by a dependency of each of two files", Run, []string{good, "--config", policies, "--as", "*=payments", "--against", other, "--against-as", "*=payments"}, 0, "gabion.yaml payments against other.yaml payments", ""},
		{"the same name in both files", Run, []string{good, "--config", policies, "--as", "*=payments", "--against", other}, 0, "against other.yaml payments", ""},
		{"all policies by two dependencies of one file", Run, []string{good, "--config", policies, "--as", "*=payments", "--against-as", "*=db"}, 0, "payments against db", ""},
		{"all policies by one, against a file", Run, []string{good, "--config", policies, "--as", "*=payments", "--against", other, "--against-as", "db=payments"}, 0, "payments against", ""},
		{"all policies by what the other file does not have", Run, []string{good, "--config", policies, "--as", "*=payments", "--against", other, "--against-as", "*=nothing"}, 3, "", `has no dependency "nothing": there is `},
		{"all policies by a dependency of no file", Run, []string{good, "--as", "*=payments"}, 3, "", "no file is given"},
		{"another name for the other side of nothing", Run, []string{good, "--against-as", "db=payments"}, 3, "", "none is given"},
		{"another name for a rival", Run, []string{good, "--config", policies, "--against", "naive", "--against-as", "db=payments"}, 3, "", "none is given"},
		{"one run that fails", Run, []string{fails, "--replications", "1"}, 1, "amplification(db) <= 0.5", ""},
		{"two runs that fail", Run, []string{fails, "--replications", "2"}, 1, "amplification(db) <= 0.5", ""},
		{"a sweep", Run, []string{good, "--sweep", "breaker.open=1s,2s"}, 0, "breaker.open of db, 3 runs each", ""},
		{"a sweep as JSON", Run, []string{good, "--sweep", "retry.budget.ratio=5%..40%:3", "--json"}, 0, `"key": "retry.budget.ratio"`, ""},
		{"a sweep of policies of a file", Run, []string{good, "--config", policies, "--as", "db=payments", "--sweep", "db.retry.attempts=1,2"}, 0, "again: gabion lab run", ""},
		{"a sweep of all policies by one dependency", Run, []string{good, "--config", policies, "--as", "*=payments", "--sweep", "retry.attempts=1,2"}, 0, "now: 3", ""},
		{"a sweep of a key that is misspelled", Run, []string{good, "--sweep", "breaker.opn=1s,2s"}, 2, "", "did you mean breaker.open?"},
		{"a sweep of a value without a unit", Run, []string{good, "--sweep", "breaker.open=1,2"}, 2, "", "has no unit"},
		{"a sweep of a value that contradicts another", Run, []string{good, "--sweep", "retry.attempts=2,1000000"}, 3, "", "retry.attempts=1000000: "},
		{"a sweep of a policy that is not there", Run, []string{good, "--sweep", "bd.breaker.open=1s,2s"}, 3, "", "did you mean db?"},
		{"two sweeps", Run, []string{good, "--sweep", "breaker.open=1s,2s", "--sweep", "breaker.open=1s,2s"}, 2, "", "one key at a time"},
		{"a sweep against something", Run, []string{good, "--sweep", "breaker.open=1s,2s", "--against", "naive"}, 2, "", "leave out --against"},
		{"fewer than no replications", Run, []string{good, "--replications", "-1"}, 2, "", "not negative"},
		{"a list", List, nil, 0, "error-storm", ""},
		{"a list of something", List, []string{"all"}, 2, "", "is not expected"},
		{"a scenario to read", Show, []string{"flap"}, 0, "kind: down", ""},
		{"the policies of a scenario", Show, []string{"layered-retries", "--policies"}, 0, "\n", ""},
		{"the schema", Show, []string{"--schema"}, 0, "$schema", ""},
		{"a timeline", Explain, []string{good}, 0, "attempt_sent #1", ""},
		{"a timeline of a busy client, whose first decisions are many", Explain, []string{busy}, 0, "shop → db", ""},
		{"a timeline of an unknown fleet", Explain, []string{good, "--fleet", "shopp"}, 3, "", "did you mean shop?"},
		{"a timeline of a time without calls", Explain, []string{good, "--from", "29.999s", "--to", "30s"}, 0, "DECISION", "try --client"},
	} {
		t.Run(c.fact, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			if code := cli.Run(t.Context(), c.do(), c.args, &stdout, &stderr); code != c.code {
				t.Errorf("exit code %d, want %d; stderr %s", code, c.code, &stderr)
			}
			for _, s := range []struct {
				got  *bytes.Buffer
				want string
			}{{&stdout, c.stdout}, {&stderr, c.stderr}} {
				if s.want == "" && s.got.Len() > 0 || !strings.Contains(s.got.String(), s.want) {
					t.Errorf("got %.300q, want %q", s.got, s.want)
				}
			}
		})
	}
}

func TestAnInterruptedRunSaysSo(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var stdout, stderr bytes.Buffer
	if code := cli.Run(ctx, Run(), []string{file(t, "x.yaml", small)}, &stdout, &stderr); code != cli.ExitInterrupted || stdout.Len() > 0 {
		t.Errorf("exit code %d, stdout %q, stderr %q", code, &stdout, &stderr)
	}
}

func TestJSONIsAllOfStdout(t *testing.T) {
	page := filepath.Join(t.TempDir(), "report.html")
	var stdout, stderr bytes.Buffer
	if code := cli.Run(t.Context(), Run(), []string{file(t, "x.yaml", small), "--json", "--report", page, "--seed", "7"}, &stdout, &stderr); code != 0 {
		t.Fatalf("exit code %d: %s", code, &stderr)
	}
	var study struct {
		Version int
		Seed    uint64
		Command string
		Sides   []struct{ Asserts []struct{ Holds string } }
	}
	if err := json.Unmarshal(stdout.Bytes(), &study); err != nil {
		t.Fatal(err)
	}
	if study.Version != 2 || study.Seed != 7 || study.Sides[0].Asserts[0].Holds != "yes" {
		t.Errorf("%+v", study)
	}
	if strings.Contains(study.Command, "report") || strings.Contains(study.Command, "json") || !strings.Contains(study.Command, "--seed 7") {
		t.Errorf("what reproduces it is %q", study.Command)
	}
	html, err := os.ReadFile(page)
	if err != nil || !bytes.HasPrefix(html, []byte("<!")) {
		t.Errorf("the page begins with %.40q, %v", html, err)
	}
}

// What CI servers and pull requests are given is written whatever the assertions say, and
// the command that shows it again does not write it again.
func TestFilesForReviewers(t *testing.T) {
	dir := t.TempDir()
	fails := file(t, "fails.yaml", strings.Replace(small, "<= 1.9", "<= 0.5", 1))
	markdown, junit := filepath.Join(dir, "x.md"), filepath.Join(dir, "x.xml")
	var stdout, stderr bytes.Buffer
	if code := cli.Run(t.Context(), Run(), []string{fails, "--markdown", markdown, "--junit=" + junit, "--seed", "7"}, &stdout, &stderr); code != cli.ExitFindings {
		t.Fatalf("exit code %d: %s", code, &stderr)
	}
	for path, want := range map[string]string{markdown: "❌ **fails:**", junit: "<failure message=\"measured "} {
		text, err := os.ReadFile(path)
		if err != nil || !strings.Contains(string(text), want) || !strings.Contains(string(text), "fails.yaml --seed 7") || strings.Contains(string(text), "--junit") || strings.Contains(string(text), "--markdown") {
			t.Errorf("%v, %s", err, text)
		}
	}
	if code := cli.Run(t.Context(), Run(), []string{fails, "--junit", filepath.Join(dir, "nothing", "x.xml")}, &stdout, &stderr); code != cli.ExitFailure {
		t.Errorf("a folder that is not there: exit code %d", code)
	}
}

// A run writes what gabion explain and gabion page read.
func TestARunIsRecorded(t *testing.T) {
	scenario, dir := file(t, "small.yaml", small), t.TempDir()
	one, folder := filepath.Join(dir, "one.jsonl"), filepath.Join(dir, "all")+"/"
	for fact, c := range map[string]struct {
		args  []string
		files []string
	}{
		"the first side":         {[]string{"--record", one, "--record-of", "shop/2"}, []string{one}},
		"every side in a folder": {[]string{"--against", "naive", "--record", folder}, []string{folder + "0-defaults.jsonl", folder + "1-naive.jsonl", folder + "2-plain.jsonl"}},
		"a folder that is there": {[]string{"--against", "off", "--record", dir}, []string{dir + "/0-defaults.jsonl"}},
	} {
		var stdout, stderr bytes.Buffer
		if code := cli.Run(t.Context(), Run(), append([]string{scenario}, c.args...), &stdout, &stderr); code > 1 {
			t.Fatalf("%s: exit code %d, %s", fact, code, stderr.String())
		}
		for _, name := range c.files {
			f, err := os.Open(name)
			if err != nil {
				t.Fatalf("%s: %v; said: %s", fact, err, stderr.String())
			}
			calls := map[uint64]bool{}
			for e, err := range kept.Entries(f) {
				if err != nil || e.Event.Dependency != "db" || !e.Header.Virtual {
					t.Fatalf("%s: %v, %+v", name, err, e)
				}
				calls[e.Event.Call] = true
			}
			if err := f.Close(); err != nil || len(calls) < 50 || !strings.Contains(stderr.String(), name+": ") {
				t.Errorf("%s: %d calls, %v; said: %s", name, len(calls), err, stderr.String())
			}
		}
		if strings.Contains(stdout.String(), "--record") {
			t.Errorf("%s: what changes nothing is part of the command:\n%s", fact, stdout.String())
		}
	}
}

func TestStandardInputIsAScenario(t *testing.T) {
	r := newRequest()
	r.stdin = strings.NewReader(small)
	s, err := r.load("-")
	if err != nil || s.Title() != "small" || s.Name() != "stdin" {
		t.Errorf("%v, %v", s, err)
	}
}

// The schema accepts every scenario that comes with gabion, and refuses slips.
func TestTheSchemaAcceptsTheLibrary(t *testing.T) {
	c := jsonschema.NewCompiler()
	parsed, err := jsonschema.UnmarshalJSON(bytes.NewReader(lab.Schema()))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.AddResource("scenario.json", parsed); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile("scenario.json")
	if err != nil {
		t.Fatal(err)
	}
	validate := func(text string) error {
		var v any
		if err := yaml.Unmarshal([]byte(text), &v); err != nil {
			t.Fatal(err)
		}
		return schema.Validate(v)
	}
	for _, name := range lab.Names() {
		s, err := lab.Load(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := validate(s.Text()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, c := range [][2]string{{"exp 20ms", "90% 20ms | 10% exp 1s + 5ms"}, {"exp 20ms", "\"from x.csv, column took ms\""}, {"exp 20ms", "\"quantiles p50 20ms, p99 300ms\""}, {"rate: 40/s", "loop: trace, replay: \"from x.csv, at 1 s\""}} {
		if err := validate(strings.Replace(small, c[0], c[1], 1)); err != nil {
			t.Errorf("%s: %v", c[1], err)
		}
	}
	for _, c := range [][2]string{{"count: 4", "count: four"}, {"kind: errors", "kind: error"}, {"duration: 30s", "duraton: 30s"}, {"share: 50%", "share: 0.5"}, {"safe: true", "saef: true"},
		{"exp 20ms", "ex 20ms"}, {"exp 20ms", "exp 20"}, {"exp 20ms", "uniform 20ms"}, {"amplification(db)", "amplifcation(db)"}, {"<= 1.9", "=< 1.9"}, {"during faults", "meanwhile"},
		{"share: 50%", "factor: 2"}, {"kind: errors", "kind: brown_out"}, {", for: 10s", ""}} {
		if validate(strings.Replace(small, c[0], c[1], 1)) == nil {
			t.Errorf("%s is accepted", c[1])
		}
	}
}

// A file is written under a temporary name, which an error must not show.
func TestAFileThatCanNotBeWrittenIsNamed(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "taken", "by"), 0o755); err != nil {
		t.Fatal(err)
	}
	for fact, name := range map[string]string{
		"its folder is not there": filepath.Join(dir, "nowhere", "x"),
		"it is a folder":          filepath.Join(dir, "taken"),
	} {
		err := WriteFile(name, func(io.Writer) error { return nil })
		if err == nil || !strings.Contains(err.Error(), " "+name+": ") || strings.Contains(err.Error(), ".gabion-") {
			t.Errorf("%s: %v", fact, err)
		}
	}
}
