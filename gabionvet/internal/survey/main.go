// Survey runs all rules over well-known public modules, and writes what they found with a reviewer's
// verdict on each finding.
//
//	go run ./internal/survey                 # all modules of modules.txt, docs/vet-survey.md
//	go run ./internal/survey -only consul    # one, to the terminal
//
// It fetches the modules as go does. It runs them one after the other, and takes minutes.
package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strings"
	"time"

	"golang.org/x/tools/go/analysis/checker"
	"golang.org/x/tools/go/packages"

	"github.com/gabion-go/gabion/gabionvet"
)

func main() {
	only := flag.String("only", "", "look at modules whose `path` contains this, and write to the terminal")
	list := flag.String("modules", "internal/survey/modules.txt", "the `file` with modules and versions")
	said := flag.String("judged", "internal/survey/judged.txt", "the `file` with what was said of each finding")
	out := flag.String("o", "../docs/vet-survey.md", "the `file` to write")
	flag.Parse()
	if err := run(*list, *said, *out, *only); err != nil {
		fmt.Fprintln(os.Stderr, "survey:", err)
		os.Exit(1)
	}
}

func run(list, said, out, only string) error {
	modules, err := readModules(list)
	if err != nil {
		return err
	}
	var all []result
	for _, m := range modules {
		if !strings.Contains(m.path, only) {
			continue
		}
		fmt.Fprintf(os.Stderr, "%s %s\n", m.path, m.version)
		r, err := survey(m)
		if err != nil {
			fmt.Fprintf(os.Stderr, "  left out: %v\n", err)
			continue
		}
		fmt.Fprintf(os.Stderr, "  %d packages, %d lines, %d findings; %s to load, %s to look\n",
			r.packages, r.lines, len(r.findings), r.loading.Round(time.Millisecond), r.looking.Round(time.Millisecond))
		for _, f := range r.findings {
			fmt.Fprintf(os.Stderr, "  %s\n\t%s\n", f.key(), f.text)
		}
		all = append(all, r)
	}
	verdicts, err := readVerdicts(said) // now, since it may have been written in the meantime
	if err != nil {
		return err
	}
	if only != "" {
		for _, r := range all {
			for _, f := range r.findings {
				fmt.Printf("%s\t%s\n\t%s\n", f.key(), verdicts[f.key()], f.text)
			}
		}
		return nil
	}
	return os.WriteFile(out, []byte(page(all, verdicts)), 0o644) //nolint:gosec // a document
}

// module is one that is looked at.
type module struct {
	path, version string
	under         []string // the packages, below the path; none means all
}

func readModules(name string) (all []module, err error) {
	err = eachLine(name, func(words []string, _ string) error {
		if len(words) < 2 {
			return fmt.Errorf("%q: want a module and its version", words)
		}
		all = append(all, module{words[0], words[1], words[2:]})
		return nil
	})
	return all, err
}

// eachLine visits the lines of a file that are neither empty nor comments.
func eachLine(name string, visit func(words []string, line string) error) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	s := bufio.NewScanner(f)
	for s.Scan() {
		line := strings.TrimSpace(s.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		if err := visit(strings.Fields(line), line); err != nil {
			return err
		}
	}
	return s.Err()
}

// result is what was found in a module.
type result struct {
	module
	packages, lines  int
	findings         []finding
	loading, looking time.Duration
}

// finding is one place; it counts once, however many build configurations see it.
type finding struct {
	module, file string // the file's path in the module
	line         int
	id, text     string
}

func (f finding) key() string { return fmt.Sprintf("%s %s/%s:%d", f.id, f.module, f.file, f.line) }

func survey(m module) (result, error) {
	r := result{module: m}
	dir, err := os.MkdirTemp("", "survey")
	if err != nil {
		return r, err
	}
	defer os.RemoveAll(dir)
	mod := fmt.Sprintf("module survey\n\ngo 1.26.0\n\nrequire %s %s\n", m.path, m.version)
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), []byte(mod), 0o600); err != nil {
		return r, err
	}
	env := append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod -p=1")
	start := time.Now()
	cfg := &packages.Config{Mode: packages.LoadSyntax | packages.NeedModule, Dir: dir, Env: env}
	pkgs, err := packages.Load(cfg, m.patterns()...)
	if err != nil {
		return r, err
	}
	pkgs = whole(pkgs)
	r.loading = time.Since(start)
	if len(pkgs) == 0 {
		return r, fmt.Errorf("no package of it can be read")
	}
	root, err := moduleDir(dir, env, m.path)
	if err != nil {
		return r, err
	}
	start = time.Now()
	graph, err := checker.Analyze(gabionvet.Analyzers, pkgs, nil)
	if err != nil {
		return r, err
	}
	r.looking = time.Since(start)
	r.packages = len(pkgs)
	for _, p := range pkgs {
		for _, f := range p.Syntax {
			r.lines += p.Fset.File(f.Pos()).LineCount()
		}
	}
	r.findings, err = findings(graph, m, root)
	return r, err
}

func (m module) patterns() (all []string) {
	for _, u := range m.under {
		all = append(all, m.path+"/"+u)
	}
	if len(all) == 0 {
		all = []string{m.path + "/..."}
	}
	return all
}

// whole leaves out packages that do not build here, such as those for other systems.
func whole(pkgs []*packages.Package) (all []*packages.Package) {
	for _, p := range pkgs {
		if len(p.Errors) > 0 || p.IllTyped {
			fmt.Fprintf(os.Stderr, "  left out: %s: %v\n", p.PkgPath, p.Errors)
			continue
		}
		if len(p.Syntax) > 0 {
			all = append(all, p)
		}
	}
	return all
}

func moduleDir(dir string, env []string, path string) (string, error) {
	cmd := exec.CommandContext(context.Background(), "go", "list", "-m", "-f", "{{.Dir}}", path) //nolint:gosec // the list of modules is our own
	cmd.Dir, cmd.Env = dir, env
	text, err := cmd.Output()
	return strings.TrimSpace(string(text)), err
}

func findings(graph *checker.Graph, m module, root string) (all []finding, err error) {
	seen := map[string]bool{}
	for _, act := range graph.Roots {
		if act.Err != nil {
			for _, dep := range act.Deps {
				if dep.Err != nil {
					return nil, fmt.Errorf("%w: %w", act.Err, dep.Err)
				}
			}
			return nil, act.Err
		}
		for _, d := range act.Diagnostics {
			at := act.Package.Fset.Position(d.Pos)
			file, err := filepath.Rel(root, at.Filename)
			if err != nil {
				return nil, err
			}
			f := finding{m.path, filepath.ToSlash(file), at.Line, d.Category, strings.TrimPrefix(d.Message, d.Category+": ")}
			if !seen[f.key()] {
				seen[f.key()] = true
				all = append(all, f)
			}
		}
	}
	sort.Slice(all, func(i, j int) bool {
		a, b := all[i], all[j]
		if a.file != b.file {
			return a.file < b.file
		}
		return a.line < b.line || a.line == b.line && a.id < b.id
	})
	return all, nil
}
