package gabionvet

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"

	"golang.org/x/tools/go/ast/inspector"
)

// goesOnAfterEnd is the part of G103 that finds a loop which hears that its context ended, and comes round all the same: a break
// that leaves only the select, or a case that only logs.
func goesOnAfterEnd(c *check) {
	for at, loop := range every[*ast.ForStmt](c.unit) {
		if loop.Cond != nil {
			continue
		}
		label := ""
		if p, is := at.Parent().Node().(*ast.LabeledStmt); is {
			label = p.Label.Name
		}
		for _, s := range loop.Body.List {
			sel, is := s.(*ast.SelectStmt)
			if !is {
				continue
			}
			for _, clause := range sel.Body.List {
				clause := clause.(*ast.CommClause)
				ctx := doneOf(c, clause)
				if ctx == nil || declaredIn(ctx, loop) || !comesRoundAfter(c, loop, label, clause) || asksAgain(c, loop, ctx, clause) {
					continue
				}
				c.report(clause, nil, "the loop comes round when %s has ended: what stands here leaves the select at most; from then on it tries in vain, without a wait, for ever; return, or break out of the loop by a label", ctx.Name())
			}
		}
	}
}

// doneOf returns the context for whose end a case waits.
func doneOf(c *check, clause *ast.CommClause) types.Object {
	s, is := clause.Comm.(*ast.ExprStmt)
	if !is {
		return nil
	}
	r, is := s.X.(*ast.UnaryExpr)
	if !is || r.Op != token.ARROW {
		return nil
	}
	return ofContext(c.unit, r.X, "Done")
}

// comesRoundAfter reports whether a loop comes round on a path through a case.
func comesRoundAfter(c *check, loop *ast.ForStmt, label string, clause *ast.CommClause) bool {
	w := &walk{u: c.unit, flag: func(n ast.Node) uint8 {
		if n == ast.Node(clause.Comm) || n == ast.Node(clause.Comm.(*ast.ExprStmt).X) {
			return marked
		}
		return 0
	}}
	round := w.loop(loop, label).round
	return !w.lost && round.has(none, marked, 0)
}

// asksAgain reports whether a loop asks elsewhere whether a context has ended, or leaves when a call with it fails.
func asksAgain(c *check, loop *ast.ForStmt, ctx types.Object, clause *ast.CommClause) (asks bool) {
	l := &retryLoop{stmt: loop, body: loop.Body}
	own(loop.Body, func(n ast.Node) {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			asks = asks || contextEnd.MatchString(n.Sel.Name) && c.object(n.X) == ctx && !within(clause.Comm, n.Pos())
		case *ast.CallExpr:
			given := slices.ContainsFunc(n.Args, func(e ast.Expr) bool { return c.object(e) == ctx })
			asks = asks || given && failureLeaves(c.unit, l, n)
		case *ast.AssignStmt: // done = nil, flags
			asks = asks || within(clause, n.Pos())
		}
	})
	return asks
}

// neverCounted returns the number in the condition of a loop, if the loop changes nothing in it.
func neverCounted(c *check, l *retryLoop) (v *types.Var) {
	loop, is := l.stmt.(*ast.ForStmt)
	if !is {
		return nil
	}
	b, is := loop.Cond.(*ast.BinaryExpr)
	if !is || !compares(b.Op) {
		return nil
	}
	for _, e := range []ast.Expr{b.X, b.Y} {
		of, isVar := c.object(e).(*types.Var)
		switch {
		case c.info.Types[e].Value != nil:
		case !isVar || of.IsField() || !isInteger(of.Type()) || of.Parent() == c.pkg.Scope() || c.changesIn(of, l.code()) || slices.Contains(c.values[of], nil) && !changedBefore(c, of, loop):
			return nil
		default:
			v = of
		}
	}
	return v
}

// changedBefore reports whether a variable is changed by the statements before a loop alone.
func changedBefore(c *check, v *types.Var, loop ast.Node) bool {
	return !slices.ContainsFunc(c.uses[v], func(use inspector.Cursor) bool {
		un, is := use.Parent().Node().(*ast.UnaryExpr)
		return is && un.Op == token.AND || within(loop, use.Node().Pos()) && c.changesIn(v, loop)
	})
}

// lostInHelper returns a caller of the function without a context in which a fresh one is made, and the context that it has, if each
// caller has one.
func lostInHelper(c *check, at inspector.Cursor, call *ast.CallExpr) (by, of string) {
	fn, _, _ := enclosing(at)
	decl, is := fn.(*ast.FuncDecl)
	if !is || decl.Name.IsExported() || c.asValue[declared(c.unit, decl)] || outlives.MatchString(decl.Name.Name) {
		return "", ""
	}
	for _, run := range c.runners[fn] {
		caller, found := c.root.FindNode(run)
		if !found {
			return "", ""
		}
		name, _ := c.contextInScope(caller)
		outer := c.enclosingDecl(run)
		if name == "" || outer == nil || c.meansToOutlive(caller, run) {
			return "", ""
		}
		by, of = outer.Name.Name, name
	}
	return by, of
}
