package gabionvet

import (
	"go/ast"
	"go/token"
	"go/types"
	"regexp"

	"golang.org/x/tools/go/ast/inspector"
)

// answerNotTaken is G127.
func answerNotTaken(c *check) {
	for ch := range channels(c) {
		send, several := sendsOf(c, ch)
		if send == nil {
			continue
		}
		if sel := leavesWithout(c, ch); sel != nil {
			c.report(send, nil, "nothing receives from %s when the select on line %d returns for another reason: the goroutine stays here for ever, with all that it holds, once for each timeout; "+
				"give the channel room for each result: make(chan T, 1)", ch.Name(), c.fset.Position(sel.Pos()).Line)
		} else if several && receivesOnce(c, ch) {
			c.report(send, nil, "several goroutines send to %s, and one result is received: the others stay here for ever, with all that they hold; "+
				"give the channel room for each result: make(chan T, n)", ch.Name())
		}
	}
}

// channels are the local variables whose only value is a channel without room.
func channels(c *check) map[*types.Var]bool {
	found := map[*types.Var]bool{}
	c.eachCall(func(at inspector.Cursor, call *ast.CallExpr) {
		id, is := call.Fun.(*ast.Ident)
		if !is || c.info.Uses[id] != types.Universe.Lookup("make") || len(call.Args) != 1 {
			return
		}
		as, is := at.Parent().Node().(*ast.AssignStmt)
		if !is || len(as.Lhs) != 1 {
			return
		}
		v, is := c.object(as.Lhs[0]).(*types.Var)
		if !is || v.IsField() || v.Parent() == c.pkg.Scope() || len(c.values[v]) != 1 {
			return
		}
		if _, is := v.Type().Underlying().(*types.Chan); is {
			found[v] = true
		}
	})
	return found
}

// sendsOf returns where goroutines send their result to a channel, if nothing but sends and receives are done with it. Several is
// whether more than one goroutine does.
func sendsOf(c *check, ch *types.Var) (send *ast.SendStmt, several bool) {
	started := 0
	work := map[*ast.FuncLit]bool{}
	for _, use := range c.uses[ch] {
		switch p := use.Parent().Node().(type) {
		case *ast.SendStmt:
			lit, times := goes(c, use.Parent())
			if p.Chan != ast.Expr(use.Node().(*ast.Ident)) || lit == nil {
				return nil, false
			}
			if send = p; !work[lit] {
				work[lit] = true
				started += times
			}
		case *ast.UnaryExpr:
			if p.Op != token.ARROW {
				return nil, false
			}
		case *ast.CallExpr: // go find(ctx, ch)
			s := sendOfGo(c, use, p)
			if s == nil {
				return nil, false
			}
			send = s
			started += 1 + loopsAround(use)
		default:
			return nil, false
		}
	}
	return send, started > 1
}

func loopsAround(at inspector.Cursor) (n int) {
	for e := range at.Enclosing((*ast.ForStmt)(nil), (*ast.RangeStmt)(nil), (*ast.FuncDecl)(nil), (*ast.FuncLit)(nil)) {
		switch e.Node().(type) {
		case *ast.FuncDecl, *ast.FuncLit:
			return n
		}
		n++
	}
	return n
}

// goes returns the function literal that ends with a send, as the last thing or before a return, and that go runs, itself or by its variable; and how often.
func goes(c *check, send inspector.Cursor) (lit *ast.FuncLit, times int) {
	for e := range send.Enclosing((*ast.FuncLit)(nil), (*ast.ForStmt)(nil), (*ast.RangeStmt)(nil), (*ast.CommClause)(nil), (*ast.FuncDecl)(nil)) {
		lit, is := e.Node().(*ast.FuncLit)
		if !is || !endsThere(lit.Body, send.Node().(*ast.SendStmt)) {
			return nil, 0
		}
		switch p := e.Parent().Node().(type) {
		case *ast.CallExpr:
			if _, isGo := e.Parent().Parent().Node().(*ast.GoStmt); isGo && p.Fun == ast.Expr(lit) {
				return lit, 1 + loopsAround(e.Parent())
			}
		case *ast.AssignStmt:
			v, is := c.object(p.Lhs[0]).(*types.Var)
			if is && len(p.Lhs) == 1 && onlyGoes(c, v) {
				for _, use := range c.uses[v] {
					times += 1 + loopsAround(use)
				}
				return lit, times
			}
		}
		return nil, 0
	}
	return nil, 0
}

// endsThere reports whether nothing but a return comes after a send: at the end of a function, or of a branch of it.
func endsThere(body *ast.BlockStmt, send *ast.SendStmt) bool {
	for i, s := range body.List {
		if s == ast.Stmt(send) {
			return i == len(body.List)-1 || returns(body.List[i+1:i+2])
		}
		branch, is := s.(*ast.IfStmt)
		for is && within(branch, send.Pos()) {
			if within(branch.Body, send.Pos()) {
				return endsThere(branch.Body, send)
			}
			if rest, isBlock := branch.Else.(*ast.BlockStmt); isBlock {
				return endsThere(rest, send)
			}
			branch, is = branch.Else.(*ast.IfStmt)
		}
	}
	return false
}

// sendOfGo returns where a function that go runs sends to the channel that it is given, if that is all that it does with it.
func sendOfGo(c *check, use inspector.Cursor, call *ast.CallExpr) (send *ast.SendStmt) {
	_, isGo := use.Parent().Parent().Node().(*ast.GoStmt)
	t := c.targets[call]
	if !isGo || t == nil {
		return nil
	}
	var param types.Object
	at := 0
	for _, field := range t.typ.Params.List {
		for _, id := range field.Names {
			if at < len(call.Args) && call.Args[at] == use.Node() {
				param = c.info.Defs[id]
			}
			at++
		}
	}
	for _, inner := range c.uses[param] {
		s, is := inner.Parent().Node().(*ast.SendStmt)
		if !is || !endsThere(t.body, s) {
			return nil
		}
		send = s
	}
	return send
}

// onlyGoes reports whether go runs all uses of a variable.
func onlyGoes(c *check, f *types.Var) bool {
	for _, use := range c.uses[f] {
		if _, is := use.Parent().Parent().Node().(*ast.GoStmt); !is {
			return false
		}
	}
	return len(c.uses[f]) > 0
}

// receivesOnce reports whether a function receives from a channel in one place, and not in a loop, or in a select whose cases all leave.
func receivesOnce(c *check, ch *types.Var) bool {
	n := 0
	for _, use := range c.uses[ch] {
		if p, is := use.Parent().Node().(*ast.UnaryExpr); is && p.Op == token.ARROW {
			n++
			if loopsAround(use) > 0 {
				return false
			}
		}
	}
	return n == 1
}

// leavesWithout returns a select that receives from a channel and has another case that returns without.
func leavesWithout(c *check, ch *types.Var) *ast.SelectStmt {
	for _, use := range c.uses[ch] {
		for e := range use.Enclosing((*ast.CommClause)(nil), (*ast.FuncLit)(nil)) {
			clause, is := e.Node().(*ast.CommClause)
			if !is || clause.Comm == nil || !within(clause.Comm, use.Node().Pos()) {
				break
			}
			sel := e.Parent().Parent().Node().(*ast.SelectStmt)
			for _, other := range sel.Body.List {
				if other := other.(*ast.CommClause); other != clause && !c.usesObject(other, ch) && (returns(other.Body) || receivesOnce(c, ch)) {
					return sel
				}
			}
			break
		}
	}
	return nil
}

func returns(body []ast.Stmt) bool {
	if len(body) == 0 {
		return false
	}
	_, is := body[len(body)-1].(*ast.ReturnStmt)
	return is
}

// requestOutlived is G131.
func requestOutlived(c *check) {
	c.root.Inspect([]ast.Node{(*ast.GoStmt)(nil)}, func(at inspector.Cursor) bool {
		fn, _, body := enclosing(at)
		if body == nil || !c.looksAt(at.Node().Pos()) || waitsFor(c, body) {
			return true
		}
		for _, call := range calls(at.Node(), true) {
			if len(call.Args) == 0 || !isContext(c.typeOf(call.Args[0])) || !c.isRemote(call) && !isDynamic(c.unit, call) && !takesRequestContext(c, call) {
				continue
			}
			for _, from := range append(sources(c.unit, call.Args[0], nil), call.Args[0]) {
				if ofHandler(c, from, 0) {
					_, name, _ := functionOf(fn)
					if name == "" {
						name = "the handler"
					}
					c.report(call, nil, "this goroutine goes on when %s has returned, and net/http ends the request's context then: %s is cut short, now and then, whenever the answer is faster; "+
						"give it context.WithoutCancel(ctx), with a timeout of its own", name, source(call.Fun))
					break
				}
			}
		}
		return true
	})
}

// takesRequestContext reports whether a call makes a request, or begins a statement.
func takesRequestContext(c *check, call *ast.CallExpr) bool {
	return c.is(call, "net/http.NewRequestWithContext") || c.leaves(call)
}

// ofHandler reports whether an expression is the context of a handler's request, or ends with it.
func ofHandler(c *check, e ast.Expr, depth int) bool {
	call, is := ast.Unparen(e).(*ast.CallExpr)
	switch {
	case !is || depth > farthest:
		return false
	case c.is(call, "(net/http.Request).Context"):
		return c.requestContext(call) == endless
	case c.is(call, derive...) || c.is(call, "context.WithValue"):
		for _, from := range sources(c.unit, call.Args[0], nil) {
			if ofHandler(c, from, depth+1) {
				return true
			}
		}
	}
	return false
}

var waitName = regexp.MustCompile(`^(Wait|Flush|Hijack)$`)

// waitsFor reports whether a function waits for something: for its goroutines, perhaps.
func waitsFor(c *check, body *ast.BlockStmt) (waits bool) {
	own(body, func(n ast.Node) {
		switch n := n.(type) {
		case *ast.GoStmt:
		case *ast.UnaryExpr:
			waits = waits || n.Op == token.ARROW
		case *ast.SelectStmt:
			waits = true
		case *ast.RangeStmt:
			t := c.typeOf(n.X)
			if t != nil {
				_, is := t.Underlying().(*types.Chan)
				waits = waits || is
			}
		case *ast.CallExpr:
			id := calledName(n)
			waits = waits || id != nil && waitName.MatchString(id.Name)
		}
	})
	return waits
}
