package house

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// fakeDiff stands in for apidiff where that is not built: it knows one function.
const fakeDiff = `#!/bin/sh
[ "$2" = -w ] || grep -q 'func Old()' *.go || echo "- Old: removed"
`

// A change is what a repository becomes after a commit.
type change map[string]string

// .ci/api fails on an incompatible change that the CHANGELOG does not name.
func TestAnIncompatibleChangeIsInTheChangelog(t *testing.T) {
	bash := needBash(t)
	programs := map[string]string{"fake": filepath.Join(t.TempDir(), "apidiff")}
	if err := os.WriteFile(programs["fake"], []byte(fakeDiff), 0o755); err != nil {
		t.Fatal(err)
	}
	built, err := filepath.Abs("../../bin/tools/apidiff")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(built); err == nil {
		programs["apidiff"] = built
	}
	script, err := os.ReadFile("../../.ci/api")
	if err != nil {
		t.Fatal(err)
	}
	first := change{
		".ci/api": string(script), "go.mod": "module example.com/m\n\ngo 1.26.0\n", "m.go": "package m\n\nfunc Old() {}\n",
		"api.txt": "pkg m, func Old()\n", "CHANGELOG.md": "# Changelog\n\n## Unreleased\n\nHTTP:\n\n* Something.\n\nChanged:\n\n* Long ago.\n\n## v0.1.0\n",
	}
	added := change{"m.go": "package m\n\nfunc Old() {}\n\nfunc New() {}\n", "api.txt": "pkg m, func New()\npkg m, func Old()\n"}
	gone := change{"m.go": "package m\n\nfunc New() {}\n", "api.txt": "pkg m, func New()\n"}
	nothing := change{"m.go": "package m\n\nfunc New() { _ = 0 }\n"}
	told := change{"CHANGELOG.md": strings.Replace(first["CHANGELOG.md"], "* Long ago.", "* Long ago.\n* Old is gone.", 1)}
	broken := maps.Clone(first)
	broken["m.go"] = "package m\n\nimport _ \"example.com/nowhere\"\n\nfunc Old() {}\n"
	elsewhere := change{"CHANGELOG.md": strings.Replace(first["CHANGELOG.md"], "* Something.", "* Old is gone.", 1) + "\nChanged:\n\n* Old is gone.\n"}
	for _, c := range []struct {
		fact    string
		commits []change
		tag     string // of the first commit
		dirty   change // not committed
		fails   bool
		text    string
	}{
		{"there is nothing to compare with", []change{first}, "", nil, false, "skipped"},
		{"a name is added", []change{first, added}, "", nil, false, "Compatible with"},
		{"a name is gone", []change{first, gone}, "", nil, true, "- Old: removed"},
		{"a name is gone, not yet committed", []change{first}, "", gone, true, "- Old: removed"},
		{"a name is gone, and a later commit changes no API", []change{first, gone, nothing}, "", nil, true, "FAIL"},
		{"a name is gone since the last version", []change{first, gone, added, gone}, "v0.1.0", nil, true, "FAIL"},
		{"a name is gone and comes back after the last version", []change{first, gone, added}, "v0.1.0", nil, false, "Compatible with"},
		{"the CHANGELOG says it with the change", []change{first, gone, told}, "", nil, false, "- Old: removed"},
		{"the CHANGELOG says it, not yet committed", []change{first}, "v0.1.0", change{"m.go": gone["m.go"], "CHANGELOG.md": told["CHANGELOG.md"]}, false, "- Old: removed"},
		{"the CHANGELOG says it under another heading", []change{first, gone, elsewhere}, "", nil, true, "FAIL"},
		{"what was there before could not be built", []change{broken, gone}, "", nil, false, "not compared"},
	} {
		for name, program := range programs {
			if name == "fake" && c.text == "not compared" {
				continue // it compares texts
			}
			t.Run(c.fact+", by "+name, func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				git(t, dir, "init", "-q")
				for i, files := range c.commits {
					lay(t, dir, files)
					git(t, dir, "add", "-A")
					git(t, dir, "-c", "user.name=t", "-c", "user.email=t@example.invalid", "commit", "-q", "-m", "m")
					if i == 0 && c.tag != "" {
						git(t, dir, "tag", c.tag)
					}
				}
				lay(t, dir, c.dirty)
				cmd := exec.CommandContext(t.Context(), bash, filepath.Join(dir, ".ci/api"))
				cmd.Env = append(os.Environ(), "APIDIFF="+program)
				out, err := cmd.CombinedOutput()
				if (err != nil) != c.fails || !strings.Contains(string(out), c.text) {
					t.Errorf("%v, fails %t, want %q in:\n%s", err, c.fails, c.text, out)
				}
			})
		}
	}
}

func git(t *testing.T, dir string, args ...string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), "git", append([]string{"-C", dir}, args...)...).CombinedOutput(); err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
}

func lay(t *testing.T, dir string, files change) {
	t.Helper()
	for name, text := range files {
		at := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
}
