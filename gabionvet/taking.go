package gabionvet

import (
	"go/ast"
	"go/token"
	"go/types"
)

// A taking follows the paths after a channel is made, and counts for each what was sent to it, or will be, and was not received.
type taking struct {
	c      *check
	ch     *types.Var
	starts map[ast.Node]bool // each of these go statements sends one result
	left   int               // what is left where the worst path ends
	lost   bool              // a path goes where it is not followed
	loops  []ast.Stmt
}

// gone is what the state is after a path has ended.
const gone = -1 << 20

func (w *taking) block(list []ast.Stmt, in int) int {
	for _, s := range list {
		if in == gone {
			return gone
		}
		in = w.stmt(s, in)
	}
	return in
}

// stmt returns how many results the worst path that comes out of a statement has left.
func (w *taking) stmt(s ast.Stmt, in int) int {
	switch s := s.(type) {
	case nil:
		return in
	case *ast.BlockStmt:
		return w.block(s.List, in)
	case *ast.IfStmt:
		in = w.node(s.Cond, w.stmt(s.Init, in))
		return max(w.block(s.Body.List, in), w.stmt(s.Else, in))
	case *ast.SelectStmt:
		out := gone
		for _, clause := range s.Body.List {
			clause := clause.(*ast.CommClause)
			out = max(out, w.block(clause.Body, w.node(clause.Comm, in)))
		}
		return out
	case *ast.SwitchStmt:
		return w.clauses(s.Body, w.node(s.Tag, w.stmt(s.Init, in)))
	case *ast.TypeSwitchStmt:
		return w.clauses(s.Body, w.node(s.Assign, w.stmt(s.Init, in)))
	case *ast.ForStmt, *ast.RangeStmt:
		return w.loop(s, in)
	case *ast.ReturnStmt:
		w.left = max(w.left, w.node(s, in))
		return gone
	case *ast.BranchStmt:
		if s.Tok == token.CONTINUE && s.Label == nil && len(w.loops) == 0 { // the channel is made in the loop
			w.left = max(w.left, in)
			return gone
		}
		w.lost = true
		return gone
	case *ast.LabeledStmt:
		w.lost = true
		return gone
	case *ast.ExprStmt:
		if call, is := ast.Unparen(s.X).(*ast.CallExpr); is && w.c.neverReturns(call) {
			return gone
		}
	}
	return w.node(s, in)
}

func (w *taking) clauses(body *ast.BlockStmt, in int) int {
	out, hasDefault := gone, false
	for _, clause := range body.List {
		clause := clause.(*ast.CaseClause)
		hasDefault = hasDefault || clause.List == nil
		out = max(out, w.block(clause.Body, in))
	}
	if !hasDefault {
		out = max(out, in)
	}
	return out
}

// loop follows two rounds. What a loop without starts receives may be all.
func (w *taking) loop(s ast.Stmt, in int) int {
	if !w.c.usesObject(s, w.ch) && !w.startsIn(s) {
		return in
	}
	w.loops = append(w.loops, s)
	body := loopBody(s).List
	if r, is := s.(*ast.RangeStmt); is && w.c.object(r.X) == types.Object(w.ch) || w.left == 0 && in > 1 && !w.startsIn(s) && !w.leavesFirst(s) {
		in = 0
	}
	once := w.block(body, in)
	out := once
	if once != gone {
		out = w.block(body, once)
	}
	w.loops = w.loops[:len(w.loops)-1]
	if !w.startsIn(s) {
		return 0
	}
	if f, is := s.(*ast.ForStmt); is && f.Cond == nil {
		return gone
	}
	return max(in, once, out)
}

// leavesFirst reports whether a loop that receives may return after the first result that is a success.
func (w *taking) leavesFirst(s ast.Stmt) (leaves bool) {
	return endsWithSuccess(w.c.unit, s)
}

func (w *taking) startsIn(n ast.Node) bool {
	return has(n, func(n ast.Node) bool { return w.starts[n] })
}

// node counts what happens in something without paths.
func (w *taking) node(n ast.Node, in int) int {
	if n == nil {
		return in
	}
	ast.Inspect(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit, *ast.DeferStmt:
			w.lost = w.lost || w.receivesIn(n)
			return false
		case *ast.GoStmt:
			if w.starts[n] {
				in++
			}
			w.lost = w.lost || w.receivesIn(n)
			return false
		case *ast.UnaryExpr:
			if n.Op != token.ARROW || w.c.object(n.X) != types.Object(w.ch) {
				break
			}
			in--
		}
		return true
	})
	return in
}

// receivesIn reports whether other code, that runs at another time, receives.
func (w *taking) receivesIn(n ast.Node) bool {
	return has(n, func(u *ast.UnaryExpr) bool { return u.Op == token.ARROW && w.c.object(u.X) == types.Object(w.ch) })
}
