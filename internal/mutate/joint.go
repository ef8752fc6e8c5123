package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A joint holds all changes of a list in one build, each behind a switch: so a package is
// built once, and not once for each change.
type joint struct {
	work string            // where the built tests are
	dirs map[string]string // where the tests of a package run, by its name
	bins map[string]string // the built tests of a package, by its name

	took map[string]time.Duration // by the named tests of a package without any change
}

// switchName is the variable of the environment that switches one change on, by its number.
const switchName = "GABION_MUTANT"

// buildJoint builds the tests of all packages that a list names, with all its changes.
func buildJoint(ctx context.Context, work string, list []listed) (*joint, error) {
	overlay, err := jointOverlay(work, list)
	if err != nil {
		return nil, err
	}
	j := &joint{work: work, dirs: map[string]string{}, bins: map[string]string{}, took: map[string]time.Duration{}}
	for _, l := range list {
		if j.bins[l.pkg] != "" {
			continue
		}
		dir, err := exec.CommandContext(ctx, "go", "list", "-f", "{{.Dir}}", l.pkg).Output()
		if err != nil {
			return nil, fmt.Errorf("go list %s: %w", l.pkg, err)
		}
		bin := filepath.Join(work, strconv.Itoa(len(j.bins))+".test")
		if text, err := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-overlay", overlay, "-o", bin, l.pkg).CombinedOutput(); err != nil {
			return nil, fmt.Errorf("%sgo test -c %s: %w\n%s", uncompiledOf(list, text), l.pkg, err, text)
		}
		j.dirs[l.pkg], j.bins[l.pkg] = strings.TrimSpace(string(dir)), bin
	}
	return j, nil
}

// uncompiledOf returns the listed changes of which the compiler complains.
func uncompiledOf(list []listed, said []byte) (lines string) {
	for i := range list {
		if bytes.Contains(said, []byte(placeOf(i)+":")) {
			lines += "it does not compile: " + list[i].line + "\n"
		}
	}
	return lines
}

// placeOf is what the compiler takes for the file of a change.
func placeOf(number int) string { return "mutant-" + strconv.Itoa(number) }

// slower is how many times as long the tests may take on a busy machine as they usually do.
const slower = 10

// test runs the tests that a listed change names, with a change of that number, or with
// none if it is negative. On a busy machine both take longer: a change has the limit, and more
// where its tests took long without it.
func (j *joint) test(ctx context.Context, o *options, l *listed, number int) ([]byte, error) {
	limit := max(o.limit, slower*j.took[l.pkg+" "+l.run])
	if number < 0 {
		limit = slower * o.limit
	}
	ctx, cancel := context.WithTimeout(ctx, limit+10*time.Second)
	defer cancel()
	args := []string{"-test.short", "-test.timeout", limit.String()}
	if !o.tell {
		args = append(args, "-test.failfast")
	}
	if l.run != "" {
		args = append(args, "-test.run", "^("+l.run+")$")
	}
	cmd := exec.CommandContext(ctx, j.bins[l.pkg], args...)
	cmd.Dir = j.dirs[l.pkg]
	cmd.Env = append(os.Environ(), switchName+"="+strconv.Itoa(number))
	cmd.WaitDelay = 10 * time.Second
	return cmd.CombinedOutput()
}

// jointOverlay writes the files with all changes, and returns the overlay that puts them in place.
func jointOverlay(work string, list []listed) (name string, err error) {
	replace := map[string]string{}
	files := map[string][]int{}
	for i, l := range list {
		files[l.file] = append(files[l.file], i)
	}
	for file, numbers := range files {
		text, pkg, err := jointFile(file, list, numbers)
		if err != nil {
			return "", err
		}
		changed := filepath.Join(work, strconv.Itoa(len(replace))+".go")
		replace[file] = changed
		if err := os.WriteFile(changed, text, 0o600); err != nil {
			return "", err
		}
		switches := filepath.Join(filepath.Dir(file), "mutant_switch.go")
		if replace[switches] != "" {
			continue
		}
		changed = filepath.Join(work, strconv.Itoa(len(replace))+".go")
		replace[switches] = changed
		source := fmt.Sprintf("package %s\n\nimport \"os\"\n\nvar mutantSwitch = os.Getenv(%q)\n", pkg, switchName)
		if err := os.WriteFile(changed, []byte(source), 0o600); err != nil {
			return "", err
		}
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	name = filepath.Join(work, "joint.json")
	return name, os.WriteFile(name, text, 0o600)
}

// jointFile returns a file in which each function that is changed begins with its changed
// forms, of which the switch picks one.
func jointFile(file string, list []listed, numbers []int) (text []byte, pkg string, err error) {
	src, err := os.ReadFile(file)
	if err != nil {
		return nil, "", err
	}
	set := token.NewFileSet()
	tree, err := parser.ParseFile(set, file, src, parser.SkipObjectResolution)
	if err != nil {
		return nil, "", err
	}
	offset := func(p token.Pos) int { return set.Position(p).Offset }
	type insert struct {
		at   int
		text string
	}
	var inserts []insert
	for _, n := range numbers {
		c := &list[n].change
		f := funcAround(tree, offset, c.from, c.to)
		if f == nil {
			return nil, "", fmt.Errorf("%s: a change has to be in a function", list[n].line)
		}
		begin, end := offset(f.Body.Lbrace)+1, offset(f.Body.Rbrace)
		body := string(src[begin:c.from]) + c.text + string(src[c.to:end])
		form := fmt.Sprintf(" func() { %s\n}(); return };", body)
		if r := f.Type.Results; r != nil {
			form = fmt.Sprintf(" return func() %s { %s\n}() };", src[offset(r.Pos()):offset(r.End())], body)
		}
		back := set.Position(f.Body.Lbrace + 1)
		inserts = append(inserts, insert{begin, fmt.Sprintf("/*line %s:1:1*/if mutantSwitch == %q {", placeOf(n), strconv.Itoa(n)) + form +
			fmt.Sprintf("/*line %s:%d:%d*/", file, back.Line, back.Column)})
	}
	slices.SortStableFunc(inserts, func(a, b insert) int { return b.at - a.at })
	for _, in := range inserts {
		src = slices.Concat(src[:in.at], []byte(in.text), src[in.at:])
	}
	return src, tree.Name.Name, nil
}

// funcAround returns the declared function that has these bytes in its body.
func funcAround(tree *ast.File, offset func(token.Pos) int, from, to int) *ast.FuncDecl {
	for _, d := range tree.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Body != nil && offset(f.Body.Lbrace) < from && to <= offset(f.Body.Rbrace) {
			return f
		}
	}
	return nil
}

// span returns where a function of that name is in the file, or a method as Type.Name.
func span(file string, src []byte, name string) (begin, end int, err error) {
	set := token.NewFileSet()
	tree, err := parser.ParseFile(set, file, src, parser.SkipObjectResolution)
	if err != nil {
		return 0, 0, err
	}
	for _, d := range tree.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		full := f.Name.Name
		if f.Recv != nil {
			begin, end := set.Position(f.Recv.List[0].Type.Pos()).Offset, set.Position(f.Recv.List[0].Type.End()).Offset
			owner, _, _ := strings.Cut(strings.TrimPrefix(string(src[begin:end]), "*"), "[")
			full = owner + "." + full
		}
		if full == name {
			return set.Position(f.Pos()).Offset, set.Position(f.End()).Offset, nil
		}
	}
	return 0, 0, fmt.Errorf("%s has no function %s", file, name)
}

// fateOf says what became of a change whose tests ended like that.
func fateOf(text []byte, err error) fate {
	switch {
	case err == nil:
		return survived
	case bytes.Contains(text, []byte("panic: test timed out")):
		return hung
	}
	return killed
}
