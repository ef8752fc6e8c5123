package main

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Suite is a test suite of somebody else's module.
type Suite struct {
	Name   string
	Module string // as go.mod names it
	From   string // the directory, below the root of the repository, whose go.mod has the version

	// Put changes the copy of the module in dir so that gabion, whose repository is at root, is
	// in between.
	Put func(dir, root string) error

	// Run runs the suite in dir without the tests of skip, and says of each whether it passed.
	// Those of only are to be run alone; nil means all.
	Run func(dir string, only, skip []string) (map[string]bool, error)

	// Differences are the tests that fail with gabion and pass without, and why they may. Those
	// of Hangs would wait for what may never come, and are not run with it.
	Differences, Hangs map[string]string
}

// why is the reason for a difference, or empty.
func (s Suite) why(name string) string { return cmp.Or(s.Differences[name], s.Hangs[name]) }

// Result is what came of a suite.
type Result struct {
	Suite         Suite
	Version       string
	Without, With int      // tests that passed
	Failed        []string // that passed without gabion, and not with it
}

// Compare runs the suite without gabion and with it.
func (s Suite) Compare(root string) (r Result, err error) {
	r.Suite = s
	dir, err := os.MkdirTemp("", "upstream")
	if err != nil {
		return r, err
	}
	defer os.RemoveAll(dir)
	if r.Version, err = s.fetch(dir, root); err != nil {
		return r, err
	}
	without, err := s.Run(dir, nil, nil)
	if err != nil {
		return r, fmt.Errorf("without gabion: %w", err)
	}
	if err := s.Put(dir, root); err != nil {
		return r, err
	}
	hang := slices.Sorted(maps.Keys(s.Hangs))
	with, err := s.Run(dir, nil, hang)
	if err != nil {
		return r, fmt.Errorf("with gabion: %w", err)
	}
	for range 2 { // what a busy machine explains passes alone
		lost := slices.DeleteFunc(missing(without, with), func(name string) bool { return s.why(name) != "" })
		if len(lost) > 0 {
			alone, err := s.Run(dir, lost, nil)
			if err != nil {
				return r, fmt.Errorf("with gabion, alone: %w", err)
			}
			for name, passed := range alone {
				if passed {
					with[name] = true
				}
			}
		}
	}
	r.Without, r.With, r.Failed = passed(without), passed(with), missing(without, with)
	return r, nil
}

func passed(tests map[string]bool) (n int) {
	for _, ok := range tests {
		if ok {
			n++
		}
	}
	return n
}

// missing are the tests that passed without and not with. A test that fails because one below
// it does is none of them.
func missing(without, with map[string]bool) (names []string) {
	for name, passed := range without {
		if passed && !with[name] {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	below := func(name string) bool {
		return slices.ContainsFunc(names, func(other string) bool { return strings.HasPrefix(other, name+"/") })
	}
	var own []string
	for _, name := range names {
		if !below(name) {
			own = append(own, name)
		}
	}
	return own
}

// Problems are the differences that are not listed, and those that are and do not occur.
func (r Result) Problems() (all []string) {
	if r.Without == 0 {
		all = append(all, r.Suite.Name+": no test passed without gabion")
	}
	for _, name := range r.Failed {
		if r.Suite.why(name) == "" {
			all = append(all, fmt.Sprintf("%s: %s passes without gabion, and fails with it", r.Suite.Name, name))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.Suite.Differences)) {
		if !slices.Contains(r.Failed, name) {
			all = append(all, fmt.Sprintf("%s: %s is listed as a difference, and is none any more", r.Suite.Name, name))
		}
	}
	return all
}

// Table shows the results.
func Table(all []Result) string {
	var b strings.Builder
	b.WriteString("| suite | version | passed without gabion | passed with it | differences |\n|---|---|---|---|---|\n")
	for _, r := range all {
		fmt.Fprintf(&b, "| %s | %s | %d | %d | %d |\n", r.Suite.Name, r.Version, r.Without, r.With, len(r.Failed))
	}
	for _, r := range all {
		for i, name := range r.Failed {
			if i == 0 {
				fmt.Fprintf(&b, "\n%s:\n\n", r.Suite.Name)
			}
			why := r.Suite.why(name)
			if why == "" {
				why = "**not listed**"
			}
			fmt.Fprintf(&b, "* `%s`: %s\n", name, why)
		}
	}
	return b.String()
}

// fetch copies the module into dir.
func (s Suite) fetch(dir, root string) (version string, err error) {
	list := exec.Command("go", "list", "-m", "-json", s.Module)
	list.Dir, list.Env = filepath.Join(root, s.From), append(os.Environ(), "GOWORK=off")
	out, err := list.Output()
	if err != nil {
		return "", fmt.Errorf("go list -m %s: %w", s.Module, err)
	}
	var m struct{ Version, Dir string }
	if err := json.Unmarshal(out, &m); err != nil {
		return "", err
	}
	if m.Dir == "" {
		return "", fmt.Errorf("%s %s is not in the module cache: go mod download", s.Module, m.Version)
	}
	if err := os.CopyFS(dir, os.DirFS(m.Dir)); err != nil {
		return "", err
	}
	return m.Version, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		mode := os.FileMode(0o644) // the module cache is read-only
		if d.IsDir() {
			mode = 0o755
		}
		return os.Chmod(path, mode)
	})
}

// command runs the go command in a copy, apart from the workspace.
func command(dir string, args ...string) *exec.Cmd {
	c := exec.Command("go", args...)
	c.Dir, c.Env = dir, append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod")
	return c
}

// require lets the copy in dir use modules of the repository.
func require(dir, root string, modules ...string) error {
	args := []string{"mod", "edit"}
	for _, m := range modules {
		path := "github.com/gabion-go/gabion"
		if m != "." {
			path += "/" + m
		}
		args = append(args, "-require="+path+"@v0.0.0", "-replace="+path+"="+filepath.Join(root, m))
	}
	if out, err := command(dir, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("go mod edit: %w\n%s", err, out)
	}
	return nil
}

// insert puts text before a line of a file, which must be there once.
func insert(file, line, text string) error {
	old, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if n := bytes.Count(old, []byte(line)); n != 1 {
		return fmt.Errorf("%s has %q %d times: the suite has changed, and what puts gabion in must, too", file, line, n)
	}
	return os.WriteFile(file, bytes.Replace(old, []byte(line), []byte(text+line), 1), 0o644) //nolint:gosec // a copy that is removed
}

// goTest runs packages with go test, and says of each test whether it passed. Names are those of
// go test, after the package's below the module.
func goTest(dir, module string, packages, only, skip []string) (map[string]bool, error) {
	args := []string{"test", "-json", "-vet=off", "-count=1", "-timeout=15m"}
	if len(only) > 0 {
		args = append(args, "-run="+pattern(only))
	}
	if len(skip) > 0 {
		args = append(args, "-skip="+pattern(skip))
	}
	c := command(dir, append(args, packages...)...)
	var errs bytes.Buffer
	c.Stderr = &errs
	out, err := c.Output()
	tests := map[string]bool{}
	lines := bufio.NewScanner(bytes.NewReader(out))
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var e struct{ Action, Package, Test, Output string }
		if json.Unmarshal(lines.Bytes(), &e) != nil {
			continue
		}
		name := strings.TrimPrefix(strings.TrimPrefix(e.Package, module), "/") + ":" + e.Test
		switch {
		case e.Test == "" && e.Action == "output" && strings.Contains(e.Output, "FAIL"):
			errs.WriteString(e.Output)
		case e.Test != "" && (e.Action == "pass" || e.Action == "fail"):
			tests[name] = e.Action == "pass"
		}
	}
	if len(tests) == 0 {
		return nil, fmt.Errorf("no test ran (%w):\n%s", err, errs.String())
	}
	return tests, nil
}

// pattern is what -run and -skip want for tests of those names. Those below a subtest are
// meant with it.
func pattern(names []string) string {
	var all []string
	for _, name := range names {
		_, test, _ := strings.Cut(name, ":")
		parts := strings.Split(test, "/")
		for i, p := range parts {
			parts[i] = "^" + regexp.QuoteMeta(p) + "$"
		}
		all = append(all, strings.Join(parts[:min(len(parts), 2)], "/"))
	}
	slices.Sort(all)
	return strings.Join(slices.Compact(all), "|")
}
