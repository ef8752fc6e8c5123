package gabionvet

import (
	"go/ast"
	"go/types"
)

// A helper is a function of this package that retries a function it is given.
type helper struct {
	loop *retryLoop // whose attempts call it; that of the helper that it hands it to
	at   int        // which parameter it is
}

// findHelpers finds the package's own retriers, and makes regions of what they are given.
func findHelpers(u *unit) {
	u.helpers = map[*types.Func]helper{}
	for _, l := range u.loops {
		decl, is := l.fn.(*ast.FuncDecl)
		if !is {
			continue
		}
		for _, a := range l.attempts {
			if f, at, is := parameterOf(u, a.Fun); is && u.funcs[f] == decl {
				u.helpers[f] = helper{l, at}
			}
		}
	}
	for changed := true; changed; {
		changed = false
		for f, h := range u.helpers {
			for _, call := range u.callers[f] {
				if len(call.Args) <= h.at {
					continue
				}
				g, at, is := parameterOf(u, call.Args[h.at])
				if _, known := u.helpers[g]; is && !known {
					u.helpers[g] = helper{h.loop, at}
					changed = true
				}
			}
		}
	}
	for f, h := range u.helpers {
		for _, call := range u.callers[f] {
			if len(call.Args) <= h.at || !u.looksAt(call.Pos()) {
				continue
			}
			if r := u.work(call.Args[h.at]); r != nil {
				r.call, r.short, r.own = call, f.Name(), h.loop
				u.regions = append(u.regions, r)
			}
		}
	}
}

// parameterOf returns the function with a name whose parameter an expression is, and which.
func parameterOf(u *unit, e ast.Expr) (f *types.Func, at int, is bool) {
	v, isVar := u.object(e).(*types.Var)
	if !isVar {
		return nil, 0, false
	}
	f, at, is = u.parameter(v)
	return f, at, is && f != nil
}

// retries reports whether a call is of a function that retries what it is given, and of
// which kind.
func retries(u *unit, call *ast.CallExpr) (retrier, bool) {
	if _, is := u.helpers[u.callee(call)]; is {
		return retrier{}, true
	}
	return u.retrierOf(call)
}

// A reached is a call that happens when a piece of code runs: in it, or in a function of
// the package that it calls.
type reached struct {
	call *ast.CallExpr
	top  *ast.CallExpr   // the call in the code itself by which it is reached; call, if it is there
	path []*ast.FuncDecl // the functions between the two
}

// farthest is how many functions are followed. Farther than that few findings are certain, and
// fewer can be explained.
const farthest = 3

// reach returns the calls that happen when code runs, without those of other goroutines.
func reach(u *unit, code ast.Node) (all []reached) {
	seen := map[*ast.FuncDecl]bool{}
	var in func(n ast.Node, top *ast.CallExpr, path []*ast.FuncDecl)
	in = func(n ast.Node, top *ast.CallExpr, path []*ast.FuncDecl) {
		for _, call := range directCalls(n) {
			by := top
			if by == nil {
				by = call
			}
			all = append(all, reached{call, by, path})
			decl := u.funcs[u.callee(call)]
			if decl == nil || decl.Body == nil || seen[decl] || len(path) == farthest {
				continue
			}
			seen[decl] = true
			in(decl.Body, by, append(path[:len(path):len(path)], decl))
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

// callerContext returns the context that a caller of a helper has and its work uses, if the
// helper has none.
func callerContext(u *unit, l *retryLoop) string {
	for _, r := range u.regions {
		if r.own != l {
			continue
		}
		at, found := u.root.FindNode(r.call)
		if !found {
			continue
		}
		if name, handler := u.contextInScope(at); name != "" && !handler && usesContext(u, r.body) {
			return name
		}
	}
	return ""
}

// usesContext reports whether code uses a context that is declared outside of it.
func usesContext(u *unit, n ast.Node) (found bool) {
	ast.Inspect(n, func(m ast.Node) bool {
		if id, is := m.(*ast.Ident); is {
			v, is := u.info.Uses[id].(*types.Var)
			found = found || is && isContext(v.Type()) && !declaredIn(v, n)
		}
		return !found
	})
	return found
}
