package gabionvet

import (
	"go/ast"
	"go/types"
)

// A helper is a function of this package, declared or literal, that retries a function it is given.
type helper struct {
	loop *retryLoop // whose attempts call it; that of the helper that it hands it to
	at   int        // which parameter it is
}

// findHelpers finds the package's own retriers, and makes regions of what they are given.
func findHelpers(u *unit) {
	u.helpers = map[ast.Node]helper{}
	for _, l := range u.loops {
		for _, a := range l.attempts {
			if node, at, is := parameterOf(u, a.Fun); is && node == l.fn {
				u.helpers[node] = helper{l, at}
			}
			for _, arg := range a.Args { // s.inTx(ctx, work)
				if node, at, is := parameterOf(u, arg); is && node == l.fn && u.targets[a] != nil && worksOn(u, arg) {
					u.helpers[node] = helper{l, at}
				}
			}
		}
	}
	for changed := true; changed; {
		changed = false
		for node, h := range u.helpers {
			for _, call := range u.runners[node] {
				if len(call.Args) <= h.at {
					continue
				}
				outer, at, is := parameterOf(u, call.Args[h.at])
				if _, known := u.helpers[outer]; is && !known {
					u.helpers[outer] = helper{h.loop, at}
					changed = true
				}
			}
		}
	}
	for node, h := range u.helpers {
		for _, call := range u.runners[node] {
			if len(call.Args) <= h.at || !u.looksAt(call.Pos()) {
				continue
			}
			if r := u.work(call.Args[h.at]); r != nil {
				r.call, r.short, r.own = call, u.targets[call].name, h.loop
				u.regions = append(u.regions, r)
			}
		}
	}
}

// worksOn reports whether a value is a function that can fail.
func worksOn(u *unit, e ast.Expr) bool {
	sig, is := signature(u.typeOf(e))
	return is && canFail(sig)
}

// parameterOf returns the function whose parameter an expression is, and which.
func parameterOf(u *unit, e ast.Expr) (node ast.Node, at int, is bool) {
	v, isVar := u.object(e).(*types.Var)
	if !isVar {
		return nil, 0, false
	}
	return parameterNode(u, v)
}

// retries reports whether a call is of a function that retries what it is given, and of
// which kind.
func retries(u *unit, call *ast.CallExpr) (retrier, bool) {
	if t := u.targets[call]; t != nil {
		if _, is := u.helpers[t.node]; is {
			return retrier{}, true
		}
	}
	return u.retrierOf(call)
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
func usesContext(u *unit, n ast.Node) bool {
	return has(n, func(id *ast.Ident) bool {
		v, is := u.info.Uses[id].(*types.Var)
		return is && isContext(v.Type()) && !declaredIn(v, n)
	})
}
