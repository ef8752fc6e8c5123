package gabionvet

import (
	"go/ast"
	"go/token"
	"go/types"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/passes/inspect"
	"golang.org/x/tools/go/ast/inspector"
	"golang.org/x/tools/go/types/typeutil"
)

// A unit is one package as the rules see it. It is not changed after newUnit, since
// rules run at the same time.
type unit struct {
	fset    *token.FileSet
	info    *types.Info
	pkg     *types.Package
	root    inspector.Cursor
	files   []*ast.File
	skipped map[*token.File]bool // generated code and tests
	ignores []*ignore

	callees   map[*ast.CallExpr]*types.Func
	names     map[*types.Func]string // their full names
	funcs     map[*types.Func]*ast.FuncDecl
	values    map[types.Object][]ast.Expr         // what is assigned to a variable or field; nil stands for what is not seen
	callers   map[*types.Func][]*ast.CallExpr     // static calls in this package
	asValue   map[*types.Func]bool                // functions that are used other than by a call
	uses      map[types.Object][]inspector.Cursor // where variables are used
	fields    map[string]bool                     // fields that are assigned to, by package and name
	remote    map[*types.Func]bool                // functions that call something over a network
	random    map[*types.Func]bool                // functions that use a random number
	loops     []*retryLoop
	failovers []*retryLoop // loops that try one thing of a list after the other until one succeeds
	regions   []*region
	targets   map[*ast.CallExpr]*code      // what calls run
	stands    map[*types.Func]*types.Func  // the methods of types that those of interfaces stand for
	runners   map[ast.Node][]*ast.CallExpr // the calls that run a function
	helpers   map[ast.Node]helper          // functions of this package that retry what they are given
	repeats   []repeated
}

func newUnit(pass *analysis.Pass) *unit {
	u := &unit{
		fset: pass.Fset, info: pass.TypesInfo, pkg: pass.Pkg, files: pass.Files,
		root:    pass.ResultOf[inspect.Analyzer].(*inspector.Inspector).Root(),
		skipped: map[*token.File]bool{},
		funcs:   map[*types.Func]*ast.FuncDecl{}, values: map[types.Object][]ast.Expr{},
		callers: map[*types.Func][]*ast.CallExpr{}, asValue: map[*types.Func]bool{},
		uses:   map[types.Object][]inspector.Cursor{},
		fields: map[string]bool{}, callees: map[*ast.CallExpr]*types.Func{}, targets: map[*ast.CallExpr]*code{}, stands: map[*types.Func]*types.Func{}, runners: map[ast.Node][]*ast.CallExpr{}, names: map[*types.Func]string{},
	}
	for _, f := range pass.Files {
		name := pass.Fset.PositionFor(f.Pos(), false).Filename
		if ast.IsGenerated(f) || isTest(pass.Pkg.Path(), name, f) {
			u.skipped[pass.Fset.File(f.Pos())] = true
			continue
		}
		u.ignores = append(u.ignores, readIgnores(pass.Fset, f)...)
	}
	u.collect()
	findTargets(u)
	u.remote = u.reaching(func(call *ast.CallExpr) bool { return u.leaves(call) })
	u.random = u.reaching(u.draws)
	u.findRegions()
	u.findLoops()
	findHelpers(u)
	findRepeats(u)
	return u
}

var testElement = regexp.MustCompile(`(?:^|/)(?:e2e|tests?|mocks?|[a-z]*testing|[a-z]*testutils?)(?:/|$)`)

// isTest reports whether a file is for tests: by its name, by its package's, or since it
// imports package testing.
func isTest(path, name string, f *ast.File) bool {
	if strings.HasSuffix(name, "_test.go") || !strings.HasSuffix(name, ".go") || testElement.MatchString(path) {
		return true
	}
	return slices.ContainsFunc(f.Imports, func(spec *ast.ImportSpec) bool { return spec.Path.Value == `"testing"` })
}

// looksAt reports whether a place is in a file that the rules look at.
func (u *unit) looksAt(pos token.Pos) bool {
	return pos.IsValid() && !u.skipped[u.fset.File(pos)]
}

// collect notes functions, their calls and what is assigned to variables.
func (u *unit) collect() {
	called := map[*ast.Ident]bool{}
	u.root.Inspect([]ast.Node{
		(*ast.FuncDecl)(nil), (*ast.CallExpr)(nil), (*ast.AssignStmt)(nil), (*ast.ValueSpec)(nil),
		(*ast.KeyValueExpr)(nil), (*ast.RangeStmt)(nil), (*ast.UnaryExpr)(nil), (*ast.Ident)(nil),
	}, func(c inspector.Cursor) bool {
		switch n := c.Node().(type) {
		case *ast.FuncDecl:
			if f, ok := u.info.Defs[n.Name].(*types.Func); ok {
				u.funcs[f] = n
			}
		case *ast.CallExpr:
			if f, is := typeutil.Callee(u.info, n).(*types.Func); is && f != nil {
				f = f.Origin()
				u.callees[n] = f
				if _, known := u.names[f]; !known {
					u.names[f] = fullName(f)
				}
				called[calledName(n)] = true
				if f.Pkg() == u.pkg {
					u.callers[f] = append(u.callers[f], n)
				}
			}
		case *ast.AssignStmt:
			u.assigned(n.Lhs, n.Rhs, n.Tok)
			for _, to := range n.Lhs {
				if v, is := u.object(to).(*types.Var); is && v.IsField() && v.Pkg() != nil {
					u.fields[v.Pkg().Path()+"."+v.Name()] = true
				}
			}
		case *ast.ValueSpec:
			if len(n.Values) > 0 {
				u.assigned(identExprs(n.Names), n.Values, token.DEFINE)
			}
		case *ast.Ident:
			if v, is := u.info.Uses[n].(*types.Var); is {
				u.uses[v] = append(u.uses[v], c)
			}
		case *ast.KeyValueExpr:
			u.assign(n.Key, n.Value)
		case *ast.RangeStmt:
			u.assign(n.Key, nil)
			u.assign(n.Value, nil)
		case *ast.UnaryExpr:
			if n.Op == token.AND {
				u.assign(n.X, nil) // written through a pointer, perhaps
			}
		}
		return true
	})
	for id, obj := range u.info.Uses {
		if f, ok := obj.(*types.Func); ok && f.Pkg() == u.pkg && !called[id] {
			u.asValue[f.Origin()] = true
		}
	}
}

func identExprs(ids []*ast.Ident) (all []ast.Expr) {
	for _, id := range ids {
		all = append(all, id)
	}
	return all
}

func (u *unit) assigned(lhs, rhs []ast.Expr, tok token.Token) {
	for i, to := range lhs {
		switch {
		case tok != token.ASSIGN && tok != token.DEFINE:
			u.assign(to, nil)
		case len(lhs) == len(rhs):
			u.assign(to, rhs[i])
		case len(rhs) == 1:
			u.assign(to, rhs[0])
		}
	}
}

func (u *unit) assign(to, value ast.Expr) {
	if obj := u.object(to); obj != nil {
		u.values[obj] = append(u.values[obj], value)
	}
}

// sets reports whether the package assigns to a field of that package and name, other than
// in a composite literal.
func (u *unit) sets(path, name string) bool { return u.fields[path+"."+name] }

// object returns the variable, field or function that an expression names.
func (u *unit) object(e ast.Expr) types.Object {
	switch e := e.(type) {
	case *ast.Ident:
		if obj := u.info.Defs[e]; obj != nil {
			return obj
		}
		return u.info.Uses[e]
	case *ast.SelectorExpr:
		return u.info.Uses[e.Sel]
	case *ast.ParenExpr:
		return u.object(e.X)
	case *ast.StarExpr:
		return u.object(e.X)
	}
	return nil
}

// callee returns the function or method that is called, if that is known.
func (u *unit) callee(call *ast.CallExpr) *types.Func { return u.callees[call] }

// fullName is the full name of what is called, or "".
func (u *unit) fullName(call *ast.CallExpr) string { return u.names[u.callees[call]] }

func calledName(call *ast.CallExpr) *ast.Ident {
	fun := ast.Unparen(call.Fun)
	switch x := fun.(type) {
	case *ast.IndexExpr:
		fun = x.X
	case *ast.IndexListExpr:
		fun = x.X
	}
	switch x := fun.(type) {
	case *ast.Ident:
		return x
	case *ast.SelectorExpr:
		return x.Sel
	}
	return nil
}

// is reports whether a call is of the function or method of that name: "net/http.Get",
// "(net/http.Client).Do", with a star for any version of a module's path.
func (u *unit) is(call *ast.CallExpr, names ...string) bool {
	name := u.fullName(call)
	if name == "" {
		return false
	}
	return slices.Contains(names, name)
}

// fullName is a function's name with the path of its package, without the version of its
// module: "net/http.Get", "(net/http.Client).Do".
func fullName(f *types.Func) string {
	if f == nil || f.Pkg() == nil {
		return ""
	}
	path := unversioned(f.Pkg().Path())
	sig, _ := f.Type().(*types.Signature)
	if sig == nil || sig.Recv() == nil {
		return path + "." + f.Name()
	}
	return "(" + typeName(sig.Recv().Type()) + ")." + f.Name()
}

// unversioned takes "/v2" and later out of an import path, wherever it stands, and "vendor/".
func unversioned(path string) string {
	if i := strings.LastIndex(path, "/vendor/"); i >= 0 {
		path = path[i+len("/vendor/"):]
	}
	path = strings.TrimPrefix(path, "vendor/")
	if !strings.Contains(path, "/v") {
		return path
	}
	parts := strings.Split(path, "/")
	kept := parts[:0]
	for _, p := range parts {
		if len(p) > 1 && p[0] == 'v' && strings.Trim(p[1:], "0123456789") == "" {
			continue
		}
		kept = append(kept, p)
	}
	return strings.Join(kept, "/")
}

// typeName is the name of a type or of what it points to: "net/http.Client".
func typeName(t types.Type) string {
	if t == nil {
		return ""
	}
	if p, ok := types.Unalias(t).(*types.Pointer); ok {
		t = p.Elem()
	}
	n, ok := types.Unalias(t).(*types.Named)
	if !ok || n.Obj() == nil {
		return ""
	}
	if n.Obj().Pkg() == nil {
		return n.Obj().Name()
	}
	return unversioned(n.Obj().Pkg().Path()) + "." + n.Obj().Name()
}

func (u *unit) typeOf(e ast.Expr) types.Type {
	if e == nil {
		return nil
	}
	return u.info.TypeOf(e)
}

// signature is that of a value that can be called, whatever its type is named.
func signature(t types.Type) (*types.Signature, bool) {
	if t == nil {
		return nil, false
	}
	sig, is := t.Underlying().(*types.Signature)
	return sig, is
}

func isError(t types.Type) bool {
	return t != nil && types.Identical(t, types.Universe.Lookup("error").Type())
}

func isContext(t types.Type) bool { return typeName(t) == "context.Context" && !isPointer(t) }

func isPointer(t types.Type) bool {
	_, ok := types.Unalias(t).(*types.Pointer)
	return ok
}
