package house

import (
	"errors"
	"flag"
	"go/ast"
	"go/token"
	"go/types"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
)

var updateAPI = flag.Bool("update-api", false, "write api.txt anew")

const ledgerName = "api.txt"

// ledgers are the modules with a ledger of their own, by directory.
var ledgers = append([]string{"."}, housed...)

// exported returns the exported API of the module in dir, one line for each name,
// sorted, in the manner of Go's own api directory. Names of parameters are left
// out: renaming one breaks no caller.
func exported(t *tree, dir string) []string {
	var lines []string
	for _, p := range t.packs {
		if moduleOf(p.dir) != dir || p.internal() || p.files[0].ast.Name.Name == "main" {
			continue
		}
		prefix := "pkg " + p.dir + ", "
		for _, file := range p.code() {
			for _, decl := range file.ast.Decls {
				for _, line := range declared(decl) {
					if name := embedsHidden(line); name == "" || showsMembers(p, name) {
						lines = append(lines, prefix+line)
					}
				}
			}
		}
	}
	slices.Sort(lines)
	return slices.Compact(lines)
}

func declared(decl ast.Decl) []string {
	switch d := decl.(type) {
	case *ast.FuncDecl:
		return declaredFunc(d)
	case *ast.GenDecl:
		switch d.Tok {
		case token.TYPE:
			return declaredTypes(d)
		case token.CONST, token.VAR:
			return declaredValues(d)
		}
	}
	return nil
}

func declaredFunc(d *ast.FuncDecl) []string {
	switch {
	case !d.Name.IsExported():
		return nil
	case d.Recv == nil:
		return []string{"func " + d.Name.Name + typeParams(d.Type.TypeParams) + signature(d.Type)}
	case !ast.IsExported(receiver(d)):
		return nil
	}
	return []string{"method (" + types.ExprString(d.Recv.List[0].Type) + ") " + d.Name.Name + signature(d.Type)}
}

// receiver returns the name of the type that a method belongs to.
func receiver(d *ast.FuncDecl) string {
	expr := d.Recv.List[0].Type
	for {
		switch e := expr.(type) {
		case *ast.StarExpr:
			expr = e.X
		case *ast.ParenExpr:
			expr = e.X
		case *ast.IndexExpr:
			expr = e.X
		case *ast.IndexListExpr:
			expr = e.X
		case *ast.Ident:
			return e.Name
		default:
			return ""
		}
	}
}

func signature(f *ast.FuncType) string {
	s := "(" + strings.Join(unnamed(f.Params), ", ") + ")"
	switch results := unnamed(f.Results); len(results) {
	case 0:
		return s
	case 1:
		return s + " " + results[0]
	default:
		return s + " (" + strings.Join(results, ", ") + ")"
	}
}

// unnamed returns the types of a list, once for each name.
func unnamed(list *ast.FieldList) (all []string) {
	if list == nil {
		return nil
	}
	for _, field := range list.List {
		for range max(1, len(field.Names)) {
			all = append(all, types.ExprString(field.Type))
		}
	}
	return all
}

func typeParams(list *ast.FieldList) string {
	if list == nil {
		return ""
	}
	var all []string
	for _, field := range list.List {
		for _, name := range field.Names {
			all = append(all, name.Name+" "+types.ExprString(field.Type))
		}
	}
	return "[" + strings.Join(all, ", ") + "]"
}

func declaredTypes(d *ast.GenDecl) (lines []string) {
	for _, spec := range d.Specs {
		s := spec.(*ast.TypeSpec)
		if !s.Name.IsExported() {
			continue
		}
		head := "type " + s.Name.Name + typeParams(s.TypeParams)
		switch of := s.Type.(type) {
		case *ast.StructType:
			lines = append(lines, head+" struct")
			lines = append(lines, members(head+" struct, ", of.Fields)...)
		case *ast.InterfaceType:
			lines = append(lines, head+" interface")
			lines = append(lines, members(head+" interface, ", of.Methods)...)
		default:
			lines = append(lines, head+assignment(s)+types.ExprString(s.Type))
		}
	}
	return lines
}

func assignment(s *ast.TypeSpec) string {
	if s.Assign.IsValid() {
		return " = "
	}
	return " "
}

// members returns the exported fields or methods. That an interface has an
// unexported method is part of its API too: no other package can implement it.
func members(prefix string, list *ast.FieldList) (lines []string) {
	for _, field := range list.List {
		if len(field.Names) == 0 {
			lines = append(lines, prefix+"embedded "+types.ExprString(field.Type))
		}
		for _, name := range field.Names {
			f, method := field.Type.(*ast.FuncType)
			switch {
			case !name.IsExported() && strings.Contains(prefix, " interface, "):
				lines = append(lines, prefix+"unexported methods")
			case !name.IsExported():
			case method && strings.Contains(prefix, " interface, "):
				lines = append(lines, prefix+name.Name+signature(f))
			default:
				lines = append(lines, prefix+name.Name+" "+types.ExprString(field.Type))
			}
		}
	}
	return lines
}

// declaredValues returns constants and variables. A constant without a type of
// its own repeats the one before it.
func declaredValues(d *ast.GenDecl) (lines []string) {
	for _, v := range values(d) {
		if !ast.IsExported(v.name) {
			continue
		}
		line := d.Tok.String() + " " + v.name
		if v.of != nil {
			line += " " + types.ExprString(v.of)
		}
		if d.Tok == token.CONST && v.value != "" {
			line += " = " + v.value
		}
		lines = append(lines, line)
	}
	return lines
}

// A value is one declared constant or variable.
type value struct {
	name  string
	of    ast.Expr // its type, nil when inferred
	value string   // a constant's literal value, empty when counted with iota
	doc   bool     // explained, by itself or by its group
	pos   token.Pos
}

func values(d *ast.GenDecl) (all []value) {
	var of ast.Expr
	for _, spec := range d.Specs {
		s, ok := spec.(*ast.ValueSpec)
		if !ok {
			return nil
		}
		if s.Type != nil || len(s.Values) > 0 || d.Tok == token.VAR {
			of = s.Type
		}
		for i, name := range s.Names {
			v := value{name: name.Name, of: of, doc: d.Doc != nil || s.Doc != nil || s.Comment != nil, pos: name.Pos()}
			if i < len(s.Values) && !counted(s.Values[i]) {
				v.value = types.ExprString(s.Values[i])
			}
			all = append(all, v)
		}
	}
	return all
}

func counted(expr ast.Expr) (found bool) {
	ast.Inspect(expr, func(n ast.Node) bool {
		id, ok := n.(*ast.Ident)
		found = found || ok && id.Name == "iota"
		return !found
	})
	return found
}

// ledger compares the API of each module with its api.txt: + is new, - is gone.
func ledger(fsys fs.FS) ([]string, error) {
	t, err := parse(fsys)
	if err != nil {
		return nil, err
	}
	var found []string
	for _, dir := range ledgers {
		is := exported(t, dir)
		text, err := fs.ReadFile(fsys, path.Join(dir, ledgerName))
		if err != nil && (len(is) > 0 || !errors.Is(err, fs.ErrNotExist)) {
			return nil, err
		}
		was := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
		for _, line := range is {
			if !slices.Contains(was, line) {
				found = append(found, "+ "+line)
			}
		}
		for _, line := range was {
			if line != "" && !slices.Contains(is, line) {
				found = append(found, "- "+line)
			}
		}
	}
	return found, nil
}

func TestAPIIsInTheLedger(t *testing.T) {
	if *updateAPI {
		parsed, err := parse(home())
		if err != nil {
			t.Fatal(err)
		}
		for _, dir := range ledgers {
			text := strings.Join(exported(parsed, dir), "\n") + "\n"
			if err := os.WriteFile(path.Join("../..", dir, ledgerName), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	keep(t, ledger, `The exported API differs from api.txt (+ new, - gone). If that is meant, write the ledger anew and commit it with the change:
	go test ./internal/house -run API -update-api`)

	const code = `package p
import "context"
type T[K comparable] struct { Public, Also int; private int; Fn func(a int) }
func (t *T[K]) Do(ctx context.Context, a, b int) (n int, err error) { return }
func (t *T[K]) hidden() {}
type hidden struct{}
func (hidden) Shown() {}
type I interface { Act(x int) error; seal() }
type A = int
type N int64
const ( Zero N = iota; One; two; Loose = "x" )
const Off = -1
var Err error
func New(name string, more ...int) *T[string] { return nil }
`
	const text = `pkg p, const Loose = "x"
pkg p, const Off = -1
pkg p, const One N
pkg p, const Zero N
pkg p, func New(string, ...int) *T[string]
pkg p, method (*T[K]) Do(context.Context, int, int) (int, error)
pkg p, type A = int
pkg p, type I interface
pkg p, type I interface, Act(int) error
pkg p, type I interface, unexported methods
pkg p, type N int64
pkg p, type T[K comparable] struct
pkg p, type T[K comparable] struct, Also int
pkg p, type T[K comparable] struct, Fn func(a int)
pkg p, type T[K comparable] struct, Public int
pkg p, var Err error
`
	prove(t, ledger, []specimen{
		{"the ledger as written is fine", map[string]string{
			"p/p.go": code, ledgerName: text, "internal/q/q.go": "package q\nfunc New() {}", "p/p_test.go": "package p\nfunc New2() {}",
		}, nil},
		{"a new name, one gone, one changed", map[string]string{
			"p/p.go": strings.NewReplacer("var Err error", "var Gone error", "a, b int", "a int", "Off = -1", "Off = -2").Replace(code), ledgerName: text,
		}, []string{
			"+ pkg p, const Off = -2",
			"+ pkg p, method (*T[K]) Do(context.Context, int) (int, error)",
			"+ pkg p, var Gone error",
			"- pkg p, const Off = -1",
			"- pkg p, method (*T[K]) Do(context.Context, int, int) (int, error)",
			"- pkg p, var Err error",
		}},
	})
}
