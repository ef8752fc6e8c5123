package lintcmd

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gabion-go/gabion/cmd/gabion/internal/cli"
	"github.com/gabion-go/gabion/internal/lint"
)

// The texts of files. The attempts of tight can't all fit, which is a note.
const (
	tight  = "version: 1\ndependencies:\n  stock:\n    timeout: {call: 5s, attempt: 2s}\n"
	roomy  = "version: 1\ndependencies:\n  stock:\n    timeout: {call: 9s, attempt: 2s}\n"
	silent = "version: 1\ndependencies:\n  stock: # gabion:ignore G010 the last may be cut off\n    timeout: {call: 5s, attempt: 2s}\n"
	broken = "version: 1\ndependencies:\n  stock:\n    retry: {atempts: 2}\n"
)

// nested is a scenario in which two layers retry, without budgets. In tamed a comment
// ignores that.
const nested = `version: 1
title: nested
duration: 30s
clients:
  shop: {count: 4, rate: 40/s, calls: [{to: front}]}
services:
  front: {workers: 4, queue: 10, time: exp 20ms, calls: [{to: back}]}
  back: {workers: 4, queue: 10, time: exp 20ms}
policies:
  front: {retry: {attempts: 4, budget: off}}
  back: {retry: {attempts: 4, budget: off}}
`

var tamed = strings.ReplaceAll(nested, "policies:", "policies:\n  # gabion:ignore G010,G020,G070 it is an example") // at front

// folder is a folder with files. Names in it end in .yaml; "link" leads to a.yaml.
func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o640); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// ask runs the command in a folder.
func ask(t *testing.T, dir, stdin, args string) (code int, stdout, stderr string) {
	t.Helper()
	t.Chdir(dir)
	var out, problems bytes.Buffer
	r := &request{stdin: strings.NewReader(stdin)}
	code = cli.Run(t.Context(), r.command(), strings.Fields(args), &out, &problems)
	return code, out.String(), problems.String()
}

func TestWhatTheCommandSaysAndHowItEnds(t *testing.T) {
	dir := folder(t, map[string]string{
		"tight.yaml": tight, "roomy.yaml": roomy, "broken.yaml": broken, "empty.yaml": "", "cut.yaml": tight + "  pay: {retry: {attempts: 3, ba", "bytes.yaml": "\xff\x00",
		"silent.yaml": silent, "nested.yaml": nested, "tamed.yaml": tamed, "huge.yaml": "version: 1\n" + strings.Repeat("#", 1<<20),
	})
	if err := os.Symlink("tight.yaml", filepath.Join(dir, "link.yaml")); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		fact, args, stdin string
		code              int
		stdout, stderr    string // what they contain; each is empty if this is
	}{
		{"nothing is wrong", "--rules G010 roomy.yaml", "", 0, "no findings in 1 file with 1 dependency\n", ""},
		{"a note does not fail", "--rules G010 tight.yaml", "", 0, "tight.yaml:3:3: note G010: stock: 3 attempts", ""},
		{"a finding shows its line", "--rules G010 tight.yaml", "", 0, "  |   stock:\n  |   ^ write timeout.call: 9s, or ", ""},
		{"notes fail when asked to", "--rules G010 --severity note tight.yaml", "", 1, "1 note in 1 file with 1 dependency\n", ""},
		{"milder ones are not shown", "--rules G010 --severity warning tight.yaml", "", 0, "no findings in 1 file with 1 dependency\n", ""},
		{"a rule by its name", "--rules attempts-do-not-fit tight.yaml", "", 0, "G010", ""},
		{"a mistake fails", "broken.yaml", "", 1, "broken.yaml:4:13: error G000: stock: unknown key \"atempts\" in retry\n", ""},
		{"what could not be evaluated is one line", "broken.yaml", "", 1, "retry.attempts, ", ""},
		{"of one rule", "--rules G010 broken.yaml", "", 1, "not evaluated: 1 rule, for lack of retry.attempts; --verbose names each case\n", ""},
		{"each of it when asked to", "--verbose broken.yaml", "", 1, "not evaluated: G010 for broken.yaml: stock: retry.attempts: it could not be read\n", ""},
		{"two files", "--rules G010 roomy.yaml tight.yaml", "", 0, "1 note in 2 files with 2 dependencies\n", ""},
		{"what is ignored is counted", "--rules G010 --severity note silent.yaml", "", 0, "1 ignored in 1 file with 1 dependency\n", ""},
		{"a file that was cut off", "cut.yaml", "", 1, "note G010: stock", ""},
		{"an empty file", "empty.yaml", "", 1, "the file is empty", ""},
		{"bytes", "bytes.yaml", "", 1, "not UTF-8", ""},
		{"a file that is too large", "huge.yaml", "", 1, "files have at most 1 MiB", ""},
		{"the same file twice", "--rules G010 tight.yaml ./tight.yaml link.yaml", "", 0, "1 note in 1 file with 1 dependency\n", ""},
		{"standard input", "--rules G010 -", tight, 0, "stdin:3:3: note G010", ""},
		{"a scenario", "--rules G020,G070 nested.yaml", "", 1, "4 × 4 = 16 attempts at", ""},
		{"what it ignores", "--rules G020,G070 tamed.yaml", "", 1, "ignored in 1 file", ""},
		{"a scenario on standard input", "--rules G070 -", nested, 1, "stdin:", ""},
		{"a scenario with a mistake", "-", strings.Replace(nested, "queue", "queu", 1), 1, "did you mean queue?", ""},
		{"standard input, empty", "-", "", 1, "stdin:1:1: error G000: the file is empty", ""},
		{"standard input twice", "- -", "", 2, "", "standard input is named twice"},
		{"a file that is not there", "nowhere.yaml", "", 3, "", "nowhere.yaml: no such file"},
		{"the others are looked at", "nowhere.yaml broken.yaml", "", 3, "error G000", "nowhere.yaml: no such file"},
		{"a folder", ".", "", 3, "", ". is a folder: name the files in it"},
		{"no file", "", "", 2, "", "no file is named"},
		{"no such format", "--format jsn tight.yaml", "", 2, "", "did you mean json?"},
		{"no such severity", "--severity bad tight.yaml", "", 2, "", "use one of note, warning, error"},
		{"no such rule", "--rules G01O tight.yaml", "", 2, "", "did you mean G010?"},
		{"no rule", "--rules , tight.yaml", "", 2, "", "--rules names no rule"},
		{"no such flag", "--quick tight.yaml", "", 2, "", "usage: gabion lint"},
		{"a diff in JSON", "--diff --format json tight.yaml", "", 2, "", "--diff is text"},
		{"standard input can't be fixed", "--fix -", roomy, 2, "", "--diff shows what --fix would change"},
		{"a diff of standard input", "--diff --rules G010 -", roomy, 0, "no findings", ""},
		{"the rules", "--list", "", 0, "G010 note    attempts-do-not-fit: ", ""},
		{"the rules and a file", "--list tight.yaml", "", 2, "", "\"tight.yaml\" is not expected"},
		{"a page", "--explain g010", "", 0, "Who got burnt\n", ""},
		{"a page that is not there", "--explain G999", "", 2, "", "there is no rule \"G999\""},
		{"help", "-h", "", 0, "usage: gabion lint", ""},
	} {
		t.Run(c.fact, func(t *testing.T) {
			code, stdout, stderr := ask(t, dir, c.stdin, c.args)
			if code != c.code {
				t.Errorf("it ends with %d, want %d", code, c.code)
			}
			if !strings.Contains(stdout, c.stdout) || c.stdout == "" && stdout != "" {
				t.Errorf("stdout has no %q:\n%s", c.stdout, stdout)
			}
			if !strings.Contains(stderr, c.stderr) || c.stderr == "" && stderr != "" {
				t.Errorf("stderr has no %q:\n%s", c.stderr, stderr)
			}
		})
	}
}

func TestJSONHoldsEverything(t *testing.T) {
	dir := folder(t, map[string]string{"tight.yaml": tight, "broken.yaml": broken, "silent.yaml": silent})
	code, stdout, _ := ask(t, dir, "", "--format json --rules G010 broken.yaml tight.yaml silent.yaml")
	var got document
	if err := json.Unmarshal([]byte(stdout), &got); err != nil || code != 1 {
		t.Fatalf("%d, %v", code, err)
	}
	if got.Version != 1 || len(got.Findings) != 3 || got.Counts != (counted{Error: 1, Note: 1, Ignored: 1}) || got.Dependencies != 3 || fmt.Sprint(got.Files) != "[broken.yaml tight.yaml silent.yaml]" {
		t.Errorf("%+v", got)
	}
	if f := got.Findings[1]; f.Rule != "G010" || f.Line != 3 || f.Column != 3 || f.Dependency != "stock" || f.Path != "retry.attempts" || f.Severity != lint.Note || !strings.Contains(f.Page, "G010.md") {
		t.Errorf("%+v", f)
	}
	if f := got.Findings[2]; f.Ignored == nil || f.Ignored.Line != 3 || f.Ignored.Why != "the last may be cut off" {
		t.Errorf("%+v", f)
	}
	if len(got.NotEvaluated) != 1 || got.NotEvaluated[0].Missing != "retry.attempts" {
		t.Errorf("%+v", got.NotEvaluated)
	}
	if _, stdout, _ = ask(t, dir, "", "--format json --list"); !json.Valid([]byte(stdout)) {
		t.Error("--list is no JSON")
	}
	if _, stdout, _ = ask(t, dir, "", "--format json --explain G010"); !json.Valid([]byte(stdout)) || !strings.Contains(stdout, "## Why") {
		t.Error("--explain is no JSON, or has no page")
	}
}

func TestColourIsForTheSeverity(t *testing.T) {
	r := &request{color: true}
	text := r.text(r.look([]input{{name: "a.yaml", text: []byte(broken)}}))
	if !strings.Contains(text, "\x1b[31merror G000\x1b[0m") {
		t.Errorf("%q", text)
	}
}

// Every rule has its page in the program.
func TestEveryPageIsThere(t *testing.T) {
	for _, rule := range lint.Rules() {
		if code, stdout, stderr := ask(t, t.TempDir(), "", "--explain "+rule.ID); code != 0 || !strings.Contains(stdout, "\nWhy\n") {
			t.Errorf("%s: %d %s", rule.ID, code, stderr)
		}
	}
}

func TestWaitingForStandardInputCanBeInterrupted(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	stdin, end := io.Pipe()
	defer end.Close()
	r := &request{stdin: stdin}
	if code := cli.Run(ctx, r.command(), []string{"-"}, io.Discard, io.Discard); code != cli.ExitInterrupted {
		t.Errorf("it ends with %d", code)
	}
}

// Nothing that a file holds makes the command fail in another way than with findings.
func FuzzLint(f *testing.F) {
	for _, text := range []string{tight, roomy, broken, nested, silent, "{", ""} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, format := range formats {
			r := &request{stdin: bytes.NewReader(text)}
			if code := cli.Run(t.Context(), r.command(), []string{"--format", format, "-"}, io.Discard, io.Discard); code > cli.ExitFindings {
				t.Errorf("%s: it ends with %d", format, code)
			}
		}
	})
}
