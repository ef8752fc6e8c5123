package gabionvet

import (
	"go/ast"
	"go/token"
	"go/types"
	"strconv"

	"golang.org/x/tools/go/analysis"
)

// fileOf returns the file of a node.
func (u *unit) fileOf(n ast.Node) *ast.File {
	for _, f := range u.files {
		if f.FileStart <= n.Pos() && n.Pos() < f.FileEnd {
			return f
		}
	}
	return nil
}

// importing returns the name under which the file of a node imports a package, and the edits
// that import it if it does not. The name is "" where that name means something else.
func (u *unit) importing(n ast.Node, path, name string) (string, []analysis.TextEdit) {
	file := u.fileOf(n)
	if file == nil {
		return "", nil
	}
	for _, spec := range file.Imports {
		if got, _ := strconv.Unquote(spec.Path.Value); got == path {
			if spec.Name != nil {
				name = spec.Name.Name
			}
			if name == "_" || name == "." || u.means(n.Pos(), name) != path {
				return "", nil
			}
			return name, nil
		}
	}
	if u.means(n.Pos(), name) != "" {
		return "", nil
	}
	for _, decl := range file.Decls {
		if d, is := decl.(*ast.GenDecl); is && d.Tok == token.IMPORT && d.Lparen.IsValid() && len(d.Specs) > 0 {
			at := d.Specs[0].Pos()
			return name, []analysis.TextEdit{{Pos: at, End: at, NewText: []byte(strconv.Quote(path) + "\n\t")}}
		}
	}
	at := file.Name.End()
	return name, []analysis.TextEdit{{Pos: at, End: at, NewText: []byte("\n\nimport " + strconv.Quote(path))}}
}

// means says what a name means at a place: the path of a package, "?" for anything else, ""
// for nothing.
func (u *unit) means(pos token.Pos, name string) string {
	inner := u.pkg.Scope().Innermost(pos)
	if inner == nil {
		return "?"
	}
	_, obj := inner.LookupParent(name, pos)
	switch obj := obj.(type) {
	case nil:
		return ""
	case *types.PkgName:
		return obj.Imported().Path()
	}
	return "?"
}
