package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gabion-go/gabion/internal/testgolden"
)

// words splits a command as a shell does, with double quotes.
func words(line string) (all []string) {
	for _, m := range regexp.MustCompile(`"([^"]*)"|(\S+)`).FindAllStringSubmatch(line, -1) {
		all = append(all, m[1]+m[2])
	}
	return all
}

// What docs/linting.md shows is what its commands print, with the files that it shows.
func TestTheOutputInLinting(t *testing.T) {
	const name = "../../docs/linting.md"
	page, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	target, err := filepath.Abs(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	shown := 0
	blocks := regexp.MustCompile("(?s)```(yaml|console)\n(.*?)```\n")
	now := blocks.ReplaceAllStringFunc(string(page), func(block string) string {
		m := blocks.FindStringSubmatch(block)
		if m[1] == "yaml" {
			if file, text, ok := strings.Cut(strings.TrimPrefix(m[2], "# file: "), "\n"); ok && file+"\n"+text != m[2] {
				if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			return block
		}
		shown++
		var out bytes.Buffer
		for _, line := range regexp.MustCompile(`(?m)^\$ gabion (.*)$`).FindAllStringSubmatch(m[2], -1) {
			out.WriteString(line[0] + "\n")
			if code := run(t.Context(), words(line[1]), &out, &out); code > 1 {
				t.Errorf("%s ends with %d", line[0], code)
			}
		}
		text := strings.ReplaceAll(out.String(), time.Now().UTC().Format(time.DateOnly), "2026-03-02")
		return "```console\n" + text + "```\n"
	})
	if shown < 3 {
		t.Errorf("only %d commands are shown", shown)
	}
	testgolden.File(t, target, now)
}
