package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// fate is what became of a change.
type fate int

const (
	killed fate = iota
	hung        // the tests ran out of time, which counts as killed
	survived
	uncompiled // counts as no change at all
)

// mutate tries changes of one package and prints those that survive.
func mutate(ctx context.Context, o *options, dir string, out io.Writer) error {
	all, err := changesIn(ctx, dir)
	if err != nil {
		return err
	}
	if o.at != "" {
		all = slices.DeleteFunc(all, func(c change) bool { return !c.in(strings.Fields(o.at)) })
	}
	chance := rand.New(rand.NewPCG(o.seed, 0))
	chance.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	tests := append([]string{dir}, strings.Fields(o.with)...)
	work, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	for _, pkg := range tests {
		if text, err := test(ctx, o, work, pkg, nil); err != nil {
			return fmt.Errorf("the tests of %s fail without any change: %w\n%s", pkg, err, text)
		}
	}
	var n [uncompiled + 1]int
	tried := 0
	for i := range all {
		if o.n > 0 && tried == o.n {
			break
		}
		f, err := try(ctx, o, work, tests, &all[i])
		if ctx.Err() != nil {
			fmt.Fprintf(out, "%s: the time is over\n", dir)
			break
		}
		if err != nil {
			return err
		}
		if n[f]++; f != uncompiled {
			tried++
		}
		if f == survived {
			if err := show(out, &all[i]); err != nil {
				return err
			}
		}
	}
	_, err = fmt.Fprintf(out, "%s: of %d changes %d were tried, seed %d: %d killed, %d ran out of time, %d survived (%d more did not compile)\n",
		dir, len(all), tried, o.seed, n[killed], n[hung], n[survived], n[uncompiled])
	return err
}

// changesIn returns all changes of the package in a directory.
func changesIn(ctx context.Context, dir string) (all []change, err error) {
	text, err := exec.CommandContext(ctx, "go", "list", "-f", "{{.Dir}}{{range .GoFiles}}\n{{.}}{{end}}", dir).Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	for _, name := range lines[1:] {
		found, err := changesOf(filepath.Join(strings.TrimSpace(lines[0]), strings.TrimSpace(name)))
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}

// try runs the tests on a change, one package after the other, until one fails.
func try(ctx context.Context, o *options, work string, tests []string, c *change) (fate, error) {
	src, err := os.ReadFile(c.file)
	if err != nil {
		return 0, err
	}
	changed := filepath.Join(work, "changed.go")
	if err := os.WriteFile(changed, c.apply(src), 0o600); err != nil {
		return 0, err
	}
	overlay := map[string]map[string]string{"Replace": {c.file: changed}}
	for _, pkg := range tests {
		text, err := test(ctx, o, work, pkg, overlay)
		switch {
		case err == nil:
		case bytes.Contains(text, []byte("[build failed]")) || bytes.Contains(text, []byte("[setup failed]")):
			return uncompiled, nil
		case bytes.Contains(text, []byte("panic: test timed out")):
			return hung, nil
		default:
			return killed, nil
		}
	}
	return survived, nil
}

// building is how long a package may take to build, beside what its tests may run.
const building = 2 * time.Minute

// test runs a package's tests with files replaced, and returns what they print.
func test(ctx context.Context, o *options, work, pkg string, overlay any) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, o.limit+building)
	defer cancel()
	args := []string{"test", "-short", "-count=1", "-failfast", "-vet=off", "-timeout", o.limit.String()}
	if o.run != "" {
		args = append(args, "-run", "^("+o.run+")$")
	}
	if overlay != nil {
		text, err := json.Marshal(overlay)
		if err != nil {
			return nil, err
		}
		name := filepath.Join(work, "overlay.json")
		if err := os.WriteFile(name, text, 0o600); err != nil {
			return nil, err
		}
		args = append(args, "-overlay", name)
	}
	cmd := exec.CommandContext(ctx, "go", append(args, pkg)...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // the go command then ends its tests
	cmd.WaitDelay = 10 * time.Second
	return cmd.CombinedOutput()
}

// show prints a change as its lines before and after.
func show(out io.Writer, c *change) error {
	src, err := os.ReadFile(c.file)
	if err != nil {
		return err
	}
	begin := bytes.LastIndexByte(src[:c.from], '\n') + 1
	end := len(src)
	if i := bytes.IndexByte(src[c.to:], '\n'); i >= 0 {
		end = c.to + i
	}
	name := c.file
	if here, err := os.Getwd(); err == nil {
		if rel, err := filepath.Rel(here, c.file); err == nil {
			name = filepath.ToSlash(rel)
		}
	}
	before := string(src[begin:end])
	after := string(src[begin:c.from]) + c.text + string(src[c.to:end])
	_, err = fmt.Fprintf(out, "%s:%d: %s\n%s%s", name, c.line, c.what, marked("- ", before), marked("+ ", after))
	return err
}

// in reports whether the change is in one of the places, each a file or file:line, with or
// without directories.
func (c *change) in(places []string) bool {
	file := "/" + filepath.ToSlash(c.file)
	line := fmt.Sprintf("%s:%d", file, c.line)
	return slices.ContainsFunc(places, func(at string) bool {
		return strings.HasSuffix(line, "/"+at) || strings.HasSuffix(file, "/"+at)
	})
}

// marked returns lines with a mark before each.
func marked(mark, lines string) string {
	return mark + strings.ReplaceAll(lines, "\n", "\n"+mark) + "\n"
}
