package house

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
)

const modulePath = "github.com/gabion-go/gabion"

// home is the repository.
func home() fs.FS { return os.DirFS("../..") }

// A source is one parsed Go file.
type source struct {
	name string // path from the root of the tree
	ast  *ast.File
}

func (s source) isTest() bool { return strings.HasSuffix(s.name, "_test.go") }

// A pack is the Go files of one directory of the house.
type pack struct {
	dir   string // path from the root of the tree; "." is the front door
	files []source
}

// code returns the files that users get: no tests.
func (p pack) code() []source {
	return slices.DeleteFunc(slices.Clone(p.files), source.isTest)
}

// internal reports whether users can't import the package.
func (p pack) internal() bool {
	return strings.HasPrefix(p.dir+"/", "internal/") || strings.Contains(p.dir, "/internal/")
}

// A tree is the house, parsed.
type tree struct {
	fset  *token.FileSet
	packs []pack
}

// at formats a finding so that editors jump to it.
func (t *tree) at(pos token.Pos, format string, args ...any) string {
	p := t.fset.Position(pos)
	return fmt.Sprintf("%s:%d: %s", p.Filename, p.Line, fmt.Sprintf(format, args...))
}

// parse reads every Go file of the root module and of those that are housed. Other nested modules are not
// its business.
func parse(fsys fs.FS) (*tree, error) {
	t := &tree{fset: token.NewFileSet()}
	byDir := map[string]*pack{}
	err := walk(fsys, func(name string) error {
		if path.Ext(name) != ".go" || nested(fsys, path.Dir(name)) {
			return nil
		}
		text, err := fs.ReadFile(fsys, name)
		if err != nil {
			return err
		}
		file, err := parser.ParseFile(t.fset, name, text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		dir := path.Dir(name)
		if byDir[dir] == nil {
			byDir[dir] = &pack{dir: dir}
		}
		byDir[dir].files = append(byDir[dir].files, source{name, file})
		return nil
	})
	for _, p := range byDir {
		t.packs = append(t.packs, *p)
	}
	slices.SortFunc(t.packs, func(a, b pack) int { return strings.Compare(a.dir, b.dir) })
	return t, err
}

// walk calls visit for each file that belongs to the project, in a fixed order.
func walk(fsys fs.FS, visit func(name string) error) error {
	return fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && foreign(name):
			return fs.SkipDir
		case d.Type().IsRegular():
			return visit(name)
		}
		return nil
	})
}

// foreign names the directories that hold nothing of ours.
func foreign(dir string) bool {
	base := path.Base(dir)
	return base == "testdata" || base == "node_modules" || base == "vendor" || dir == "bin" ||
		(base != "." && strings.HasPrefix(base, ".")) || strings.HasPrefix(base, "_")
}

// housed are modules of their own below the root one that are rooms of the house all the same.
var housed = []string{"lab", "messages"}

// moduleOf returns the directory of the house's module that dir belongs to.
func moduleOf(dir string) string {
	if top, _, _ := strings.Cut(dir, "/"); slices.Contains(housed, top) {
		return top
	}
	return "."
}

// nested reports whether dir belongs to a module below the root one that the house
// does not look after.
func nested(fsys fs.FS, dir string) bool {
	for ; dir != "." && !slices.Contains(housed, dir); dir = path.Dir(dir) {
		if _, err := fs.Stat(fsys, dir+"/go.mod"); err == nil {
			return true
		}
	}
	return false
}

// imported returns the path of an import.
func imported(spec *ast.ImportSpec) string {
	name, err := strconv.Unquote(spec.Path.Value)
	if err != nil {
		return spec.Path.Value
	}
	return name
}

// ours returns the directory of one of our own packages, and whether it is one.
func ours(importPath string) (dir string, ok bool) {
	if importPath == modulePath {
		return ".", true
	}
	return strings.CutPrefix(importPath, modulePath+"/")
}

// thirdParty reports whether an import is neither ours nor the standard
// library's, whose paths have no dot in their first element.
func thirdParty(importPath string) bool {
	if _, mine := ours(importPath); mine {
		return false
	}
	head, _, _ := strings.Cut(importPath, "/")
	return strings.Contains(head, ".")
}

// A rule returns what breaks it, one finding a line, most of them with file and
// line in front.
type rule func(fsys fs.FS) ([]string, error)

// overCode makes a rule of one that reads Go.
func overCode(check func(*tree) []string) rule {
	return func(fsys fs.FS) ([]string, error) {
		t, err := parse(fsys)
		if err != nil {
			return nil, err
		}
		return check(t), nil
	}
}

// keep runs a rule over the repository.
func keep(t *testing.T, r rule, advice string) {
	t.Helper()
	found, err := r(home())
	if err != nil {
		t.Fatal(err)
	}
	if len(found) > 0 {
		slices.Sort(found)
		t.Errorf("%s\n\n%s", strings.Join(found, "\n"), advice)
	}
}

// A specimen is a small tree and what a rule must say about it; with nothing to
// say it is a tree that the rule must accept.
type specimen struct {
	fact  string
	files map[string]string
	want  []string // each is part of one finding, in the findings' sorted order
}

// prove runs a rule over specimens: a rule that finds nothing keeps nothing.
func prove(t *testing.T, r rule, specimens []specimen) {
	t.Helper()
	for _, s := range specimens {
		t.Run(s.fact, func(t *testing.T) {
			found, err := r(grow(s.files))
			if err != nil {
				t.Fatal(err)
			}
			slices.Sort(found)
			match := func(finding, part string) bool { return strings.Contains(finding, part) }
			if !slices.EqualFunc(found, s.want, match) {
				t.Errorf("found\n\t%s\nwant\n\t%s", strings.Join(found, "\n\t"), strings.Join(s.want, "\n\t"))
			}
		})
	}
}

func grow(files map[string]string) fs.FS {
	fsys := fstest.MapFS{}
	for name, text := range files {
		fsys[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return fsys
}

// missing reports whether a file is not there, which is a reason to skip and not
// to fail.
func missing(fsys fs.FS, name string) bool {
	_, err := fs.Stat(fsys, name)
	return err != nil
}
