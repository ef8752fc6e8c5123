package main

import (
	"encoding/xml"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.yaml.in/yaml/v4"
)

// The script of the GitHub Action is run here as the runner runs it, in a repository with
// a base and a pull request. What only GitHub can show is not: that the runner reads
// action.yml as this test does, and actions/setup-go.

const actionScript = "../../.github/action/lab.sh"

const actionScenario = `version: 1
title: small
duration: 30s
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
  - amplification(db) <= 1.5 during faults
`

// programs is the folder of what is built for tests.
var programs string

func TestMain(m *testing.M) {
	code := m.Run()
	if programs != "" {
		os.RemoveAll(programs)
	}
	os.Exit(code)
}

// builtGabion is the program of this checkout, built once, as the action builds it and
// without the race detector: the script starts it often.
var builtGabion = sync.OnceValues(func() (string, error) {
	var err error
	if programs, err = os.MkdirTemp("", "gabion-action-"); err != nil {
		return "", err
	}
	path := filepath.Join(programs, "gabion")
	cmd := exec.Command("go", "build", "-o", path, ".")
	cmd.Env = append(os.Environ(), "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", errors.New(string(out))
	}
	return path, nil
})

// pull is a repository with a base and a pull request.
type pull struct {
	t         *testing.T
	dir, base string
}

func newPull(t *testing.T, base, change map[string]string) *pull {
	t.Helper()
	for _, program := range []string{"git", "bash"} {
		if _, err := exec.LookPath(program); err != nil {
			if os.Getenv("GABION_REQUIRE_SERVERS") == "1" {
				t.Fatalf("%s is not installed, and the action's script needs it", program)
			}
			t.Skipf("%s is not installed", program)
		}
	}
	p := &pull{t: t, dir: t.TempDir()}
	p.git("init", "--quiet", "--initial-branch=main")
	p.commit("base", base)
	p.base = strings.TrimSpace(p.git("rev-parse", "HEAD"))
	p.commit("change", change)
	return p
}

func (p *pull) git(args ...string) string {
	p.t.Helper()
	cmd := exec.Command("git", append([]string{"-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false"}, args...)...)
	cmd.Dir = p.dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
	out, err := cmd.CombinedOutput()
	if err != nil {
		p.t.Fatalf("git %v: %v: %s", args, err, out)
	}
	return string(out)
}

func (p *pull) commit(title string, files map[string]string) {
	p.t.Helper()
	for name, text := range files {
		path := filepath.Join(p.dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			p.t.Fatal(err)
		}
	}
	p.git("add", "-A")
	p.git("commit", "--quiet", "--allow-empty", "-m", title)
}

// run runs the script as a step, and returns how it ended and what it said.
func (p *pull) run(vars ...string) (code int, said string) {
	p.t.Helper()
	program, err := builtGabion()
	if err != nil {
		p.t.Fatal(err)
	}
	script, err := filepath.Abs(actionScript)
	if err != nil {
		p.t.Fatal(err)
	}
	cmd := exec.Command(script)
	cmd.Dir = p.dir
	cmd.Env = append(os.Environ(), "GABION="+program, "BASELINE="+p.base, "SCENARIOS=lab/small.yaml",
		"GITHUB_STEP_SUMMARY="+p.path("summary"), "GITHUB_OUTPUT="+p.path("output"))
	cmd.Env = append(cmd.Env, vars...)
	out, err := cmd.CombinedOutput()
	var ended *exec.ExitError
	if err != nil && !errors.As(err, &ended) {
		p.t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(out)
}

func (p *pull) path(name string) string { return filepath.Join(p.dir, ".git", name) }

// read returns a file of the repository, or nothing if it is not there.
func (p *pull) read(name string) string {
	text, err := os.ReadFile(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		p.t.Fatal(err)
	}
	return string(text)
}

// junit counts the cases and failures of the files.
func (p *pull) junit() (files []string, cases, failures int) {
	found, _ := filepath.Glob(filepath.Join(p.dir, "gabion-lab", "junit", "*.xml"))
	for _, name := range found {
		var doc struct {
			Tests    int `xml:"tests,attr"`
			Failures int `xml:"failures,attr"`
		}
		if err := xml.Unmarshal([]byte(p.read(name)), &doc); err != nil {
			p.t.Errorf("%s: %v", name, err)
		}
		files, cases, failures = append(files, filepath.Base(name)), cases+doc.Tests, failures+doc.Failures
	}
	return files, cases, failures
}

func TestTheActionComparesWithTheBase(t *testing.T) {
	if testing.Short() {
		t.Skip("long: the command is built")
	}
	const before, calm, loud = "version: 1\ndependencies:\n  db: {safe: true}\n", "version: 1\ndependencies:\n  db: {safe: true, retry: {attempts: 2}}\n",
		"version: 1\ndependencies:\n  db: {safe: true, breaker: off, retry: {attempts: 5, budget: off, backoff: {kind: constant, base: 1ms}}}\n"
	const two = "version: 1\ndependencies:\n  payments: {safe: true}\n  mail.v2: {safe: true, retry: off}\n"
	for _, c := range []struct {
		fact         string
		base, change map[string]string
		vars         []string
		code         int
		says         []string // in its output
		summary      []string
		files        []string
		failures     int
	}{
		{
			fact: "a change that holds", base: map[string]string{"gabion.yaml": before}, change: map[string]string{"gabion.yaml": calm},
			summary: []string{"### ✅ lab/small.yaml: small", "| assertion | of | gabion.yaml | gabion-lab/base/gabion.yaml | plain |", "retry.attempts"}, files: []string{"small.xml"},
		},
		{
			fact: "a change that breaks an assertion", base: map[string]string{"gabion.yaml": before}, change: map[string]string{"gabion.yaml": loud},
			code: 1, says: []string{"::error::small: an assertion fails"}, summary: []string{"❌ **fails:**"}, files: []string{"small.xml"}, failures: 1,
		},
		{
			fact: "a file that is new", base: map[string]string{"x": ""}, change: map[string]string{"gabion.yaml": calm},
			says: []string{"::notice::gabion.yaml is new"}, summary: []string{"| assertion | of | gabion.yaml | plain |"}, files: []string{"small.xml"},
		},
		{
			fact: "a base with a mistake", base: map[string]string{"gabion.yaml": "version: 2\n"}, change: map[string]string{"gabion.yaml": calm},
			says: []string{"::warning::gabion.yaml of the baseline has mistakes", "%0A"}, summary: []string{"gabion.yaml | plain |"}, files: []string{"small.xml"},
		},
		{
			fact: "a change with a mistake", base: map[string]string{"gabion.yaml": before}, change: map[string]string{"gabion.yaml": strings.Replace(before, "safe", "saef", 1)},
			code: 1, says: []string{"gabion.yaml:3:8: db: unknown key \"saef\"", "^ did you mean safe?", "::error::gabion.yaml:3:8"},
		},
		{
			fact: "dependencies of other names, each in the place of the scenario's", base: map[string]string{"gabion.yaml": before}, change: map[string]string{"gabion.yaml": two},
			summary: []string{"| payments | ✅ holds", "| mail.v2 | ✅ holds", "| assertion | of | gabion.yaml | plain |"}, files: []string{"small--mail.v2.xml", "small--payments.xml"},
		},
		{
			fact: "one of them, in a scenario of the library", base: map[string]string{"gabion.yaml": two}, change: map[string]string{"x": ""}, vars: []string{"SCENARIOS=short-blip\nlab/small.yaml", "DEPENDENCIES=payments", "REPLICATIONS=2"},
			summary: []string{"short-blip", "2 runs, seed 1"}, files: []string{"short-blip--payments.xml", "small--payments.xml"},
		},
		{
			fact: "a folder and a file with other names", base: map[string]string{"conf/a b.yaml": before}, change: map[string]string{"conf/a b.yaml": calm}, vars: []string{"CONFIG=conf/a b.yaml"},
			summary: []string{"| assertion | of | conf/a b.yaml | gabion-lab/base/a b.yaml | plain |"}, files: []string{"small.xml"},
		},
		{
			fact: "no baseline", base: map[string]string{"gabion.yaml": before}, change: map[string]string{"gabion.yaml": calm}, vars: []string{"BASELINE="},
			summary: []string{"gabion.yaml | plain |"}, files: []string{"small.xml"},
		},
		{
			fact: "a baseline that is not there", base: map[string]string{"gabion.yaml": before}, vars: []string{"BASELINE=0123456789012345678901234567890123456789"},
			code: 2, says: []string{"::error::the baseline 0123456789012345678901234567890123456789 is not there: check out with fetch-depth: 0"},
		},
		{
			fact: "no scenario", base: map[string]string{"gabion.yaml": before}, vars: []string{"SCENARIOS= \n"}, code: 2, says: []string{"::error::no scenario is named"},
		},
		{
			fact: "scenarios that are not there, and that a shell would obey", base: map[string]string{"gabion.yaml": before}, vars: []string{"SCENARIOS=eror-storm $(touch$IFS pwned) `touch$IFS.pwned` ;pwned *"},
			code: 1, says: []string{"did you mean error-storm?", "::error::*: "},
		},
	} {
		t.Run(c.fact, func(t *testing.T) {
			if testing.Short() && c.fact != "a change that breaks an assertion" && c.fact != "a change with a mistake" {
				t.Skip("long: each runs the lab by git, a shell and the command")
			}
			c.base["lab/small.yaml"] = actionScenario
			p := newPull(t, c.base, c.change)
			code, said := p.run(c.vars...)
			if code != c.code {
				t.Errorf("it ends with %d, want %d:\n%s", code, c.code, said)
			}
			for _, want := range c.says {
				if !strings.Contains(said, want) {
					t.Errorf("it does not say %q:\n%s", want, said)
				}
			}
			summary := p.read(p.path("summary"))
			for _, want := range c.summary {
				if !strings.Contains(summary, want) {
					t.Errorf("the summary has no %q:\n%s", want, summary)
				}
			}
			files, cases, failures := p.junit()
			if !slices.Equal(files, c.files) || cases < len(files) || failures != c.failures {
				t.Errorf("%q with %d cases and %d failures", files, cases, failures)
			}
			if output := p.read(p.path("output")); len(c.files) > 0 && (!strings.Contains(output, "markdown=gabion-lab/summary.md\njunit=gabion-lab/junit\nfailed=") || strings.Contains(output, "failed=0") != (c.failures == 0)) {
				t.Errorf("the outputs are %q", output)
			}
			if got, _ := filepath.Glob(filepath.Join(p.dir, "*pwned*")); len(got) > 0 {
				t.Errorf("there is %q", got)
			}
		})
	}
}

// A checkout of one commit fetches the baseline by itself.
func TestTheActionInAShallowCheckout(t *testing.T) {
	if testing.Short() {
		t.Skip("long: the command is built")
	}
	const before = "version: 1\ndependencies:\n  db: {safe: true}\n"
	whole := newPull(t, map[string]string{"gabion.yaml": before, "lab/small.yaml": actionScenario}, map[string]string{"gabion.yaml": strings.Replace(before, "true", "true, retry: off", 1)})
	shallow := &pull{t: t, dir: t.TempDir(), base: whole.base}
	shallow.git("clone", "--quiet", "--depth=1", "file://"+whole.dir, ".")
	code, said := shallow.run()
	if code != 0 || !strings.Contains(shallow.read(shallow.path("summary")), "gabion-lab/base/gabion.yaml") {
		t.Errorf("it ends with %d:\n%s", code, said)
	}
}

// The action builds the program that it is of.
func TestTheActionBuildsItsProgram(t *testing.T) {
	if testing.Short() {
		t.Skip("-short leaves out building the program, which takes a minute")
	}
	source, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	p := newPull(t, map[string]string{"gabion.yaml": "version: 1\ndependencies:\n  db: {safe: true}\n", "lab/small.yaml": actionScenario}, nil)
	code, said := p.run("GABION=", "SOURCE="+source, "REPLICATIONS=1")
	if _, err := os.Stat(filepath.Join(p.dir, "gabion-lab", "bin", "gabion")); err != nil || code > 1 || len(said) == 0 {
		t.Errorf("it ends with %d, %v:\n%s", code, err, said)
	}
}

// What action.yml hands over is what the script reads; no input becomes a part of a
// script, and outputs are those that the script writes.
func TestTheActionHandsOverWhatTheScriptReads(t *testing.T) {
	text, err := os.ReadFile("../../action.yml")
	if err != nil {
		t.Fatal(err)
	}
	var action struct {
		Inputs  map[string]struct{ Description, Default string }
		Outputs map[string]struct{ Description, Value string }
		Runs    struct {
			Using string
			Steps []struct {
				ID, Uses, Shell, Run string
				Env                  map[string]string
			}
		}
	}
	if err := yaml.Unmarshal(text, &action); err != nil {
		t.Fatal(err)
	}
	script, err := os.ReadFile(actionScript)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(actionScript); err != nil || info.Mode()&0o111 == 0 {
		t.Errorf("the script is no program: %v", err)
	}
	if action.Runs.Using != "composite" {
		t.Errorf("it runs as %q", action.Runs.Using)
	}
	used := map[string]bool{}
	for _, step := range action.Runs.Steps {
		if strings.Contains(step.Run, "${{") || step.Run != "" && step.Shell == "" {
			t.Errorf("a step runs %q in %q", step.Run, step.Shell)
		}
		for name, value := range step.Env {
			if !regexp.MustCompile(`\$\{?`+name+`\b`).Match(script) && name != "SOURCE" {
				t.Errorf("the script does not read %s", name)
			}
			if m := regexp.MustCompile(`^\$\{\{ inputs\.([a-z]+) \}\}$`).FindStringSubmatch(value); m != nil {
				used[m[1]] = true
			}
		}
	}
	for name, in := range action.Inputs {
		if !used[name] || in.Description == "" {
			t.Errorf("the input %s is not handed over, or not described", name)
		}
		delete(used, name)
	}
	for name := range used {
		t.Errorf("there is no input %s", name)
	}
	for name, out := range action.Outputs {
		if !strings.Contains(out.Value, "steps.lab.outputs."+name) || !strings.Contains(string(script), name+"=%s") {
			t.Errorf("the output %s is not written", name)
		}
	}
}
