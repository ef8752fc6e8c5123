package house

import (
	"go/ast"
	"path"
	"regexp"
	"strings"
	"testing"
)

// embedsHidden returns the type that is not exported and that a line of the ledger says
// is embedded.
func embedsHidden(line string) string {
	_, name, ok := strings.Cut(line, ", embedded ")
	if name = strings.TrimLeft(name, "*"); !ok || strings.Contains(name, ".") || ast.IsExported(name) {
		return ""
	}
	return name
}

// showsMembers reports whether a type of the package has exported methods or fields,
// which whatever embeds it shows.
func showsMembers(p pack, name string) bool {
	for _, file := range p.code() {
		for _, decl := range file.ast.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				if d.Recv != nil && receiver(d) == name && d.Name.IsExported() {
					return true
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					s, _ := spec.(*ast.TypeSpec)
					if s == nil || s.Name.Name != name {
						continue
					}
					if of, ok := s.Type.(*ast.StructType); ok && len(members("", of.Fields)) > 0 {
						return true
					}
				}
			}
		}
	}
	return false
}

// hidesItsTypes finds exported names whose types users can't name: they are of an
// internal package, or embedded, not exported, and show members.
func hidesItsTypes(t *tree) (found []string) {
	for _, p := range t.packs {
		if moduleOf(p.dir) == "lab" || p.internal() || p.files[0].ast.Name.Name == "main" {
			continue
		}
		for _, file := range p.code() {
			for _, decl := range file.ast.Decls {
				for _, line := range declared(decl) {
					if hidden := hiddenType(p, file, line); hidden != "" {
						found = append(found, t.at(decl.Pos(), "%s: %s is not for users", line, hidden))
					}
				}
			}
		}
	}
	return found
}

// hiddenType returns the first type in a line of the ledger that users can't name.
func hiddenType(p pack, file source, line string) string {
	if name := embedsHidden(line); name != "" && showsMembers(p, name) {
		return name
	}
	for _, spec := range file.ast.Imports {
		at := imported(spec)
		name := path.Base(at)
		if spec.Name != nil {
			name = spec.Name.Name
		}
		if strings.Contains(at, "/internal/") && regexp.MustCompile(`\b`+name+`\.`).MatchString(line) {
			return at
		}
	}
	return ""
}

func TestUsersCanNameEveryExportedType(t *testing.T) {
	keep(t, overCode(hidesItsTypes), `An exported name has a type that users can't name. Give it a type of its own package, or do not export it; what
adapters need of package gabion is in internal/adapter.`)

	const imports = "import \"github.com/gabion-go/gabion/internal/machine\"\n"
	prove(t, overCode(hidesItsTypes), []specimen{
		{"types of its own, and internal ones inside, are fine", map[string]string{
			"p/p.go": "package p\n" + imports + "type T struct { rules *machine.Rules }\nfunc New() *T { return nil }\nfunc hidden(*machine.Rules) {}",
		}, nil},
		{"a result, an alias, a field", map[string]string{
			"p/p.go": "package p\n" + imports + "func Rules() *machine.Rules { return nil }\ntype State = machine.State\ntype T struct { S machine.State }",
		}, []string{"func Rules() *machine.Rules: ", "type State = machine.State: ", "type T struct, S machine.State: "}},
		{"an embedded type that shows nothing is fine", map[string]string{
			"p/p.go": "package p\ntype core struct{ n int }\nfunc (core) act() {}\ntype T struct { core }",
		}, nil},
		{"embedded types that show members", map[string]string{
			"p/p.go": "package p\ntype core struct{}\nfunc (*core) Act() {}\ntype T struct { core }",
			"q/q.go": "package q\ntype core struct{ N int }\ntype T struct { *core }",
		}, []string{"type T struct, embedded core: core is not for users", "type T struct, embedded *core: core is not for users"}},
	})
}

// mostNames bounds the front door: a reader of its documentation looks at all of it.
const mostNames = 72

// frontDoor counts the top-level names of package gabion.
func frontDoor(t *tree) (found []string) {
	names := 0
	for _, line := range exported(t, ".") {
		what, of := strings.CutPrefix(line, "pkg ., ")
		if of && !strings.HasPrefix(what, "method ") && !strings.Contains(what, " struct, ") && !strings.Contains(what, " interface, ") {
			names++
		}
	}
	if names > mostNames {
		found = append(found, "package gabion has more names than it may")
	}
	return found
}

func TestTheFrontDoorIsSmall(t *testing.T) {
	keep(t, overCode(frontDoor), "Package gabion has at most 72 exported names at its top level: put what only some users need into another package.")

	many := "package gabion\n" + strings.Repeat("const A%d = 1\n", mostNames+1)
	for n := range mostNames + 1 {
		many = strings.Replace(many, "%d", strings.Repeat("a", n), 1)
	}
	prove(t, overCode(frontDoor), []specimen{
		{"few names, with many members", map[string]string{"gabion.go": "package gabion\ntype T struct { A, B int }\nfunc (T) C() {}"}, nil},
		{"too many", map[string]string{"gabion.go": many}, []string{"more names than it may"}},
	})
}
