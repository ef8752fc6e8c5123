package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"
)

// The entry points of gabion lint are run here as pre-commit and GitHub run them.

const (
	cleanPolicy  = "version: 1\ndependencies: {}\n"
	brokenPolicy = "version: 1\ndependencies:\n  db: {saef: true}\n"
)

// ran runs a command in a folder, with nothing on its standard input.
func ran(t *testing.T, dir string, env []string, name string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), env...)
	var out, problems bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problems
	var failed *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &failed) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), problems.String()
}

// policies is a folder with files.
func policies(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"gabion.yaml": cleanPolicy, "conf/gabion.yml": brokenPolicy, "a b.yaml": brokenPolicy, "-x.yaml": cleanPolicy} {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// pre-commit splits the entry at blanks, finds its program in the PATH, and adds the files
// that the pattern takes.
func TestThePreCommitHooks(t *testing.T) {
	if testing.Short() {
		t.Skip("long: the command is built")
	}
	text, err := os.ReadFile("../../.pre-commit-hooks.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var hooks []struct {
		ID, Name, Description, Entry, Language, Files string
		Additional                                    []string `yaml:"additional_dependencies"`
		Serial                                        bool     `yaml:"require_serial"`
	}
	if err := yaml.Unmarshal(text, &hooks); err != nil || len(hooks) != 2 {
		t.Fatalf("%d hooks, %v", len(hooks), err)
	}
	gabion, err := builtGabion()
	if err != nil {
		t.Fatal(err)
	}
	dir := policies(t)
	path := "PATH=" + filepath.Dir(gabion) + string(os.PathListSeparator) + os.Getenv("PATH")
	for _, h := range hooks {
		takes := regexp.MustCompile(h.Files)
		for name, want := range map[string]bool{"gabion.yaml": true, "conf/gabion.yml": true, "notgabion.yaml": false, "gabion.yaml.bak": false} {
			if takes.MatchString(name) != want {
				t.Errorf("%s: %s is taken: %v", h.ID, name, !want)
			}
		}
		entry := strings.Fields(h.Entry)
		if h.ID == "" || h.Name == "" || h.Description == "" || !h.Serial || entry[0] != "gabion" {
			t.Errorf("%+v", h)
		}
		for args, want := range map[string]int{"gabion.yaml": 0, "gabion.yaml conf/gabion.yml": 1} {
			run := append([]string{filepath.Join(filepath.Dir(gabion), entry[0])}, append(entry[1:], strings.Fields(args)...)...)
			code, stdout, stderr := ran(t, dir, []string{path}, run[0], run[1:]...)
			if code != want || want == 1 && !strings.Contains(stdout, "conf/gabion.yml:3:8: error G000: db: unknown key \"saef\"") {
				t.Errorf("%s %s ends with %d: %s%s", h.Entry, args, code, stdout, stderr)
			}
		}
	}
	// It runs go install ./... and go install of each additional dependency in a checkout.
	if hooks[0].Language != "golang" || len(hooks[0].Additional) != 1 || hooks[1].Language != "system" {
		t.Fatalf("%+v", hooks)
	}
	code, stdout, stderr := ran(t, "../..", nil, "go", "list", "-f", "{{.Name}} {{.ImportPath}}", hooks[0].Additional[0])
	if code != 0 || stdout != "main github.com/gabion-go/gabion/cmd/gabion\n" {
		t.Errorf("%s would be installed: %s%s", hooks[0].Additional[0], stdout, stderr)
	}
}

// The step is run with the variables that the runner makes of inputs.
func TestTheLintAction(t *testing.T) {
	if testing.Short() {
		t.Skip("long: the command is built")
	}
	text, err := os.ReadFile("../../.github/action/lint/action.yml")
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
	if err := yaml.Unmarshal(text, &action); err != nil || len(action.Runs.Steps) != 2 || action.Runs.Using != "composite" {
		t.Fatalf("%+v, %v", action, err)
	}
	step := action.Runs.Steps[1]
	if step.ID != "lint" || step.Shell != "bash" || strings.Contains(step.Run, "${{") || !strings.Contains(action.Outputs["sarif"].Value, "steps.lint.outputs.sarif") {
		t.Errorf("%+v", step)
	}
	gabion, err := builtGabion()
	if err != nil {
		t.Fatal(err)
	}
	folder, err := filepath.Abs("../../.github/action/lint")
	if err != nil {
		t.Fatal(err)
	}
	used := map[string]bool{}
	env := func(dir string, inputs map[string]string) []string {
		vars := []string{"GABION=" + gabion, "GITHUB_OUTPUT=" + filepath.Join(dir, "output")}
		for name, value := range step.Env {
			input := regexp.MustCompile(`^\$\{\{ inputs\.([a-z]+) \}\}$`).FindStringSubmatch(value)
			switch {
			case value == "${{ github.action_path }}":
				value = folder
			case input == nil:
				t.Fatalf("%s is %s", name, value)
			default:
				used[input[1]] = true
				value = action.Inputs[input[1]].Default
				if v, ok := inputs[input[1]]; ok {
					value = v
				}
			}
			vars = append(vars, name+"="+value)
		}
		return vars
	}
	for _, c := range []struct {
		fact         string
		inputs       map[string]string
		code         int
		says, output string
	}{
		{"nothing is wrong", nil, 0, "no findings in 1 file", ""},
		{"a mistake", map[string]string{"files": "gabion.yaml\nconf/gabion.yml\n"}, 1, "::error file=conf/gabion.yml,line=3,col=8,title=G000 broken::db: unknown key \"saef\"", ""},
		{"a name with a blank", map[string]string{"files": "a b.yaml"}, 1, "::error file=a b.yaml,line=3", ""},
		{"a name with a dash", map[string]string{"files": "-x.yaml\r\n"}, 0, "no findings in 1 file", ""},
		{"SARIF", map[string]string{"files": "a b.yaml", "sarif": "out.sarif", "severity": "error", "rules": "G000"}, 1, "::error file=a b.yaml", "sarif=out.sarif\n"},
		{"no file", map[string]string{"files": "\n"}, 2, "::error::no file is named", ""},
		{"a file that is not there", map[string]string{"files": "nowhere.yaml"}, 3, "::error::gabion lint: open nowhere.yaml", ""},
		{"a severity that a shell would obey", map[string]string{"severity": "$(touch pwned)"}, 2, "::error::gabion lint: --severity", ""},
		{"a file that a shell would obey", map[string]string{"files": "`touch pwned`;touch pwned"}, 3, "::error::", ""},
	} {
		t.Run(c.fact, func(t *testing.T) {
			dir := policies(t)
			code, stdout, stderr := ran(t, dir, env(dir, c.inputs), "bash", "-c", step.Run)
			output, _ := os.ReadFile(filepath.Join(dir, "output")) // which need not be there
			if code != c.code || !strings.Contains(stdout, c.says) || string(output) != c.output {
				t.Errorf("it ends with %d and the outputs %q: %s%s", code, output, stdout, stderr)
			}
			if _, err := os.Stat(filepath.Join(dir, "pwned")); err == nil {
				t.Error("an input was run")
			}
			if c.output != "" {
				if sarif, err := os.ReadFile(filepath.Join(dir, "out.sarif")); err != nil || !strings.Contains(string(sarif), `"2.1.0"`) {
					t.Errorf("%s, %v", sarif, err)
				}
			}
		})
	}
	for name, in := range action.Inputs {
		if !used[name] || in.Description == "" {
			t.Errorf("the input %s is not handed over, or not described", name)
		}
	}
}
