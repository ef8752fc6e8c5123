package gabionvet_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/packages"

	"github.com/gabion-go/gabion/gabionvet"
)

// standard has the packages that the code of the fuzz target may import.
var standard = sync.OnceValues(func() (map[string]*types.Package, error) {
	names := []string{"net/http", "context", "database/sql", "time", "errors", "fmt", "io", "bytes", "math/rand/v2", "net", "log"}
	pkgs, err := packages.Load(&packages.Config{Mode: packages.NeedName | packages.NeedTypes | packages.NeedExportFile | packages.NeedImports}, names...)
	all := map[string]*types.Package{}
	for _, p := range pkgs {
		all[p.PkgPath] = p.Types
	}
	return all, err
})

type importer map[string]*types.Package

func (i importer) Import(path string) (*types.Package, error) {
	if p := i[path]; p != nil {
		return p, nil
	}
	return nil, fmt.Errorf("no package %q", path)
}

// runAll runs the rules over code as it is, type errors and all.
func runAll(t testing.TB, src string) {
	std, err := standard()
	if err != nil {
		t.Fatal(err)
	}
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, "a.go", src, parser.ParseComments)
	if f == nil || err != nil {
		return // go vet reads no file that does not parse
	}
	info := &types.Info{
		Types: map[ast.Expr]types.TypeAndValue{}, Defs: map[*ast.Ident]types.Object{}, Uses: map[*ast.Ident]types.Object{},
		Implicits: map[ast.Node]types.Object{}, Instances: map[*ast.Ident]types.Instance{}, Scopes: map[ast.Node]*types.Scope{},
		Selections: map[*ast.SelectorExpr]*types.Selection{}, FileVersions: map[*ast.File]string{},
	}
	conf := types.Config{Importer: importer(std), Error: func(error) {}, FakeImportC: true}
	pkg, _ := conf.Check("p", fset, []*ast.File{f}, info)
	pass := &analysis.Pass{
		Analyzer: gabionvet.Everything, Fset: fset, Files: []*ast.File{f}, Pkg: pkg, TypesInfo: info, TypesSizes: types.SizesFor("gc", "amd64"),
		ResultOf: map[*analysis.Analyzer]any{}, Report: func(d analysis.Diagnostic) {
			for _, fix := range d.SuggestedFixes {
				for _, e := range fix.TextEdits {
					if !e.Pos.IsValid() || e.End < e.Pos {
						t.Errorf("%s: an edit from %d to %d", d.Message, e.Pos, e.End)
					}
				}
			}
		},
		ReadFile: os.ReadFile,
	}
	for _, a := range gabionvet.Prerequisites() {
		result, err := a.Run(pass)
		if err != nil {
			t.Fatal(err)
		}
		pass.ResultOf[a] = result
	}
	if _, err := gabionvet.Everything.Run(pass); err != nil {
		t.Fatal(err)
	}
}

// strange is code that rules could trip over.
var strange = []string{
	"package p\nfunc f[T any, E ~[]T](e E) { for { x, err := g[T](e); if err == nil { _ = x; return } } }\nfunc g[T any](any) (t T, err error) { return }",
	"package p\nimport \"C\"\nfunc f() { C.puts(nil); for { if err := C.get(); err == nil { break } } }",
	"package p\nimport \"net/http\"\nfunc f() { L: for { resp, err := http.Get(u); if err != nil { goto L }; switch { case resp.StatusCode/0 == 1: fallthrough; default: continue L } } }",
	"package p\nimport \"context\"\nfunc f(ctx context.Context) { ctx, _ = context.WithTimeout(); _, _ = context.WithCancel(ctx); var g func() = g; g() }",
	"package p\nimport \"net/http\"\nvar _ = http.Server{1, 2}\nvar _ = &http.Client{Timeout}\nvar _ = http.Transport{nil: nil}\nfunc (http.Client) Do()",
	"package p\nfunc f() { for range undefined() { defer x.y.z() }; select {}; if err := f; err == nil {} else if true {} }",
	"package p\nimport . \"net/http\"\nfunc init() { r, _ := NewRequest(); DefaultClient.Do(r); _, err := Get(); switch err { case nil: } }",
	"package p\nimport \"time\"\nfunc f(ds []time.Duration) { for i, time.Sleep = range ds { time.Sleep(ds[i]) } }",
	"package p\n//gabion:ignore\n//gabion:ignore G1 x\n//gabion:ignore G999,G101 x\nfunc f()",
	"package p\ntype T = T\ntype I interface{ I }\nfunc (t T) m() { t.m(); T.m(t) }",
	"package p\nfunc f() { x := func() { x() }; x = x; for a, b := range func(yield func(int, error) bool) {} { a(b) } }",
	"package p\nimport \"fmt\"\nfunc f(err error) error { return fmt.Errorf(\"%[1]v %*d %\", err) }",
}

// FuzzRules runs the rules over code that may be broken. go vet gives them none that is, and
// they must not end a build over it all the same.
func FuzzRules(f *testing.F) {
	for _, src := range strange {
		f.Add(src)
	}
	names, _ := filepath.Glob("testdata/src/*/*.go")
	for _, name := range names {
		src, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(src))
	}
	all, err := pages()
	if err != nil {
		f.Fatal(err)
	}
	for _, p := range all {
		f.Add(file("p", p.bad))
	}
	f.Fuzz(func(t *testing.T, src string) { runAll(t, src) })
}

// Functions that programs write have any size.
func TestHugeFunctions(t *testing.T) {
	for fact, body := range map[string]string{
		"many statements":  strings.Repeat("if resp, err := http.Get(u); err == nil { resp.Body.Close(); return }\n", 3000),
		"deep blocks":      strings.Repeat("if u == \"\" {\n", 3000) + strings.Repeat("}", 3000),
		"deep loops":       strings.Repeat("for {\n", 60) + "if _, err := http.Get(u); err == nil { return }" + strings.Repeat("}", 60),
		"deep expressions": "_ = " + strings.Repeat("(", 3000) + "u" + strings.Repeat(")", 3000),
		"long conditions":  "for { _, err := http.Get(u); if err == nil" + strings.Repeat(" || err == nil && u == \"\"", 2000) + " { return } }",
	} {
		t.Run(fact, func(t *testing.T) {
			runAll(t, "package p\nimport \"net/http\"\nfunc f(u string) {\n"+body+"\n}\n")
		})
	}
}
