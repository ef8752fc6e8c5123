package main

import (
	"archive/zip"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// write makes files in a folder.
func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// house is a small repository like this one.
var house = map[string]string{
	"go.work":              "go 1.26.0\n\nuse (\n\t./cmd/gabion\n\t.\n\t./contrib/store\n\t./e2e\n\t./examples/x\n\t./e2e/release\n\t./lab\n)\n",
	"go.mod":               "module " + prefix + "\n\ngo 1.26.0\n",
	"a.go":                 "package gabion\n",
	"contrib/store/go.mod": "module " + prefix + "/contrib/store\n\ngo 1.26.0\n\nrequire " + prefix + " v0.0.0-00010101000000-000000000000\n\nreplace " + prefix + " => ../..\n",
	"contrib/store/s.go":   "package store\n",
	"cmd/gabion/go.mod":    "module " + prefix + "/cmd/gabion\n\ngo 1.26.0\n\nrequire (\n\t" + prefix + " v0.0.0\n\t" + prefix + "/contrib/store v0.0.0\n)\n\nreplace (\n\t" + prefix + " => ../..\n\t" + prefix + "/contrib/store => ../../contrib/store\n)\n",
	"cmd/gabion/main.go":   "package main\n\nfunc main() {}\n",
	"lab/go.mod":           "module " + prefix + "/lab\n\ngo 1.26.0\n\nrequire " + prefix + " v0.0.0\n\nreplace " + prefix + " => ..\n",
	"lab/lab.go":           "package lab\n",
	"e2e/go.mod":           "module " + prefix + "/e2e\n",
	"examples/x/go.mod":    "module " + prefix + "/examples/x\n",
	"e2e/release/go.mod":   "module " + prefix + "/e2e/release\n",
}

func TestModulesAreReleasedAfterThoseThatTheyRequire(t *testing.T) {
	src, proxy := t.TempDir(), t.TempDir()
	write(t, src, house)
	modules, err := readModules(src)
	if err != nil {
		t.Fatal(err)
	}
	var tags []string
	for _, m := range modules {
		tags = append(tags, m.tag("v0.3.0"))
	}
	if want := []string{"v0.3.0", "contrib/store/v0.3.0", "lab/v0.3.0", "cmd/gabion/v0.3.0"}; !slices.Equal(tags, want) {
		t.Errorf("tags %v, want %v", tags, want)
	}
	if err := rewrite(src, proxy, modules, "v0.3.0", io.Discard); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"contrib/store/go.mod", "lab/go.mod", "cmd/gabion/go.mod"} {
		text, err := os.ReadFile(filepath.Join(src, name))
		if err != nil || strings.Contains(string(text), "replace") || strings.Contains(string(text), "v0.0.0") || !strings.Contains(string(text), prefix+" v0.3.0") {
			t.Errorf("%s: %v\n%s", name, err, text)
		}
	}
	sums, err := os.ReadFile(filepath.Join(src, "cmd/gabion/go.sum"))
	if err != nil || strings.Count(string(sums), "\n") != 4 {
		t.Errorf("go.sum: %v\n%s", err, sums)
	}
	z, err := zip.OpenReader(filepath.Join(proxy, prefix, "@v", "v0.3.0.zip"))
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	for _, f := range z.File {
		if strings.Contains(f.Name, "contrib") || strings.Contains(f.Name, "lab/") || strings.Contains(f.Name, "cmd/") {
			t.Errorf("the root's zip has %s of another module", f.Name)
		}
	}
}

func TestModulesThatCannotBeReleased(t *testing.T) {
	for _, c := range []struct{ fact, name, text, want string }{
		{"one that requires a test's module", "contrib/store/go.mod", "module " + prefix + "/contrib/store\n\nrequire " + prefix + "/e2e v0.0.0\n", "not released"},
		{"one that replaces a stranger", "contrib/store/go.mod", "module " + prefix + "/contrib/store\n\nreplace example.com/x => ../x\n", "users of it would not get"},
	} {
		src := t.TempDir()
		write(t, src, house)
		write(t, src, map[string]string{c.name: c.text})
		modules, err := readModules(src)
		if err == nil {
			err = rewrite(src, t.TempDir(), modules, "v0.3.0", io.Discard)
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.fact, err)
		}
	}
}

func TestAReleaseWantsACleanTreeAndAHeading(t *testing.T) {
	for _, c := range []struct {
		fact, changes string
		dirty         bool
		want          []string
	}{
		{"all is well", "# Changelog\n\n## v0.3.0\n", false, nil},
		{"no heading", "# Changelog\n\n## v0.3.01\n", false, []string{"no heading ## v0.3.0"}},
		{"files that are not committed", "## v0.3.0\n", true, []string{"not clean"}},
		{"both", "", true, []string{"no heading", "not clean"}},
	} {
		dir := t.TempDir()
		write(t, dir, map[string]string{"CHANGELOG.md": c.changes})
		for _, args := range [][]string{{"init", "-q"}, {"add", "-A"}, {"-c", "user.name=t", "-c", "user.email=t@example.invalid", "commit", "-q", "-m", "m"}} {
			if out, err := exec.Command("git", append([]string{"-C", dir}, args...)...).CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
		}
		if c.dirty {
			write(t, dir, map[string]string{"new.go": "package p\n"})
		}
		err := ready(dir, "v0.3.0")
		if (err == nil) != (c.want == nil) {
			t.Errorf("%s: %v", c.fact, err)
		}
		for _, want := range c.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q", c.fact, err, want)
			}
		}
	}
}

func TestVersions(t *testing.T) {
	for version, ok := range map[string]bool{"v0.3.0": true, "v1.0.0-rc.1": true, "0.3.0": false, "v0.3": false, "v2.0.0": false, "": false, "v0.03.0": false} {
		if form.MatchString(version) != ok {
			t.Errorf("%q: %v", version, !ok)
		}
	}
}
