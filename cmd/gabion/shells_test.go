package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/gabion-go/gabion/cmd/gabion/internal/shell"
)

// Everything that help says fits in 80 columns.
func TestHelpFitsIn80Columns(t *testing.T) {
	seen := 0
	for _, c := range tree() {
		seen++
		for line := range strings.Lines(c.Help) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 80 {
				t.Errorf("gabion %s -h has %d columns: %s", strings.Join(c.Words, " "), n, line)
			}
		}
	}
	if seen < 14 {
		t.Errorf("only %d commands were asked", seen)
	}
}

// The words and flags that are completed are those that the help names, and the
// commands take them.
func TestWhatIsCompletedExists(t *testing.T) {
	all := map[string]shell.Command{}
	for _, c := range tree() {
		all[strings.Join(c.Words, " ")] = c
	}
	for words, want := range map[string][]string{
		"page":         {"--speed", "--from", "--run", "--listen", "-h"},
		"explain":      {"--call", "--policy", "--json", "-h"},
		"":             {"demo", "config", "explain", "page", "schema", "lab", "completion", "man", "version"},
		"config":       {"check", "explain", "print"},
		"lab":          {"run", "list", "show", "explain", "tournament", "opponents", "verify", "anchor"},
		"config print": {"-f", "--dependency", "--reveal", "-h"},
		"demo":         {"--seconds", "--seed", "--config", "--json", "--ledgers", "--into"},
		"lab run":      {"--against", "--report", "--map", "--record", "--record-of"},
		"completion":   {"-h"},
		"lab anchor":   {"--set", "--json"},
		"config check": {"-f"},
		"lab explain":  {"--fleet", "--client", "--from", "--to"},
		"version":      {"-h"},

		"deadletter":         {"ls", "show", "redrive", "redrives", "stop", "resolve", "drop", "export", "stats"},
		"deadletter redrive": {"--rate", "--dry-run", "--follow", "--group", "--since", "--store"},
		"deadletter resolve": {"--as", "--note", "--by"},
		"outbox":             {"ls", "retry", "discard", "stats"},
		"outbox discard":     {"--topic", "--all", "--yes", "--store"},
		"lab show":           {"--schema"},
		"schema":             {"-h"},
	} {
		c, ok := all[words]
		if !ok {
			t.Errorf("gabion %s is not known", words)
		}
		for _, w := range want {
			if !slices.Contains(append(c.Next, c.Flags()...), w) {
				t.Errorf("after gabion %s, %s is not completed", words, w)
			}
		}
	}
	for words, c := range all {
		for _, f := range c.Flags() {
			var out bytes.Buffer
			run(t.Context(), append(strings.Fields(words), f, "-h", "-h"), &out, &out)
			if words != "" && strings.Contains(out.String(), "not defined") && c.Help != all[strings.Fields(words)[0]].Help {
				t.Errorf("gabion %s does not know %s", words, f)
			}
		}
	}
}

// script writes a completion into a file, or skips the test where there is no such
// shell.
func script(t *testing.T, name string) (program, path string) {
	t.Helper()
	program, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("%s is not installed", name)
	}
	path = filepath.Join(t.TempDir(), "completion")
	if err := os.WriteFile(path, []byte(tree().Completion(name)), 0o600); err != nil {
		t.Fatal(err)
	}
	return program, path
}

var completed = []struct {
	typed string // the last word is being typed; "" begins a new one
	want  string // the completions, in alphabetical order, or some of them
}{
	{"conf", "config"},
	{"config ", "--dependency --json --live --reveal --why -f -h check explain print"},
	{"config ex", "explain"},
	{"config print --d", "--dependency"},
	{"config print -f x --r", "--reveal"},
	{"lab run --rep", "--replications --report"},
	{"demo --se", "--seconds --seed"},
	{"completion z", ""},
}

func TestBashCompletes(t *testing.T) {
	bash, path := script(t, "bash")
	for _, c := range completed {
		words := strings.Split("gabion "+c.typed, " ")
		for i, w := range words {
			words[i] = "'" + w + "'"
		}
		cmd := "source " + path + "; COMP_WORDS=(" + strings.Join(words, " ") + "); COMP_CWORD=$((${#COMP_WORDS[@]}-1)); _gabion; printf '%s\n' \"${COMPREPLY[@]}\" | sort"
		check(t, c.typed, c.want, exec.Command(bash, "--norc", "-c", cmd))
	}
}

func TestFishCompletes(t *testing.T) {
	fish, path := script(t, "fish")
	for _, c := range completed {
		check(t, c.typed, c.want, exec.Command(fish, "--no-config", "-c", "source "+path+"; complete -C 'gabion "+c.typed+"' | sort"))
	}
}

// zsh completes only where somebody types; what would be offered is asked for.
func TestZshCompletes(t *testing.T) {
	zsh, path := script(t, "zsh")
	for _, c := range completed {
		words := strings.Split("gabion "+c.typed, " ")
		for i, w := range words {
			words[i] = "'" + w + "'"
		}
		last := words[len(words)-1]
		cmd := "compdef() {}; _files() {}; compadd() { shift; for w in \"$@\"; do case $w in (" + strings.Trim(last, "'") + "*) print -r -- $w ;; esac; done }; " +
			"source " + path + "; words=(" + strings.Join(words, " ") + "); CURRENT=${#words}; _gabion | sort"
		check(t, c.typed, c.want, exec.Command(zsh, "-f", "-c", cmd))
	}
}

func check(t *testing.T, typed, want string, cmd *exec.Cmd) {
	t.Helper()
	cmd.Dir = t.TempDir() // no files to complete
	out, err := cmd.CombinedOutput()
	if got := strings.Join(strings.Fields(string(out)), " "); err != nil || !strings.Contains(got, want) || want != "" && strings.Count(got, " ") > strings.Count(want, " ")+3 {
		t.Errorf("gabion %s is completed with %q, want %q (%v)", typed, got, want, err)
	}
}

func TestPowerShellCompletes(t *testing.T) {
	text := tree().Completion("powershell")
	for _, want := range []string{"Register-ArgumentCompleter -Native -CommandName gabion", "'config' = 'check explain print "} {
		if !strings.Contains(text, want) {
			t.Errorf("the script has no %q:\n%s", want, text)
		}
	}
	if strings.Count(text, "{") != strings.Count(text, "}") {
		t.Error("braces don't match")
	}
}

// The manual page names every command and flag, and troff has nothing to say.
func TestManualPage(t *testing.T) {
	page := tree().Man("v1.2.3")
	for _, want := range []string{".TH GABION 1", "gabion config explain", `\-\-dependency NAME`, ".SS gabion lab run", "gabion v1.2.3", ".SH EXIT STATUS"} {
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
