package gabionvet

import (
	"go/ast"
	"go/token"
	"go/types"
	"regexp"
	"slices"
)

// findOKs finds the variables of a loop's condition that the loop sets after a success.
func findOKs(u *unit, l *retryLoop) {
	head, is := l.stmt.(*ast.ForStmt)
	if !is || head.Cond == nil {
		return
	}
	ast.Inspect(head.Cond, func(n ast.Node) bool {
		not, is := n.(*ast.UnaryExpr)
		if !is || not.Op != token.NOT {
			return true
		}
		v, is := u.object(not.X).(*types.Var)
		if !is || v.IsField() {
			return true
		}
		for _, value := range u.values[v] {
			b, is := value.(*ast.BinaryExpr)
			tv := u.info.Types[value]
			if is && b.Op == token.EQL && u.isNil(b.Y) && l.errs[u.object(b.X)] || tv.Value != nil && tv.Value.ExactString() == "true" && within(l.body, value.Pos()) {
				l.oks[v] = true
			}
		}
		return true
	})
}

func (u *unit) findWaits(l *retryLoop) {
	if r, is := l.stmt.(*ast.RangeStmt); is && isTick(u, r.X) {
		l.waits = append(l.waits, wait{r.X, tick(u, r.X), true})
	}
	ast.Inspect(l.body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit, *ast.GoStmt:
			return false
		case *ast.UnaryExpr:
			if n.Op == token.ARROW && isTick(u, n.X) {
				l.waits = append(l.waits, wait{n, tick(u, n.X), !selects(u, n)})
				return false
			}
		case *ast.CallExpr:
			if d, deaf, is := pause(u, n, 0); is {
				l.waits = append(l.waits, wait{n, d, deaf})
			}
		}
		return true
	})
}

// isTick reports whether an expression is the channel of a timer or ticker.
func isTick(u *unit, e ast.Expr) bool {
	t := u.typeOf(e)
	if t == nil {
		return false
	}
	ch, is := t.Underlying().(*types.Chan)
	return is && typeName(ch.Elem()) == "time.Time"
}

// tick is how long a channel of a timer or ticker waits; if that is not seen, it is the channel itself.
func tick(u *unit, e ast.Expr) ast.Expr {
	of := ast.Unparen(e)
	if sel, is := of.(*ast.SelectorExpr); is && sel.Sel.Name == "C" {
		of = sel.X
	}
	for _, from := range sources(u, of, nil) {
		if call, is := from.(*ast.CallExpr); is && len(call.Args) == 1 && u.is(call, "time.NewTicker", "time.Tick", "time.After", "time.NewTimer") {
			return call.Args[0]
		}
	}
	return e
}

// selects reports whether a receive is one of several cases of a select.
func selects(u *unit, receive ast.Expr) bool {
	at, found := u.root.FindNode(receive)
	if !found {
		return true
	}
	for e := range at.Enclosing((*ast.SelectStmt)(nil), (*ast.CommClause)(nil)) {
		if clause, is := e.Node().(*ast.CommClause); is {
			if clause.Comm == nil || !within(clause.Comm, receive.Pos()) {
				return false
			}
			continue
		}
		return len(e.Node().(*ast.SelectStmt).Body.List) > 1
	}
	return false
}

var pauses = regexp.MustCompile(`(?i)^(sleep|pause|wait|delay)$`)

// pause reports whether a call waits for a time: time.Sleep, a function of the package that does, or a
// function value or method that is named so and takes a duration. Deaf is whether nothing ends it.
func pause(u *unit, call *ast.CallExpr, depth int) (d ast.Expr, deaf, is bool) {
	if len(call.Args) == 1 && u.is(call, "time.Sleep") {
		return call.Args[0], true, true
	}
	if t := u.targets[call]; t != nil && depth < farthest {
		if u.isRemote(call) || !takesDuration(u, call) && !waits.MatchString(t.name) {
			return nil, false, false
		}
		deaf = !hearsEnd(t.body)
		for _, inner := range directCalls(t.body) {
			_, innerDeaf, pauses := pause(u, inner, depth+1)
			if pauses || u.is(inner, "time.After", "time.NewTimer") {
				is, deaf = true, deaf && (innerDeaf || !pauses)
			}
		}
		return call, deaf, is
	}
	id := calledName(call)
	if id == nil || !pauses.MatchString(id.Name) || !takesDuration(u, call) {
		return nil, false, false
	}
	sig, isFunc := signature(u.typeOf(call.Fun))
	return call.Args[len(call.Args)-1], isFunc && !takesContext(sig), true
}

var waits = regexp.MustCompile(`(?i)sleep|pause|wait|delay|back_?off`)

func takesDuration(u *unit, call *ast.CallExpr) bool {
	return slices.ContainsFunc(call.Args, func(arg ast.Expr) bool { return typeName(u.typeOf(arg)) == "time.Duration" })
}

// hearsEnd reports whether code asks whether a context has ended. A method Done that is given something is of something else.
func hearsEnd(n ast.Node) bool {
	other := map[*ast.Ident]bool{}
	return has(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			if sel, is := n.Fun.(*ast.SelectorExpr); is && len(n.Args) > 0 && (sel.Sel.Name == "Done" || sel.Sel.Name == "Err") {
				other[sel.Sel] = true
			}
		case *ast.Ident:
			return contextEnd.MatchString(n.Name) && !other[n]
		}
		return false
	})
}
