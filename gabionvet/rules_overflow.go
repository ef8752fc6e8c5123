package gabionvet

import (
	"go/ast"
	"go/token"
	"go/types"
)

// tellOverflow is the part of G139 for a wait that is shifted until it overflows.
func tellOverflow(c *check, l *retryLoop) {
	if counted(c, l, false) {
		return
	}
	for _, w := range l.waits {
		if shift := overflows(c, l, w); shift != nil {
			c.report(shift, nil, "this shift overflows when the outage is long: after some 35 attempts the wait is negative or 0, which is below any limit, and the loop goes on without a wait; "+
				"limit the number that is shifted by, as min(n, 10)")
			return
		}
	}
}

// overflows returns a shift by the number of the attempt, without a bound, of which a wait is made: in the loop, or in a function of the
// package that is given the number.
func overflows(c *check, l *retryLoop, w wait) (shift *ast.BinaryExpr) {
	look := func(n ast.Node, by func(ast.Expr) bool) {
		ast.Inspect(n, func(n ast.Node) bool {
			b, is := n.(*ast.BinaryExpr)
			if is && b.Op == token.SHL && typeName(c.typeOf(b)) == "time.Duration" && shift == nil && by(b.Y) {
				shift = b
			}
			return shift == nil
		})
	}
	changes := func(e ast.Expr) bool {
		v := numberIn(c, e)
		return v != nil && c.changesIn(v, l.code()) && !bindsNumber(c, l.code(), v)
	}
	for _, from := range durations(c, w.d) {
		if !within(l.code(), from.Pos()) {
			continue
		}
		look(from, changes)
		for _, call := range calls(from, false) {
			t := c.targets[call]
			if t == nil || bindsAll(t.body) {
				continue
			}
			for i, arg := range call.Args {
				if isInteger(c.typeOf(arg)) && changes(arg) {
					look(t.body, func(e ast.Expr) bool {
						v := numberIn(c, e)
						if v == nil {
							return false
						}
						node, at, is := parameterNode(c.unit, v)
						return is && node == t.node && at == i && !bindsNumber(c, t.body, v)
					})
				}
			}
		}
	}
	return shift
}

// durations are what a wait is made of: it, and what the variables in it are given.
func durations(c *check, d ast.Expr) []ast.Expr {
	all := []ast.Expr{d}
	ast.Inspect(d, func(n ast.Node) bool {
		if id, is := n.(*ast.Ident); is && typeName(c.typeOf(id)) == "time.Duration" {
			all = append(all, sources(c.unit, id, nil)...)
		}
		return true
	})
	return all
}

// numberIn returns the variable that a number is made of by conversions and constants alone.
func numberIn(c *check, e ast.Expr) *types.Var {
	switch e := ast.Unparen(e).(type) {
	case *ast.Ident, *ast.SelectorExpr:
		v, _ := c.object(e).(*types.Var)
		return v
	case *ast.CallExpr:
		if len(e.Args) == 1 && c.info.Types[e.Fun].IsType() {
			return numberIn(c, e.Args[0])
		}
	case *ast.BinaryExpr:
		if c.info.Types[e.Y].Value != nil && (e.Op == token.ADD || e.Op == token.SUB) {
			return numberIn(c, e.X)
		}
	}
	return nil
}

// bindsNumber reports whether code compares a number with anything, or gives it another value than one more, or if a wait is compared from below.
func bindsNumber(c *check, code ast.Node, v *types.Var) (binds bool) {
	ast.Inspect(code, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BinaryExpr:
			binds = binds || compares(n.Op) && mentionsObject(c.unit, n, v)
		case *ast.AssignStmt:
			for i, to := range n.Lhs {
				binds = binds || c.object(to) == types.Object(v) && i < len(n.Rhs) && n.Tok == token.ASSIGN && !isZero(c, n.Rhs[i])
			}
		}
		return !binds
	})
	return binds || bindsAll(code)
}

// bindsAll reports whether code asks whether a wait is too short, as an overflow makes it.
func bindsAll(code ast.Node) bool {
	return has(code, func(b *ast.BinaryExpr) bool { return b.Op == token.LSS || b.Op == token.LEQ })
}
