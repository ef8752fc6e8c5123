package house

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/build"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// module is what the import paths of this repository's packages begin with. Its modules are called
// by their directories.
const module = "github.com/gabion-go/gabion"

// stubs are what a fragment on a page may take for granted. All else that it does not declare has
// no type, which the compiler's checks pass over.
const stubs = `
var (
	ctx context.Context
	err error
	t *testing.T
	w http.ResponseWriter
	r *http.Request
	db *sql.DB
	p policy.Policy
)
`

// usual are the packages that pages use without an import, beside those of this repository.
var usual = map[string]string{
	"bytes": "bytes", "context": "context", "errors": "errors", "fmt": "fmt", "http": "net/http", "io": "io", "log": "log", "os": "os",
	"rand": "math/rand/v2", "slog": "log/slog", "sql": "database/sql", "strconv": "strconv", "strings": "strings", "sync": "sync",
	"synctest": "testing/synctest", "testing": "testing", "time": "time",
}

// pageFiles has the positions of all that is read for pages, and goPackages reads packages of Go once.
var (
	pageFiles  = token.NewFileSet()
	goPackages = sync.OnceValue(func() types.Importer {
		build.Default.CgoEnabled = false // of package net, only what is declared counts
		if build.Default.GOROOT == "" {  // the test was built with -trimpath
			root, _ := exec.Command("go", "env", "GOROOT").Output()
			build.Default.GOROOT = strings.TrimSpace(string(root))
		}
		return importer.ForCompiler(pageFiles, "source", nil)
	})
)

// A pageImporter reads packages of a tree, and those of Go. Others are unknown, and what is used of
// them is taken for right.
type pageImporter struct {
	fsys  fs.FS
	own   map[string]string // import path to directory
	names map[string]string // what a page calls a package to its import path; empty where two are called that
	done  map[string]*types.Package
}

func newPageImporter(fsys fs.FS) (*pageImporter, error) {
	im := &pageImporter{fsys: fsys, own: map[string]string{}, names: map[string]string{}, done: map[string]*types.Package{}}
	err := walk(fsys, func(name string) error {
		dir := path.Dir(name)
		if path.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go") || im.own[path.Join(module, dir)] != "" {
			return nil
		}
		text, err := fs.ReadFile(fsys, name)
		if err != nil {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.PackageClauseOnly)
		if err != nil {
			return err
		}
		im.own[path.Join(module, dir)] = dir
		if called := file.Name.Name; called != "main" && !unpublished.MatchString("/"+dir+"/") {
			if _, twice := im.names[called]; twice {
				im.names[called] = ""
			} else {
				im.names[called] = path.Join(module, dir)
			}
		}
		return nil
	})
	return im, err
}

// unpublished are the packages that no page means.
var unpublished = regexp.MustCompile(`/(internal|e2e|examples)/`)

// Import implements types.Importer.
func (im *pageImporter) Import(name string) (*types.Package, error) {
	if p := im.done[name]; p != nil {
		return p, nil
	}
	dir, own := im.own[name]
	if !own {
		if first, _, _ := strings.Cut(name, "/"); strings.Contains(first, ".") {
			return nil, fmt.Errorf("%s is another module's", name)
		}
		return goPackages().Import(name)
	}
	entries, err := fs.ReadDir(im.fsys, dir)
	if err != nil {
		return nil, err
	}
	var files []*ast.File
	for _, e := range entries {
		if path.Ext(e.Name()) != ".go" || strings.HasSuffix(e.Name(), "_test.go") {
			continue
		}
		text, err := fs.ReadFile(im.fsys, path.Join(dir, e.Name()))
		if err != nil {
			return nil, err
		}
		file, err := parser.ParseFile(pageFiles, path.Join(dir, e.Name()), text, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		files = append(files, file)
	}
	config := types.Config{Importer: im, IgnoreFuncBodies: true, Error: func(error) {}} // files for other systems declare the same
	p, _ := config.Check(name, pageFiles, files, nil)
	im.done[name] = p
	return p, nil
}

// A snippet is Go on a page.
type snippet struct {
	page string
	line int
	text string
	also map[string]string // what the page calls other packages
}

// at is how a snippet's first line is called in messages.
func (s *snippet) at() string { return fmt.Sprintf("%s:%d", s.page, s.line) }

// shapes are what may stand around a fragment. The first that makes it a file is taken.
var shapes = []struct{ before, after string }{
	{"", ""}, {"package p\n", "\n"}, {"package p\nfunc _() {\n", "\n}\n"}, {"package p\nvar _ = ", "\n"}, {"package p\nvar _ = fragment{\n", "\n}\n"},
}

// file makes a file of a snippet. It is nil if nothing makes it one.
func (im *pageImporter) file(s *snippet) (file *ast.File, whole bool, err error) {
	text := strings.ReplaceAll(s.text, "…", "")
	for _, shape := range shapes {
		from := fmt.Sprintf("//line %s:%d\n", s.page, s.line)
		before := shape.before
		if i := strings.LastIndex(before, "\n"); i >= 0 {
			before = before[:i+1] + from + before[i+1:]
		} else {
			before = from
		}
		var failed error
		if file, failed = parser.ParseFile(pageFiles, "snippet.go", before+text+shape.after, parser.SkipObjectResolution); failed == nil {
			return file, shape.before == "", nil
		}
		err = cmp.Or(err, failed)
	}
	return nil, false, err
}

// check returns what is wrong with a snippet.
func (im *pageImporter) check(s *snippet) (found []string) {
	file, whole, err := im.file(s)
	if err != nil {
		return []string{s.at() + ": it is no Go: " + err.Error()}
	}
	files := []*ast.File{file}
	if !whole {
		im.imports(file, s)
		more, err := parser.ParseFile(pageFiles, "stubs.go", "package p\n"+stubs, parser.SkipObjectResolution)
		if err != nil {
			return []string{err.Error()}
		}
		im.imports(more, &snippet{})
		files = append(files, more)
	}
	config := types.Config{Importer: im, Error: func(err error) {
		e, ok := err.(types.Error)
		if ok && !allowed(e.Msg) {
			at := pageFiles.Position(e.Pos)
			found = append(found, fmt.Sprintf("%s:%d: %s", at.Filename, at.Line, e.Msg))
		}
	}}
	_, _ = config.Check("p", pageFiles, files, nil)
	return found
}

// imports adds the packages that a fragment uses.
func (im *pageImporter) imports(file *ast.File, s *snippet) {
	if len(file.Imports) > 0 {
		return
	}
	used := map[string]bool{}
	ast.Inspect(file, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok && ast.IsExported(sel.Sel.Name) {
			if x, ok := sel.X.(*ast.Ident); ok {
				used[x.Name] = true
			}
		}
		return true
	})
	all := &ast.GenDecl{Tok: token.IMPORT}
	for name := range used {
		from := cmp.Or(s.also[name], usual[name], im.names[name])
		if from == "" {
			continue
		}
		one := &ast.ImportSpec{Name: ast.NewIdent(name), Path: &ast.BasicLit{Kind: token.STRING, Value: strconv.Quote(from)}}
		all.Specs, file.Imports = append(all.Specs, one), append(file.Imports, one)
	}
	if len(all.Specs) > 0 {
		file.Decls = append([]ast.Decl{all}, file.Decls...)
	}
}

// free are names that a fragment does not declare.
var free = regexp.MustCompile(`^undefined: \w+$`)

// allowed reports whether a complaint is about what a fragment leaves out.
func allowed(complaint string) bool {
	for _, part := range []string{"declared and not used", "is not used", "too many return values", "not enough return values", "missing return", "could not import", "imported and not used", "(type) is not an expression"} {
		if strings.Contains(complaint, part) {
			return true
		}
	}
	return free.MatchString(complaint)
}

// call is a call in prose of something that a package has.
var call = regexp.MustCompile("`(&?[a-z]+\\.[A-Z][^`]*[({][^`]*[)}])`")

// elsewhere says, in a comment of a page, which packages of others it means: <!-- go: config=path -->.
var elsewhere = regexp.MustCompile(`(?m)^<!-- go: (.*) -->$`)

// snippets are the Go of a page: its blocks, and calls in its prose.
func snippets(name, text string) (all []snippet) {
	also := map[string]string{}
	for _, m := range elsewhere.FindAllStringSubmatch(text, -1) {
		for one := range strings.FieldsSeq(m[1]) {
			called, from, _ := strings.Cut(one, "=")
			also[called] = from
		}
	}
	inside := map[int]bool{}
	for _, b := range parseMarkdown(text).blocks {
		for i := range len(b.text) + 2 {
			inside[b.line+i] = true
		}
		if b.language == "go" {
			all = append(all, snippet{name, b.line + 1, strings.Join(b.text, "\n"), also})
		}
	}
	for i, line := range strings.Split(text, "\n") {
		for _, m := range call.FindAllStringSubmatch(line, -1) {
			if _, err := parser.ParseExpr(m[1]); err == nil && !inside[i+1] {
				all = append(all, snippet{name, i + 1, m[1], also})
			}
		}
	}
	return all
}

// uncompiled finds Go on pages that does not compile, as far as its own packages tell.
func uncompiled(fsys fs.FS) (found []string, err error) {
	im, err := newPageImporter(fsys)
	if err != nil {
		return nil, err
	}
	return found, walk(fsys, func(name string) error {
		if path.Ext(name) != ".md" || dated.MatchString(name) || proven.MatchString(name) && name != "README.md" {
			return nil
		}
		text, err := fs.ReadFile(fsys, name)
		for _, s := range snippets(name, string(text)) {
			found = append(found, im.check(&s)...)
		}
		slices.Sort(found)
		found = slices.Compact(found)
		return err
	})
}

func TestTheGoOfEveryPageCompiles(t *testing.T) {
	t.Run("all pages", func(t *testing.T) {
		keep(t, uncompiled, `What a page shows compiles. A block may leave out its imports, and names that it does not declare have no type. Where a
page means another package than one of this repository that is called the same, a comment says so: <!-- go: config=path -->.`)
	})

	own := "package bank\n\nimport \"context\"\n\n// Charge charges.\nfunc Charge(ctx context.Context, amount int) error { return nil }\n\n// Options are options.\ntype Options struct{ Limit int }\n"
	prove(t, uncompiled, []specimen{
		{"fragments that leave out imports, declarations and the use of results", map[string]string{
			"bank/bank.go": own,
			"docs/a.md": "`bank.Charge(ctx, 1)`, `bank.Options{Limit: 3}`, `bank.Gone` and `gone.Gone(1)`\n```go\no := bank.Options{Limit: limit}\n…\nerr := bank.Charge(ctx, amount(o))\n```\n" +
				"```go\nLimit: func() int { return 3 },\n```\n```go\nfunc work() error { return bank.Charge(ctx, 1) }\n```\n```sh\nno Go\n```\n",
			"docs/b.md": "<!-- go: bank=example.com/bank -->\n```go\nbank.Other(1)\n```\n",
		}, nil},
		{"what the package does not have", map[string]string{
			"bank/bank.go": own, "docs/a.md": "x\n```go\no := bank.Options{\n\tMost: 3,\n}\nbank.Refund(ctx)\nbank.Charge(ctx)\n```\n`bank.Charge(err, 1)`\n", "README.md": "```go\nif x {\n```\n",
		}, []string{"README.md:2: it is no Go", "docs/a.md:4: unknown field Most", "docs/a.md:6: undefined: bank.Refund", "docs/a.md:7: not enough arguments", "docs/a.md:9: cannot use err"}},
		{"what an adapter's own module has", map[string]string{
			"contrib/teller/go.mod": "", "contrib/teller/t.go": strings.Replace(own, "package bank", "package teller", 1), "docs/a.md": "```go\nerr = teller.Charge(ctx, \"1\")\n```\n",
		}, []string{"docs/a.md:2: cannot use"}},
		{"an error that stands in the prose of two lines is found once for each", map[string]string{
			"bank/bank.go": own, "docs/a.md": "`bank.Charge(ctx)`\n`bank.Charge(ctx)`\n",
		}, []string{"docs/a.md:1: not enough", "docs/a.md:2: not enough"}},
	})
}
