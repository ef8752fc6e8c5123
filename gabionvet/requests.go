package gabionvet

import (
	"go/ast"
	"regexp"
	"slices"

	"golang.org/x/tools/go/ast/inspector"
)

var startNames = regexp.MustCompile(`(?i)^(main|run|start|serve|init|new|setup|open|build|make|execute|test|benchmark|example|listen|loop|boot)`)

// perRequest says for what a place runs again: a request, a call, an iteration. Depth is how many callers were followed.
func (c *check) perRequest(at inspector.Cursor, onlyHandlers bool, depth int) string {
	for e := range at.Enclosing((*ast.FuncDecl)(nil), (*ast.FuncLit)(nil)) {
		var typ *ast.FuncType
		name := ""
		switch f := e.Node().(type) {
		case *ast.FuncDecl:
			typ, name = f.Type, f.Name.Name
		case *ast.FuncLit:
			typ = f.Type
		}
		if c.isHandlerType(typ) {
			return "for each request"
		}
		if decl, is := e.Node().(*ast.FuncDecl); is && depth < 2 && !onlyHandlers && !decl.Name.IsExported() && len(c.runners[decl]) > 0 && !c.asValue[declared(c.unit, decl)] {
			for _, call := range c.runners[decl] {
				caller, found := c.root.FindNode(call)
				if !found {
					return ""
				}
				if name = c.perRequest(caller, onlyHandlers, depth+1); name == "" {
					break
				}
			}
			if name != "" {
				return name
			}
			name = decl.Name.Name
		}
		if onlyHandlers || name == "" || startNames.MatchString(name) || len(typ.Params.List) == 0 || !isContext(c.typeOf(typ.Params.List[0].Type)) {
			return ""
		}
		return "for each call of " + name
	}
	return ""
}

// escapes reports whether what an expression makes lives longer than the function, as far
// as one can see: it is returned, stored, or given to others.
func (u *unit) escapes(at inspector.Cursor, depth int) bool {
	if depth > 4 {
		return true
	}
	parent := at.Parent()
	switch p := parent.Node().(type) {
	case *ast.ParenExpr, *ast.UnaryExpr, *ast.TypeAssertExpr:
		return u.escapes(parent, depth)
	case *ast.SelectorExpr:
		return false // used at once
	case *ast.CallExpr:
		f := u.callee(p)
		return f == nil || f.Pkg() == nil || !ownWork(f.Pkg().Path())
	case *ast.KeyValueExpr:
		lit := parent.Parent()
		if typeName(u.typeOf(lit.Node().(*ast.CompositeLit))) == "net/http.Client" {
			return u.escapes(lit, depth)
		}
		return true
	case *ast.AssignStmt:
		for i, from := range p.Rhs {
			if from == at.Node() && i < len(p.Lhs) {
				return u.variableEscapes(p.Lhs[i], parent, depth)
			}
		}
	case *ast.ValueSpec:
		if len(p.Names) > 0 && len(p.Values) == 1 {
			return u.variableEscapes(p.Names[0], parent, depth)
		}
	}
	return true
}

// ownWork are packages whose functions don't keep what they are given.
func ownWork(path string) bool {
	path = unversioned(path)
	return path == "github.com/gabion-go/gabion" || path == "github.com/sony/gobreaker"
}

func (u *unit) variableEscapes(to ast.Expr, at inspector.Cursor, depth int) bool {
	id, is := to.(*ast.Ident)
	fn, _, body := enclosing(at)
	if !is || body == nil {
		return true
	}
	obj := u.object(id)
	if !declaredIn(obj, body) {
		return true
	}
	for _, use := range u.uses[obj] {
		if user, _, _ := enclosing(use); user != fn && !u.isWork(user) {
			return true
		}
		if u.isTarget(use) {
			continue
		}
		if u.escapes(use, depth+1) {
			return true
		}
	}
	return false
}

func (u *unit) isTarget(id inspector.Cursor) bool {
	as, is := id.Parent().Node().(*ast.AssignStmt)
	if !is {
		return false
	}
	return slices.ContainsFunc(as.Lhs, func(to ast.Expr) bool { return to == id.Node() })
}

func (u *unit) isWork(fn ast.Node) bool {
	return slices.ContainsFunc(u.regions, func(r *region) bool { return r.lit != nil && ast.Node(r.lit) == fn })
}
