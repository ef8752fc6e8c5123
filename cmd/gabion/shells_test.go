package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/gabion-go/gabion/cmd/gabion/internal/cli"
)

// Everything that help says fits in 80 columns.
func TestHelpFitsIn80Columns(t *testing.T) {
	cli.Walk(root(), func(c *cobra.Command) {
		for line := range strings.Lines(cli.Help(c)) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 80 {
				t.Errorf("%s -h has %d columns: %s", c.CommandPath(), n, line)
			}
		}
	})
}

// describedFlag is a flag at the beginning of a line of a help, or after another.
var describedFlag = regexp.MustCompile(`(?m)(?:^ +|^ +--[a-z, -]*, )--?([a-z][a-z0-9-]*)`)

// Each command and each flag says what it is for, and the help has no flag that does not exist.
func TestEveryCommandAndFlagIsDescribed(t *testing.T) {
	commands, flags := 0, 0
	takes := map[string]map[string]bool{} // by help: several commands may share one
	cli.Walk(root(), func(c *cobra.Command) {
		commands++
		help := cli.Help(c)
		if c.Short == "" || c.Name() != "help" && !strings.Contains(help, "usage: gabion") {
			t.Errorf("%s does not say what it is for:\n%s", c.CommandPath(), help)
		}
		if takes[help] == nil {
			takes[help] = map[string]bool{"h": true}
		}
		c.Flags().VisitAll(func(f *pflag.Flag) {
			flags++
			takes[help][f.Name], takes[help][f.Shorthand] = true, true
			if f.Usage == "" {
				t.Errorf("%s: the help does not say what --%s is for", c.CommandPath(), f.Name)
			}
		})
	})
	for help, known := range takes {
		for _, m := range describedFlag.FindAllStringSubmatch(help, -1) {
			if !known[m[1]] {
				t.Errorf("%s is no flag of\n%s", m[1], help)
			}
		}
	}
	if commands < 40 || flags < 200 {
		t.Errorf("only %d commands and %d flags were looked at", commands, flags)
	}
}

// completed are command lines whose last word is being typed, and what may stand there. Cobra
// says it to the scripts of all shells in the same way.
var completed = map[string][]string{
	"conf":                 {"config"},
	"config ":              {"check", "print", "explain"},
	"config ex":            {"explain"},
	"config print --d":     {"--dependency"},
	"config print -f x --": {"--dependency", "--help", "--reveal"},
	"lab run --rep":        {"--replications", "--report"},
	"demo --p":             {"--page", "--picture", "--plan", "--print-plan"},
	"completion z":         {"zsh"},
	"help la":              {"lab"},
	"help lab tour":        {"tournament"},
	"deadletter re":        {"redrive", "redrives", "resolve"},
	"outbox discard --y":   {"--yes"},
	"lint --nothing":       {},
}

func TestWhatIsCompleted(t *testing.T) {
	for typed, want := range completed {
		var stdout, stderr bytes.Buffer
		if code := run(t.Context(), append([]string{"__complete"}, strings.Split(typed, " ")...), &stdout, &stderr); code != 0 {
			t.Errorf("%s: %d, %s", typed, code, &stderr)
		}
		got := []string{}
		for line := range strings.Lines(stdout.String()) {
			word, about, _ := strings.Cut(strings.TrimSpace(line), "\t")
			if !strings.HasPrefix(word, ":") && strings.HasPrefix(word, typed[strings.LastIndex(typed, " ")+1:]) { // as shells filter
				got = append(got, word)
			}
			if !strings.HasPrefix(word, ":") && about == "" && !strings.HasPrefix(typed, "completion") && !strings.HasPrefix(typed, "help") {
				t.Errorf("gabion %s: nothing is said about %s", typed, word)
			}
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("gabion %s is completed with %q, want %q", typed, got, want)
		}
	}
}

// scriptOf writes a completion into a file.
func scriptOf(t *testing.T, shell string) (path string) {
	t.Helper()
	var script, stderr bytes.Buffer
	if code := run(t.Context(), []string{"completion", shell}, &script, &stderr); code != 0 {
		t.Fatalf("%s: %d, %s", shell, code, &stderr)
	}
	path = filepath.Join(t.TempDir(), "completion")
	if err := os.WriteFile(path, script.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Each shell that is installed can read its script.
func TestShellsReadTheirScripts(t *testing.T) {
	for _, shell := range shells {
		path := scriptOf(t, shell)
		program, err := exec.LookPath(shell)
		if err != nil {
			t.Logf("%s is not installed", shell)
			continue
		}
		if out, err := exec.Command(program, "-n", path).CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", shell, err, out)
		}
	}
}

func TestBashCompletes(t *testing.T) {
	if testing.Short() {
		t.Skip("long: the command is built")
	}
	const library = "/usr/share/bash-completion/bash_completion"
	if _, err := os.Stat(library); err != nil {
		if os.Getenv("GABION_REQUIRE_SERVERS") == "1" && runtime.GOOS == "linux" {
			t.Fatal("bash-completion is not installed: make servers installs it")
		}
		t.Skip("bash-completion is not installed")
	}
	gabion, err := builtGabion()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("bash", "--norc", "-c", "source "+library+"; source "+scriptOf(t, "bash")+
		"; COMP_LINE='gabion config ex' COMP_POINT=16 COMP_WORDS=(gabion config ex) COMP_CWORD=2; __start_gabion; printf '%s\\n' \"${COMPREPLY[@]}\"")
	cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(gabion)+string(os.PathListSeparator)+os.Getenv("PATH"))
	// compopt complains on standard error that no shell asks.
	if out, err := cmd.Output(); err != nil || strings.TrimSpace(string(out)) != "explain" {
		t.Errorf("%v, %q", err, out)
	}
}

// The manual page names every command and flag, and troff has nothing to say.
func TestManualPage(t *testing.T) {
	page := cli.Man(root(), "v1.2.3")
	for _, want := range []string{".TH GABION 1", "gabion config explain", `\-\-dependency NAME`, ".SS gabion lab run", ".SS gabion outbox discard", "gabion v1.2.3", ".SH EXIT STATUS"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page has no %q", want)
		}
	}
	groff, err := exec.LookPath("groff")
	if err != nil {
		if os.Getenv("GABION_REQUIRE_SERVERS") == "1" {
			t.Fatal("groff is not installed: make servers installs it")
		}
		t.Skip("groff is not installed")
	}
	cmd := exec.Command(groff, "-man", "-Tutf8", "-ww", "-rLL=80n", "-K", "utf8")
	cmd.Stdin = strings.NewReader(page)
	var warnings bytes.Buffer
	cmd.Stderr = &warnings
	if _, err := cmd.Output(); err != nil || warnings.Len() > 0 {
		t.Errorf("%v, %s", err, &warnings)
	}
}
