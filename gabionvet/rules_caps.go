package gabionvet

import (
	"go/ast"
	"go/token"
	"go/types"
	"regexp"
	"slices"
)

// waitWithoutCap is G139. The loop may be one that goes on after a success too, as those that connect again.
func waitWithoutCap(c *check) {
	loops := slices.Clone(c.loops)
	for at, loop := range every[*ast.ForStmt](c.unit) {
		l := &retryLoop{stmt: loop, body: loop.Body, cursor: at}
		c.findWaits(l)
		l.waits = slices.DeleteFunc(l.waits, func(w wait) bool { return innermost(c, w.node) != ast.Node(loop) })
		loops = append(loops, l)
	}
	for _, l := range loops {
		tellOverflow(c, l)
		if len(l.waits) == 0 || counted(c, l, true) {
			continue
		}
		for _, w := range l.waits {
			if g := (&growth{c: c, l: l, seen: map[types.Object]bool{}}); g.of(w.d) && g.doubles && !g.capped {
				c.report(w.node, nil, "this wait doubles for as long as the outage lasts, and nothing caps it: after an outage of an hour the loop may sleep for another hour, while all is well again; "+
					"write min(%s, limit)", source(w.d))
				break
			}
		}
	}
}

// innermost returns the loop in which a node stands.
func innermost(c *check, n ast.Node) ast.Node {
	if at, found := c.root.FindNode(n); found {
		for e := range at.Enclosing((*ast.ForStmt)(nil), (*ast.RangeStmt)(nil)) {
			return e.Node()
		}
	}
	return nil
}

// counted reports whether a loop compares something that changes in it, as a number of attempts, or with times how long it waits.
func counted(c *check, l *retryLoop, times bool) (is bool) {
	if _, ranges := l.stmt.(*ast.RangeStmt); ranges {
		return true
	}
	ast.Inspect(l.code(), func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			is = is || c.is(n, "time.Since", "time.Until", "(time.Time).After", "(time.Time).Before", "(time.Time).Sub")
		case *ast.BinaryExpr:
			if t := c.typeOf(n.X); !compares(n.Op) || t == nil || !isInteger(t) || !times && typeName(t) == "time.Duration" {
				break
			}
			first := isZero(c, n.X) || isZero(c, n.Y)
			ast.Inspect(n, func(n ast.Node) bool {
				id, isIdent := n.(*ast.Ident)
				v, isVar := c.object(id).(*types.Var)
				is = is || isIdent && isVar && c.changesIn(v, l.code()) && !(first && countsUp(c, l, v))
				return true
			})
		}
		return !is
	})
	return is
}

// countsUp reports whether a loop adds to a variable, so that a comparison with 0 is about the first attempt and no bound.
func countsUp(c *check, l *retryLoop, v *types.Var) bool {
	return has(l.code(), func(s *ast.IncDecStmt) bool { return s.Tok == token.INC && c.object(s.X) == types.Object(v) })
}

func compares(op token.Token) bool {
	return slices.Contains([]token.Token{token.LSS, token.LEQ, token.GTR, token.GEQ, token.EQL, token.NEQ}, op)
}

func isZero(c *check, e ast.Expr) bool {
	v := c.info.Types[e].Value
	return v != nil && v.ExactString() == "0"
}

// A growth is how a wait grows from attempt to attempt.
type growth struct {
	c               *check
	l               *retryLoop
	seen            map[types.Object]bool
	doubles, capped bool
}

// of reads an expression, and what its variables are given. It reports whether all of it is seen.
func (g *growth) of(e ast.Expr) (seen bool) {
	if e == nil {
		return false
	}
	seen = true
	ast.Inspect(e, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			seen = false
		case *ast.CallExpr:
			switch {
			case g.c.is(n, "math.Pow", "math.Exp2"):
				g.doubles = g.doubles || g.changes(n.Args[len(n.Args)-1])
			case !g.c.info.Types[n.Fun].IsType() && !g.c.draws(n):
				seen = false // min, or what may be one
			}
		case *ast.BinaryExpr:
			g.doubles = g.doubles || n.Op == token.SHL && g.changes(n.Y)
		case *ast.Ident:
			if v, is := g.c.info.Uses[n].(*types.Var); is && !g.seen[v] {
				g.seen[v] = true
				seen = seen && g.variable(v)
			}
		}
		return seen
	})
	return seen
}

func (g *growth) variable(v *types.Var) bool {
	g.capped = g.capped || limitName.MatchString(v.Name())
	if v.IsField() || v.Parent() == g.c.pkg.Scope() {
		return true
	}
	ast.Inspect(g.l.code(), func(n ast.Node) bool {
		as, is := n.(*ast.AssignStmt)
		if !is || len(as.Lhs) != 1 || g.c.object(as.Lhs[0]) != types.Object(v) {
			return true
		}
		b, _ := as.Rhs[0].(*ast.BinaryExpr)
		g.doubles = g.doubles || as.Tok == token.MUL_ASSIGN || as.Tok == token.SHL_ASSIGN ||
			as.Tok == token.ASSIGN && b != nil && (b.Op == token.MUL || b.Op == token.SHL) && mentionsObject(g.c.unit, b, v)
		return true
	})
	for _, value := range g.c.values[v] {
		if value != nil && !g.of(value) {
			return false
		}
	}
	return true
}

var limitName = regexp.MustCompile(`(?i)max|limit|cap|ceil`)

// changes reports whether an expression is another one on each attempt.
func (g *growth) changes(e ast.Expr) bool {
	return has(e, func(id *ast.Ident) bool {
		v, isVar := g.c.object(id).(*types.Var)
		return isVar && g.c.changesIn(v, g.l.code())
	})
}
