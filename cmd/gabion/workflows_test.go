package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"
)

// workflow is what the tests read of a workflow or a composite action.
type workflow struct {
	Permissions map[string]string
	Jobs        map[string]struct{ Steps []step }
	Runs        struct{ Steps []step }
}

type step struct{ Uses, Run string }

func (w workflow) steps() []step {
	all := w.Runs.Steps
	for _, job := range w.Jobs {
		all = append(all, job.Steps...)
	}
	return all
}

var (
	pinned = regexp.MustCompile(`^[\w.-]+/[\w./-]+@[0-9a-f]{40}$`)
	made   = regexp.MustCompile(`(?m)^\s*make ([a-z-]+)`)
	script = regexp.MustCompile(`(?m)^\s*(\.[\w./-]+)`)
)

// wrong lists what is wrong with a workflow whose commands run in root.
func wrong(text []byte, root string) (problems []string) {
	var w workflow
	if err := yaml.Unmarshal(text, &w); err != nil {
		return []string{err.Error()}
	}
	if len(w.steps()) == 0 {
		problems = append(problems, "it has no steps")
	}
	if len(w.Jobs) > 0 && w.Permissions == nil {
		problems = append(problems, "it has no permissions of its own")
	}
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		return append(problems, err.Error())
	}
	for _, s := range w.steps() {
		if s.Uses != "" && !pinned.MatchString(s.Uses) {
			problems = append(problems, s.Uses+" is not pinned to a commit")
		}
		if strings.Contains(s.Run, "${{") {
			problems = append(problems, "a command has ${{, which belongs into env: "+s.Run)
		}
		for _, m := range made.FindAllStringSubmatch(s.Run, -1) {
			if !regexp.MustCompile(`(?m)^` + m[1] + `:`).Match(makefile) {
				problems = append(problems, "there is no make "+m[1])
			}
		}
		for _, m := range script.FindAllStringSubmatch(s.Run, -1) {
			if info, err := os.Stat(filepath.Join(root, m[1])); err != nil || info.Mode()&0o111 == 0 {
				problems = append(problems, m[1]+" is no program")
			}
		}
	}
	return problems
}

func TestWorkflowsCallWhatThereIs(t *testing.T) {
	files, err := filepath.Glob("../../.github/workflows/*.yml")
	if err != nil || len(files) < 2 {
		t.Fatalf("%d workflows, %v", len(files), err)
	}
	for _, name := range append(files, "../../action.yml", "../../.github/action/lint/action.yml") {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range wrong(text, "../..") {
			t.Errorf("%s: %s", name, p)
		}
	}
	for name, call := range map[string]string{"ci.yml": ".ci/run", "release.yml": "make release "} {
		text, err := os.ReadFile("../../.github/workflows/" + name)
		if err != nil || !strings.Contains(string(text), call) {
			t.Errorf("%s does not call %s: %v", name, call, err)
		}
	}
}

func TestWhatIsWrongWithAWorkflow(t *testing.T) {
	const begin = "permissions: {contents: read}\njobs:\n  a:\n    steps:\n"
	for _, c := range []struct{ text, want string }{
		{begin + "      - run: make check", ""},
		{begin + "      - run: make chekc", "no make chekc"},
		{begin + "      - run: .ci/run", ""},
		{begin + "      - run: .ci/runs", "no program"},
		{begin + "      - uses: actions/checkout@v4", "not pinned"},
		{begin + "      - run: echo ${{ github.ref }}", "belongs into env"},
		{"jobs: {a: {steps: [{run: make check}]}}", "no permissions"},
		{"jobs: {}", "no steps"},
		{"jobs: [", "yaml"},
	} {
		got := strings.Join(wrong([]byte(c.text), "../.."), "\n")
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%q: %q, want %q", c.text, got, c.want)
		}
	}
}
