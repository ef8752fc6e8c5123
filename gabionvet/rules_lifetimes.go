package gabionvet

import (
	"go/ast"
	"regexp"

	"golang.org/x/tools/go/ast/inspector"
)

var derive = []string{
	"context.WithCancel", "context.WithTimeout", "context.WithDeadline",
	"context.WithCancelCause", "context.WithTimeoutCause", "context.WithDeadlineCause", "os/signal.NotifyContext",
}

// deferInLoop is G118.
func deferInLoop(c *check) {
	c.root.Inspect([]ast.Node{(*ast.DeferStmt)(nil)}, func(at inspector.Cursor) bool {
		d := at.Node().(*ast.DeferStmt)
		what := c.held(d.Call)
		if what == "" {
			return true
		}
		fn, _, _ := enclosing(at)
		for e := range at.Enclosing((*ast.ForStmt)(nil), (*ast.RangeStmt)(nil)) {
			if user, _, _ := enclosing(e); user != fn || !within(loopBody(e.Node()), d.Pos()) {
				break
			}
			if c.comesRound(e, d) {
				c.report(d, nil, "this defer runs when the function returns, not when the iteration ends: each time round holds one more %s; "+
					"put the body of the loop into a function of its own, or do it at the end of the iteration", what)
			}
			break
		}
		return true
	})
}

func loopBody(n ast.Node) *ast.BlockStmt {
	switch n := n.(type) {
	case *ast.ForStmt:
		return n.Body
	case *ast.RangeStmt:
		return n.Body
	}
	return nil
}

// held says what a deferred call gives back.
func (c *check) held(call *ast.CallExpr) string {
	if id, is := call.Fun.(*ast.Ident); is && len(call.Args) == 0 {
		for _, value := range c.values[c.object(id)] {
			if made, is := value.(*ast.CallExpr); is && c.is(made, derive...) {
				return "context and its timer"
			}
		}
		return ""
	}
	sel, is := call.Fun.(*ast.SelectorExpr)
	if !is || sel.Sel.Name != "Close" {
		return ""
	}
	if body, is := sel.X.(*ast.SelectorExpr); is && body.Sel.Name == "Body" && isResponse(c.typeOf(body.X)) {
		return "body, and with it a connection"
	}
	switch typeName(c.typeOf(sel.X)) {
	case "database/sql.Rows", "database/sql.Conn", "net.Conn", "github.com/jackc/pgx.Rows":
		return "connection"
	}
	return ""
}

// comesRound reports whether a loop can come to a next iteration after a statement.
func (c *check) comesRound(loop inspector.Cursor, d *ast.DeferStmt) bool {
	label := ""
	if l, is := loop.Parent().Node().(*ast.LabeledStmt); is {
		label = l.Label.Name
	}
	w := &walk{u: c.unit, flag: func(n ast.Node) uint8 {
		if n == ast.Node(d) {
			return marked
		}
		return 0
	}}
	e := w.loop(loop.Node().(ast.Stmt), label)
	return !w.lost && e.round.has(none, marked, 0)
}

// transportPerCall is G119.
func transportPerCall(c *check) {
	c.root.Inspect([]ast.Node{(*ast.CompositeLit)(nil), (*ast.CallExpr)(nil)}, func(at inspector.Cursor) bool {
		switch n := at.Node().(type) {
		case *ast.CompositeLit:
			if typeName(c.typeOf(n)) != "net/http.Transport" || mentions(n, oneShot) {
				return true
			}
		case *ast.CallExpr:
			if !c.is(n, "(net/http.Transport).Clone") {
				return true
			}
		}
		where := c.runsAgain(at)
		if where == "" {
			return true
		}
		_, _, body := enclosing(at)
		if mentions(body, oneShot) || c.escapes(at, 0) {
			return true
		}
		c.report(at.Node(), nil, "this http.Transport is made anew %s: no connection is ever used again, and idle ones stay open until the server closes them; "+
			"make one Transport, or Client, and share it", where)
		return true
	})
}

var oneShot = regexp.MustCompile(`^(DisableKeepAlives|CloseIdleConnections|IdleConnTimeout)$`)

// runsAgain says for what code runs again and again: a request, an iteration, an attempt.
func (c *check) runsAgain(at inspector.Cursor) string {
	fn, typ, _ := enclosing(at)
	for e := range at.Enclosing((*ast.ForStmt)(nil), (*ast.RangeStmt)(nil)) {
		if user, _, _ := enclosing(e); user == fn && within(loopBody(e.Node()), at.Node().Pos()) {
			return "in each iteration"
		}
		break
	}
	if c.isHandlerType(typ) {
		return "for each request"
	}
	if c.isWork(fn) {
		return "on each attempt"
	}
	return ""
}
