package house

import (
	"go/ast"
	"go/token"
	"slices"
	"testing"
)

// undocumented finds exported names and packages without a comment. A comment on
// a group of constants or variables, or at the end of a line, explains each.
func undocumented(t *tree) (found []string) {
	for _, p := range t.packs {
		code := p.code()
		if len(code) == 0 {
			continue
		}
		if !explained(code) {
			found = append(found, t.at(code[0].ast.Package, "package %s has no comment", p.dir))
		}
		for _, file := range code {
			for _, decl := range file.ast.Decls {
				found = append(found, bare(t, decl)...)
			}
		}
	}
	return found
}

func explained(code []source) bool {
	return slices.ContainsFunc(code, func(file source) bool { return file.ast.Doc != nil })
}

func bare(t *tree, decl ast.Decl) (found []string) {
	switch d := decl.(type) {
	case *ast.FuncDecl:
		if d.Doc == nil && len(declaredFunc(d)) > 0 {
			found = append(found, t.at(d.Pos(), "%s has no comment", d.Name.Name))
		}
	case *ast.GenDecl:
		if d.Tok == token.TYPE {
			return bareTypes(t, d)
		}
		for _, v := range values(d) {
			if ast.IsExported(v.name) && !v.doc {
				found = append(found, t.at(v.pos, "%s has no comment", v.name))
			}
		}
	}
	return found
}

func bareTypes(t *tree, d *ast.GenDecl) (found []string) {
	for _, spec := range d.Specs {
		s := spec.(*ast.TypeSpec)
		if !s.Name.IsExported() {
			continue
		}
		if s.Doc == nil && (d.Doc == nil || d.Lparen.IsValid()) {
			found = append(found, t.at(s.Pos(), "%s has no comment", s.Name.Name))
		}
		if of, ok := s.Type.(*ast.InterfaceType); ok {
			found = append(found, bareMethods(t, s.Name.Name, of)...)
		}
	}
	return found
}

// bareMethods finds methods that implementers would have to guess. An interface
// of one method is explained by its own comment.
func bareMethods(t *tree, of string, i *ast.InterfaceType) (found []string) {
	if len(i.Methods.List) < 2 {
		return nil
	}
	for _, m := range i.Methods.List {
		if len(m.Names) > 0 && m.Names[0].IsExported() && m.Doc == nil && m.Comment == nil {
			found = append(found, t.at(m.Pos(), "%s.%s has no comment", of, m.Names[0].Name))
		}
	}
	return found
}

func TestExportedNamesAreExplained(t *testing.T) {
	keep(t, overCode(undocumented), `Say what it means: the zero value, units, errors, safety for concurrent use, the source of a formula. Comments say why.`)

	prove(t, overCode(undocumented), []specimen{
		{"explained one by one, by group and by line", map[string]string{
			"p/p.go": `// Package p is explained.
package p

// T is explained.
type T struct{ Field int }

// M is explained.
func (T) M() {}

func (T) private() {}

type private struct{}

func (private) M() {}

// Both are.
const (
	A = 1
	B = 2
)

const (
	C = 1 // explained
)

// I is explained.
type I interface{ Act() }
`,
			"p/p_test.go": "package p\nfunc TestX() {}",
		}, nil},
		{"nothing is", map[string]string{
			"p/p.go": `package p
type T struct{}
func (*T) M() {}
func F() {}
const C = 1
var V = 1
// A comment on a group of types explains none.
type (
	G int
)
// I is explained.
type I interface {
	Act()
	React()
}
`,
		}, []string{
			"p.go:13: I.Act", "p.go:14: I.React", "p.go:1: package p", "p.go:2: T has", "p.go:3: M has",
			"p.go:4: F has", "p.go:5: C has", "p.go:6: V has", "p.go:9: G has",
		}},
	})
}
