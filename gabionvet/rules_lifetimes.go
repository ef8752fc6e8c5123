package gabionvet

import (
	"go/ast"
	"go/types"
	"regexp"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/ast/inspector"
)

var derive = []string{
	"context.WithCancel", "context.WithTimeout", "context.WithDeadline",
	"context.WithCancelCause", "context.WithTimeoutCause", "context.WithDeadlineCause", "os/signal.NotifyContext",
}

// deferInLoop is G118.
func deferInLoop(c *check) {
	for at, d := range every[*ast.DeferStmt](c.unit) {
		what := c.held(d.Call)
		if what == "" {
			continue
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
	}
}

var closeName = regexp.MustCompile(`^Close$`)

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
	if lit, is := call.Fun.(*ast.FuncLit); is {
		for _, s := range lit.Body.List { // and not under a condition, as where the last one is ended before
			var e ast.Expr
			switch s := s.(type) {
			case *ast.ExprStmt:
				e = s.X
			case *ast.AssignStmt: // _ = resp.Body.Close()
				e = s.Rhs[0]
			}
			if inner, is := e.(*ast.CallExpr); is && c.held(inner) != "" {
				return c.held(inner)
			}
		}
		return ""
	}
	if t := c.targets[call]; t != nil && len(call.Args) > 0 && mentions(t.body, closeName) {
		arg := call.Args[0]
		if sel, is := arg.(*ast.SelectorExpr); is && sel.Sel.Name == "Body" {
			arg = sel.X
		}
		if isResponse(c.typeOf(arg)) {
			return "body, and with it a connection"
		}
	}
	if id, is := call.Fun.(*ast.Ident); is && len(call.Args) == 0 {
		for _, value := range c.values[c.object(id)] {
			if made, is := value.(*ast.CallExpr); is && c.is(made, derive...) {
				return "context and its timer"
			}
		}
		return ""
	}
	sel, is := call.Fun.(*ast.SelectorExpr)
	if is && sel.Sel.Name == "Rollback" && isTransaction(c.typeOf(sel.X)) {
		return "transaction, and with it a connection"
	}
	if !is || sel.Sel.Name != "Close" {
		return ""
	}
	if body, is := sel.X.(*ast.SelectorExpr); is && body.Sel.Name == "Body" && isResponse(c.typeOf(body.X)) {
		return "body, and with it a connection"
	}
	switch typeName(c.typeOf(sel.X)) {
	case "database/sql.Rows", "database/sql.Conn", "net.Conn", "crypto/tls.Conn", "github.com/jackc/pgx.Rows":
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
	transportByCall(c)
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

// contextLost is G121.
func contextLost(c *check) {
	c.eachCall(func(at inspector.Cursor, call *ast.CallExpr) {
		if !c.is(call, "context.Background", "context.TODO") {
			return
		}
		name, handler := c.contextInScope(at)
		if by, of := lostInHelper(c, at, call); by != "" && name == "" && !c.meansToOutlive(at, call) {
			c.report(call, nil, "%s has no context, so what it calls here goes on when the caller has given up: %s has one, %s; take a context as a parameter", c.enclosingDecl(call).Name.Name, by, of)
			return
		}
		if name == "" || !handler && !c.derivesTimeout(at) || c.meansToOutlive(at, call) {
			return
		}
		c.report(call, replaceFix(call, name), "%s drops %s: what is called here goes on when the caller has given up, has none of its deadline, and none of its trace; "+
			"pass %s, or context.WithoutCancel(%s) if it has to outlive it", source(call), name, name, name)
	})
}

func replaceFix(call *ast.CallExpr, name string) []analysis.SuggestedFix {
	return []analysis.SuggestedFix{{Message: "Pass " + name, TextEdits: []analysis.TextEdit{{Pos: call.Pos(), End: call.End(), NewText: []byte(name)}}}}
}

// derivesTimeout reports whether a call is the parent of a new timeout.
func (c *check) derivesTimeout(at inspector.Cursor) bool {
	p, is := at.Parent().Node().(*ast.CallExpr)
	return is && (c.is(p, "context.WithTimeout", "context.WithDeadline", "net/http.NewRequestWithContext") || c.leaves(p) && c.callee(p).Pkg() != c.pkg)
}

var outlives = regexp.MustCompile(`(?i)shutdown|close|cleanup|clean|release|unlock|rollback|stop|cancel|drain|detach|background|async|flush|log|audit|delete|remove|unregister|deregister|disconnect|teardown|revoke|leave|finish|abort|terminate|restore|undo|finali[sz]e|persist|defer|grace|kill|invalidate`)

// meansToOutlive reports whether a fresh context is there on purpose: in what is deferred or
// runs by itself, after the context ended, for what cleans up, or where there was none.
func (c *check) meansToOutlive(at inspector.Cursor, call *ast.CallExpr) bool {
	for e := range at.Enclosing() {
		switch n := e.Node().(type) {
		case *ast.DeferStmt, *ast.GoStmt:
			return true
		case *ast.CommClause:
			if mentions(n.Comm, contextEnd) && within(n, call.Pos()) && n.Comm != nil && !within(n.Comm, call.Pos()) {
				return true
			}
		case *ast.IfStmt:
			if mentions(n.Cond, contextEnd) || c.comparesContext(n.Cond) {
				return true
			}
		case *ast.FuncLit:
			return !c.isHandlerType(n.Type) // who runs it, and when, is not seen
		case *ast.FuncDecl:
			if outlives.MatchString(n.Name.Name) {
				return true
			}
			return c.feedsCleanup(at, n)
		case *ast.CallExpr:
			if n != call {
				if id := calledName(n); id != nil && outlives.MatchString(id.Name) {
					return true
				}
				if f := c.callee(n); f != nil && f.Pkg() != nil && quiet.MatchString(f.Pkg().Path()) {
					return true
				}
			}
		}
	}
	return true
}

var quiet = regexp.MustCompile(`^(log|log/slog|go\.opentelemetry\.io/.*|runtime/.*)$`)

// comparesContext reports whether a condition asks whether there is a context.
func (c *check) comparesContext(cond ast.Expr) bool {
	return has(cond, func(b *ast.BinaryExpr) bool { return isContext(c.typeOf(b.X)) || isContext(c.typeOf(b.Y)) })
}

// feedsCleanup reports whether the context that is made goes to something that cleans up,
// runs by itself, or is kept.
func (c *check) feedsCleanup(at inspector.Cursor, decl *ast.FuncDecl) bool {
	var to ast.Expr
	for e := range at.Enclosing((*ast.AssignStmt)(nil)) {
		to = e.Node().(*ast.AssignStmt).Lhs[0]
		break
	}
	if to == nil {
		return false
	}
	obj := c.object(to)
	if v, is := obj.(*types.Var); !is || v.IsField() {
		return true
	}
	in, _ := c.root.FindNode(decl.Body)
	for use := range in.Preorder((*ast.Ident)(nil)) {
		if c.info.Uses[use.Node().(*ast.Ident)] != obj {
			continue
		}
		for e := range use.Enclosing((*ast.CallExpr)(nil), (*ast.GoStmt)(nil), (*ast.DeferStmt)(nil), (*ast.FuncLit)(nil), (*ast.ReturnStmt)(nil), (*ast.KeyValueExpr)(nil)) {
			n, isCall := e.Node().(*ast.CallExpr)
			if !isCall {
				return true
			}
			if id := calledName(n); id != nil && outlives.MatchString(id.Name) {
				return true
			}
		}
	}
	return false
}
