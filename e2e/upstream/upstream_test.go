//go:build upstream

package upstream

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"
)

// A Suite is the tests of another project.
type Suite struct {
	Name string

	// Write writes a module for the tests into dir, with gabion in between or without, and
	// returns the directory of the package that has them.
	Write func(t *testing.T, dir string, with bool) (pkg string)

	// Env starts what the tests need, and returns how they find it. It may be nil.
	Env func(t *testing.T) []string
}

var suites = []Suite{databaseSQL, pgxPool}

// known are the tests that do not pass with gabion: suite, test, reason.
//
//go:embed known.txt
var known string

// Each suite passes with gabion what it passes without, but for what known.txt lists with its
// reason. What is listed and passes need not be listed.
func TestSuites(t *testing.T) {
	var table bytes.Buffer
	lines := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	fmt.Fprintln(lines, "suite\twithout gabion\twith gabion\tdifferences, all with a reason")
	for _, s := range suites {
		t.Run(s.Name, func(t *testing.T) {
			reasons := reasonsOf(t, s.Name)
			var env []string
			if s.Env != nil {
				env = s.Env(t)
			}
			without, with := run(t, s, env, false), run(t, s, env, true)
			if len(without) < 10 {
				t.Fatalf("only %d tests were found", len(without))
			}
			differ := 0
			for _, name := range sorted(without) {
				switch _, listed := reasons[name]; {
				case without[name].passed && !with[name].passed && listed:
					differ++
					t.Logf("%s: %s", name, reasons[name])
				case without[name].passed && !with[name].passed:
					t.Errorf("%s fails with gabion in between:\n%s", name, with[name].said)
				case listed:
					t.Errorf("%s need not be listed: without gabion it passes: %v, and with it: %v", name, without[name].passed, with[name].passed)
				}
				delete(reasons, name)
			}
			for name := range reasons {
				t.Errorf("%s is listed, and there is no such test", name)
			}
			fmt.Fprintf(lines, "%s\t%d of %d\t%d\t%d\n", s.Name, passed(without), len(without), passed(with), differ)
		})
	}
	lines.Flush()
	t.Logf("\n%s", table.String())
}

// A result is what became of a test.
type result struct {
	passed bool
	said   string
}

func passed(all map[string]result) (n int) {
	for _, r := range all {
		if r.passed {
			n++
		}
	}
	return n
}

func sorted(all map[string]result) (names []string) {
	for name := range all {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// run compiles the tests once, and runs each in a process of its own: one that panics or hangs
// says nothing about the others.
func run(t *testing.T, s Suite, more []string, with bool) map[string]result {
	t.Helper()
	dir := t.TempDir()
	pkg := s.Write(t, dir, with)
	binary := filepath.Join(dir, "suite.test")
	env := append(append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod"), more...)
	if out, err := command(5*time.Minute, pkg, env, "go", "test", "-c", "-vet=off", "-o", binary, "."); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	list, err := command(time.Minute, pkg, env, binary, "-test.list", "^Test")
	if err != nil {
		t.Fatalf("%v\n%s", err, list)
	}
	all := map[string]result{}
	var mu sync.Mutex
	var busy sync.WaitGroup
	free := make(chan struct{}, 2)
	for _, name := range strings.Fields(string(list)) {
		free <- struct{}{}
		busy.Go(func() {
			defer func() { <-free }()
			out, err := command(2*time.Minute, pkg, env, binary, "-test.run", "^"+name+"$", "-test.timeout", "90s")
			if n := len(out); n > 4000 {
				out = out[:4000]
			}
			mu.Lock()
			defer mu.Unlock()
			all[name] = result{err == nil, string(out)}
		})
	}
	busy.Wait()
	return all
}

func command(limit time.Duration, dir string, env []string, name string, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	c := exec.CommandContext(ctx, name, args...)
	c.Dir, c.Env, c.WaitDelay = dir, env, time.Second
	return c.CombinedOutput()
}

// reasonsOf reads known.txt for a suite.
func reasonsOf(t *testing.T, suite string) map[string]string {
	t.Helper()
	reasons := map[string]string{}
	for line := range strings.Lines(known) {
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		f := strings.SplitN(line, " ", 3)
		if len(f) < 3 {
			t.Fatalf("%q has no reason", line)
		}
		if f[0] == suite {
			reasons[f[1]] = f[2]
		}
	}
	return reasons
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
