package main

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

var (
	// written is a command as documents write it: in a code span, or on a line of its own.
	written  = regexp.MustCompile("(?m)(?:`|^ {4,})gabion ([a-z][^`\\n#]*)")
	oneWord  = regexp.MustCompile(`^[a-z-]+$`)
	oneFlag  = regexp.MustCompile(`^--?([a-z][a-z-]*)`)
	datedDoc = regexp.MustCompile(`docs/adr/|docs/mutation\.md`)
)

// helpOf returns a command's help text; false means that the command has none.
func helpOf(t *testing.T, args ...string) (string, bool) {
	t.Helper()
	var out, complaint bytes.Buffer
	status := run(t.Context(), append(args, "-h"), &out, &complaint)
	return out.String() + complaint.String(), status == 0
}

// wrongCommands finds commands in a text that this program does not have, and flags that
// its commands do not take.
func wrongCommands(t *testing.T, text string) (found []string) {
	t.Helper()
	for _, m := range written.FindAllStringSubmatch(text, -1) {
		words := strings.Fields(m[1])
		if !slices.ContainsFunc(root().Commands(), func(c *cobra.Command) bool { return c.Name() == words[0] }) {
			found = append(found, words[0]+" is no command: gabion "+m[1])
			continue
		}
		says, _ := helpOf(t, words[0])
		if len(words) > 1 && oneWord.MatchString(words[1]) {
			if more, ok := helpOf(t, words[:2]...); ok {
				says += more
			}
		}
		for _, w := range words {
			if f := oneFlag.FindStringSubmatch(w); f != nil && !regexp.MustCompile(`(^|[^a-z])-`+f[1]+`\b`).MatchString(says) && f[1] != "h" {
				found = append(found, w+" is no flag: gabion "+m[1])
			}
		}
	}
	return found
}

func TestCommandsOfTheDocumentsExist(t *testing.T) {
	pages := []string{"../../README.md"}
	err := filepath.WalkDir("../../docs", func(name string, _ fs.DirEntry, err error) error {
		if filepath.Ext(name) == ".md" && !datedDoc.MatchString(filepath.ToSlash(name)) {
			pages = append(pages, name)
		}
		return err
	})
	if err != nil || len(pages) < 30 {
		t.Fatalf("%d pages, %v", len(pages), err)
	}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, wrong := range wrongCommands(t, string(text)) {
			t.Errorf("%s: %s", page, wrong)
		}
	}
}

func TestWrongCommandsAreFound(t *testing.T) {
	for text, want := range map[string]string{
		"`gabion lint gabion.yaml`":               "",
		"text\n\n    gabion lab run x --seed 3\n": "",
		"the word gabion lints nothing":           "",
		"`gabion polish gabion.yaml`":             "polish is no command: gabion polish gabion.yaml",
		"`gabion lint --polish gabion.yaml`":      "--polish is no flag: gabion lint --polish gabion.yaml",
	} {
		if got := strings.Join(wrongCommands(t, text), "\n"); got != want {
			t.Errorf("%q: %s", text, got)
		}
	}
}
