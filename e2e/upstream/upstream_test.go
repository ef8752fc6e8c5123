//go:build upstream

package upstream

import (
	"bytes"
	"context"
	_ "embed"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// A Suite is the tests of another project.
type Suite struct {
	Name string

	// Version says whose tests they are. It may be nil: they are those of the Go that runs them.
	Version func(t *testing.T) string

	// Write writes a module for the tests into dir, with gabion in between or without. It returns
	// the directory of the package that has them, and what go test needs to compile them.
	Write func(t *testing.T, dir string, with bool) (pkg string, flags []string)

	// Env starts what a run of the tests needs, and returns how they find it. It may be nil.
	Env func(t *testing.T) []string

	// Run runs the tests. The zero value runs each alone.
	Run runner
}

var suites = []Suite{databaseSQL, netHTTP, pgxPool, goRedis, grpcGo, grpcInterop}

// known are the tests that do not pass with gabion: suite, test, reason. Spaces in the name of a
// test are written as underscores.
//
//go:embed known.txt
var known string

// page is where the table goes. Its counts depend on the versions of Go and of the servers.
var page = flag.String("write", "", "write the table into this file")

// Each suite passes with gabion what it passes without, but for what known.txt lists with its
// reason. What is listed and passes need not be listed.
func TestSuites(t *testing.T) {
	var table, differences bytes.Buffer
	var named []string
	for _, s := range suites {
		named = append(named, s.Name)
	}
	listed, err := readKnown(known, named)
	if err != nil {
		t.Fatalf("known.txt: %v", err)
	}
	ran := 0
	for _, s := range suites {
		t.Run(s.Name, func(t *testing.T) {
			began := time.Now()
			ran++
			reasons := listed[s.Name]
			without := run(t, s, reasons, nil)
			with := run(t, s, reasons, without)
			did := len(without) - count(without, skipped)
			if did < 10 {
				t.Fatalf("only %d tests have run", did)
			}
			differ, wrong := compare(without, with, reasons)
			for _, w := range wrong {
				t.Error(w)
			}
			fmt.Fprintf(&table, "| %s | %s | %d of %d | %d | %d |\n", s.Name, version(t, s), count(without, passed), did, count(with, passed), len(differ))
			if len(differ) > 0 {
				fmt.Fprintf(&differences, "\n%s:\n\n", s.Name)
			}
			for _, name := range differ {
				fmt.Fprintf(&differences, "* `%s`: %s\n", name, reasons[name])
			}
			t.Logf("%v", time.Since(began).Round(time.Second))
		})
	}
	text := tableHead + table.String() + differences.String()
	t.Logf("\n%s", text)
	if *page != "" && !t.Failed() && ran == len(suites) { // not only those that -run names
		old, err := os.ReadFile(*page)
		head, _, found := strings.Cut(string(old), tableHead)
		if err != nil || !found {
			t.Fatalf("%s has no table (%v)", *page, err)
		}
		write(t, *page, head+text)
	}
}

const tableHead = "| suite | version | passed without gabion | passed with it | differences |\n|---|---|---|---|---|\n"

// version is that of the tests.
func version(t *testing.T, s Suite) string {
	if s.Version == nil {
		return strings.Fields(runtime.Version())[0]
	}
	return s.Version(t)
}

// module finds a module that an adapter's go.mod requires.
func module(t *testing.T, adapter, path string) (version, dir string) {
	t.Helper()
	f := strings.Fields(output(t, adapter, "go", "list", "-m", "-f", "{{.Version}} {{.Dir}}", path))
	if len(f) != 2 {
		t.Fatalf("%s is not in the module cache: go mod download", path)
	}
	return f[0], f[1]
}

// count returns how many tests are in a state.
func count(all map[string]result, in state) (n int) {
	for _, r := range all {
		if r.state == in {
			n++
		}
	}
	return n
}

// run compiles the tests once and runs them: with gabion in between where without tells what
// came of them before.
func run(t *testing.T, s Suite, reasons map[string]string, without map[string]result) map[string]result {
	t.Helper()
	var more []string
	if s.Env != nil {
		more = s.Env(t) // servers of its own, which the other run left nothing at
	}
	dir := t.TempDir()
	pkg, flags := s.Write(t, dir, without != nil)
	binary := filepath.Join(dir, "suite.test")
	env := append(append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod"), more...)
	build := append(append([]string{"test", "-c", "-vet=off", "-o", binary}, flags...), ".")
	began := time.Now()
	if out, err := command(5*time.Minute, pkg, env, "go", build...); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("compiled in %v", time.Since(began).Round(time.Second))
	var expected []string
	for name, r := range without {
		if r.state == passed {
			expected = append(expected, name)
		}
	}
	return s.Run.all(t, program{path: binary, dir: pkg, env: env}, slices.Sorted(maps.Keys(reasons)), expected)
}

func command(limit time.Duration, dir string, env []string, name string, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	c := exec.CommandContext(ctx, name, args...)
	c.Dir, c.Env, c.WaitDelay = dir, env, time.Second
	return c.CombinedOutput()
}

// root is the directory of the repository.
func root(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// output returns what a command prints.
func output(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	c := exec.Command(name, args...)
	c.Dir, c.Stderr = dir, os.Stderr
	out, err := c.Output()
	if err != nil {
		t.Fatalf("%s %v: %v", name, args, err)
	}
	return strings.TrimSpace(string(out))
}

// copyGo copies the Go files of a directory that keep wants, as change makes them.
func copyGo(t *testing.T, from, to string, keep func(name string) bool, change func(name, text string) string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(from, "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s has no Go files: %v", from, err)
	}
	for _, file := range files {
		name := filepath.Base(file)
		if !keep(name) {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(to, name), change(name, string(text)))
	}
}

// copyModule copies a whole module, with files that can be changed.
func copyModule(t *testing.T, from, to string) {
	t.Helper()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	err := filepath.WalkDir(to, func(path string, d os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			return os.Chmod(path, 0o700)
		}
		return os.Chmod(path, 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// require lets the module in dir use modules of this repository.
func require(t *testing.T, dir string, modules ...string) {
	t.Helper()
	args := []string{"mod", "edit"}
	for _, m := range modules {
		path := filepath.ToSlash(filepath.Join("github.com/gabion-go/gabion", m))
		args = append(args, "-require="+path+"@v0.0.0", "-replace="+path+"="+filepath.Join(root(t), m))
	}
	output(t, dir, "go", args...)
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// swap replaces what must be there once.
func swap(t *testing.T, text, old, new string) string {
	t.Helper()
	if n := strings.Count(text, old); n != 1 {
		t.Fatalf("the suite has changed: %q is there %d times", old, n)
	}
	return strings.Replace(text, old, new, 1)
}
