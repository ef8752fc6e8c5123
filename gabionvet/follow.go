package gabionvet

import (
	"cmp"
	"go/ast"
	"go/token"
	"go/types"
	"iter"

	"golang.org/x/tools/go/ast/inspector"
)

// code is a function whose body is in this package.
type code struct {
	node ast.Node // *ast.FuncDecl or *ast.FuncLit
	typ  *ast.FuncType
	body *ast.BlockStmt
	name string
}

// findTargets finds what each call runs, so far as the package shows: a declared function, the only
// literal that a variable or field holds, or the method of the only type that an interface of the
// package is for.
func findTargets(u *unit) {
	codes := map[ast.Node]*code{}
	one := func(node ast.Node, typ *ast.FuncType, body *ast.BlockStmt, name string) *code {
		if body == nil {
			return nil
		}
		if codes[node] == nil {
			codes[node] = &code{node, typ, body, name}
		}
		return codes[node]
	}
	var of func(e ast.Expr, depth int) *code
	of = func(e ast.Expr, depth int) *code {
		if depth > farthest {
			return nil
		}
		switch e := ast.Unparen(e).(type) {
		case *ast.FuncLit:
			return one(e, e.Type, e.Body, "a function literal")
		case *ast.IndexExpr:
			return of(e.X, depth)
		case *ast.Ident, *ast.SelectorExpr:
			switch obj := u.object(e).(type) {
			case *types.Func:
				if decl := u.funcs[implementation(u, obj.Origin())]; decl != nil {
					return one(decl, decl.Type, decl.Body, decl.Name.Name)
				}
			case *types.Var:
				if values := u.values[obj]; len(values) == 1 && values[0] != nil && !obj.Exported() {
					if c := of(values[0], depth+1); c != nil {
						if _, is := c.node.(*ast.FuncLit); is && c.name == "a function literal" {
							c.name = obj.Name()
						}
						return c
					}
				}
			}
		}
		return nil
	}
	for c := range u.root.Preorder((*ast.CallExpr)(nil)) {
		call := c.Node().(*ast.CallExpr)
		if t := of(call.Fun, 0); t != nil {
			u.targets[call] = t
			u.runners[t.node] = append(u.runners[t.node], call)
		}
	}
}

// implementation returns the method that a method of an interface of the package stands for, if one
// type of the package alone has it.
func implementation(u *unit, f *types.Func) *types.Func {
	sig, is := f.Type().(*types.Signature)
	if !is || sig.Recv() == nil || f.Pkg() != u.pkg || !types.IsInterface(sig.Recv().Type()) {
		return f
	}
	if known := u.stands[f]; known != nil {
		return known
	}
	u.stands[f] = f
	iface, is := sig.Recv().Type().Underlying().(*types.Interface)
	if !is {
		return f
	}
	var found *types.Func
	for _, name := range u.pkg.Scope().Names() {
		t, is := u.pkg.Scope().Lookup(name).(*types.TypeName)
		if !is || t.IsAlias() || types.IsInterface(t.Type()) || isGeneric(t.Type()) || !types.Implements(types.NewPointer(t.Type()), iface) {
			continue
		}
		m, _, _ := types.LookupFieldOrMethod(t.Type(), true, u.pkg, f.Name())
		if m, is := m.(*types.Func); is {
			if found != nil {
				return f
			}
			found = m.Origin()
		}
	}
	if found != nil {
		u.stands[f] = found
	}
	return u.stands[f]
}

func isGeneric(t types.Type) bool {
	n, is := t.(*types.Named)
	return is && n.TypeParams().Len() > 0
}

// A step is a function of the package that is followed, and the call that runs it.
type step struct {
	*code
	call *ast.CallExpr
}

// A reached is a call that happens when a piece of code runs: in it, or in a function of
// the package that it calls.
type reached struct {
	call *ast.CallExpr
	top  *ast.CallExpr // the call in the code itself by which it is reached; call, if it is there
	path []step        // the functions between the two
}

// farthest is how many functions are followed. Farther than that few findings are certain, and
// fewer can be explained.
const farthest = 3

// reach returns the calls that happen when code runs, without those of other goroutines.
func reach(u *unit, code ast.Node) (all []reached) {
	seen := map[ast.Node]bool{code: true}
	var in func(n ast.Node, top *ast.CallExpr, path []step)
	in = func(n ast.Node, top *ast.CallExpr, path []step) {
		for _, call := range directCalls(n) {
			by := cmp.Or(top, call)
			all = append(all, reached{call, by, path})
			t := u.targets[call]
			if t == nil || seen[t.node] || len(path) == farthest || within(n, t.body.Pos()) && call.Fun == t.node {
				continue
			}
			seen[t.node] = true
			in(t.body, by, append(path[:len(path):len(path)], step{t, call}))
		}
	}
	in(code, nil, nil)
	return all
}

// directCalls are the calls of code itself: not those in function literals, but in those that it
// calls on the spot, and not those that other goroutines make.
func directCalls(n ast.Node) (all []*ast.CallExpr) {
	ast.Inspect(n, func(m ast.Node) bool {
		switch m := m.(type) {
		case *ast.FuncLit:
			return ast.Node(m) == n
		case *ast.GoStmt:
			return false
		case *ast.CallExpr:
			all = append(all, m)
			if lit, is := m.Fun.(*ast.FuncLit); is {
				all = append(all, directCalls(lit)...)
			}
		}
		return true
	})
	return all
}

// sources are the expressions that a value comes from: what its variable got, and what the callers in the
// package give for a parameter. With a path it is only what the calls of the path give.
func sources(u *unit, e ast.Expr, path []step) (all []ast.Expr) {
	seen := map[types.Object]bool{}
	var follow func(e ast.Expr, path []step)
	follow = func(e ast.Expr, path []step) {
		e = ast.Unparen(e)
		v, is := u.object(e).(*types.Var)
		if un, isUnary := e.(*ast.UnaryExpr); isUnary && un.Op == token.AND {
			v, is = u.object(un.X).(*types.Var)
		}
		if !is {
			all = append(all, e)
			return
		}
		if seen[v] {
			return
		}
		seen[v] = true
		for _, value := range u.values[v] {
			if value != nil {
				follow(value, path)
			}
		}
		node, at, isParam := parameterNode(u, v)
		if !isParam {
			return
		}
		for i := len(path) - 1; i >= 0; i-- {
			if path[i].node == node {
				if at < len(path[i].call.Args) {
					follow(path[i].call.Args[at], path[:i])
				}
				return
			}
		}
		for _, call := range u.runners[node] {
			if at < len(call.Args) {
				follow(call.Args[at], nil)
			}
		}
	}
	follow(e, path)
	return all
}

// parameterNode returns the function, declared or literal, whose parameter a variable is, and which.
func parameterNode(u *unit, v *types.Var) (node ast.Node, at int, is bool) {
	if v.Kind() != types.ParamVar {
		return nil, 0, false
	}
	c, found := u.root.FindByPos(v.Pos(), v.Pos())
	if !found {
		return nil, 0, false
	}
	for e := range c.Enclosing((*ast.FuncType)(nil)) {
		for _, field := range e.Node().(*ast.FuncType).Params.List {
			for _, id := range field.Names {
				if u.info.Defs[id] == v {
					return e.Parent().Node(), at, true
				}
				at++
			}
			if len(field.Names) == 0 {
				at++
			}
		}
		break
	}
	return nil, 0, false
}

// has reports whether code has a node of a type of which something is true.
func has[N ast.Node](code ast.Node, is func(N) bool) (found bool) {
	ast.Inspect(code, func(n ast.Node) bool {
		one, of := n.(N)
		found = found || of && is(one)
		return !found
	})
	return found
}

// every gives each node of a type that the rules look at, with its place.
func every[N ast.Node](u *unit) iter.Seq2[inspector.Cursor, N] {
	return func(yield func(inspector.Cursor, N) bool) {
		var of N
		for at := range u.root.Preorder(of) {
			if n := at.Node().(N); u.looksAt(n.Pos()) && !yield(at, n) {
				return
			}
		}
	}
}
