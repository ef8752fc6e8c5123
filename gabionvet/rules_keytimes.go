package gabionvet

import (
	"go/ast"
	"go/token"
	"go/types"
	"reflect"
	"slices"
)

// hasTime reports whether a call writes down a value with a field that is the time at which it was made.
func hasTime(u *unit, call *ast.CallExpr, code ast.Node) bool {
	if !u.is(call, "encoding/json.Marshal", "encoding/json.MarshalIndent", "encoding/xml.Marshal", "fmt.Sprint", "fmt.Sprintf", "fmt.Sprintln", "fmt.Appendf") {
		return false
	}
	return slices.ContainsFunc(call.Args, func(arg ast.Expr) bool {
		return timeSet(u, arg, code, call) || slices.ContainsFunc(sources(u, arg, nil), func(from ast.Expr) (has bool) {
			if !within(code, from.Pos()) {
				return false
			}
			if p, is := from.(*ast.UnaryExpr); is {
				from = p.X
			}
			lit, is := from.(*ast.CompositeLit)
			return is && slices.ContainsFunc(lit.Elts, func(e ast.Expr) bool {
				if kv, is := e.(*ast.KeyValueExpr); is {
					if !u.is(call, "fmt.Sprint", "fmt.Sprintf", "fmt.Sprintln", "fmt.Appendf") && leftOut(u, lit, kv.Key) {
						return false
					}
					e = kv.Value
				}
				return typeName(u.typeOf(e)) == "time.Time" && slices.ContainsFunc(calls(e, true), func(now *ast.CallExpr) bool { return u.is(now, "time.Now") }) &&
					!slices.ContainsFunc(calls(e, true), func(cut *ast.CallExpr) bool { return u.is(cut, "(time.Time).Truncate", "(time.Time).Round") })
			})
		})
	})
}

// leftOut reports whether JSON and XML leave a field out.
func leftOut(u *unit, lit *ast.CompositeLit, key ast.Expr) bool {
	of, is := u.typeOf(lit).Underlying().(*types.Struct)
	if !is {
		return false
	}
	for i := range of.NumFields() {
		if f := of.Field(i); u.object(key) == types.Object(f) {
			tag := reflect.StructTag(of.Tag(i))
			return !f.Exported() || tag.Get("json") == "-" || tag.Get("xml") == "-"
		}
	}
	return false
}

// timeSet reports whether code sets a field of what a call writes down to the time.
func timeSet(u *unit, arg ast.Expr, code ast.Node, call *ast.CallExpr) (set bool) {
	if un, is := arg.(*ast.UnaryExpr); is && un.Op == token.AND {
		arg = un.X
	}
	v, is := u.object(arg).(*types.Var)
	if !is {
		return false
	}
	ast.Inspect(code, func(n ast.Node) bool {
		as, is := n.(*ast.AssignStmt)
		if !is || as.Pos() > call.Pos() || len(as.Lhs) != 1 || len(as.Rhs) != 1 {
			return !set
		}
		sel, is := as.Lhs[0].(*ast.SelectorExpr)
		set = set || is && u.object(sel.X) == types.Object(v) && typeName(u.typeOf(sel)) == "time.Time" &&
			slices.ContainsFunc(calls(as.Rhs[0], true), func(now *ast.CallExpr) bool { return u.is(now, "time.Now") })
		return !set
	})
	return set
}
