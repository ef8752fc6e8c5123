package gabionvet

import (
	"cmp"
	"go/ast"
	"go/token"
	"go/types"
	"regexp"
	"slices"

	"golang.org/x/tools/go/ast/inspector"
)

// answerNotTaken is G127.
func answerNotTaken(c *check) {
	for _, r := range c.repeats {
		node, at, is := parameterOfObject(c.unit, r.ch)
		if !is {
			continue
		}
		for _, call := range c.runners[node] {
			if at < len(call.Args) {
				unbuffered(c, call.Args[at], source(call.Fun))
			}
		}
	}
	for ch, block := range channels(c) {
		send, starts := sendsOf(c, ch)
		if send == nil {
			continue
		}
		w := &taking{c: c, ch: ch, starts: starts}
		if rest := w.block(block, 0); rest > 0 {
			w.left = max(w.left, rest)
		}
		switch sel := leavesWithout(c, ch); {
		case w.lost || w.left == 0:
		case sel != nil:
			c.report(send, nil, "nothing receives from %s when the select on line %d returns for another reason: the goroutine stays here for ever, with all that it holds, once for each timeout; "+
				"give the channel room for each result: make(chan T, 1)", ch.Name(), c.fset.Position(sel.Pos()).Line)
		default:
			c.report(send, nil, "more goroutines send to %s than results are received on some path: the others stay here for ever, with all that they hold; "+
				"give the channel room for each result: make(chan T, n)", ch.Name())
		}
	}
}

func parameterOfObject(u *unit, obj types.Object) (node ast.Node, at int, is bool) {
	if v, isVar := obj.(*types.Var); isVar {
		return parameterNode(u, v)
	}
	return nil, 0, false
}

// unbuffered reports where a channel without room is made that a hedge is given.
func unbuffered(c *check, ch ast.Expr, by string) {
	for _, from := range sources(c.unit, ch, nil) {
		made, is := from.(*ast.CallExpr)
		if is && len(made.Args) == 1 && source(made.Fun) == "make" {
			c.report(made, nil, "%s starts several goroutines that send to this channel and takes the first answer: the others stay there for ever, with all that they hold, once for each call; "+
				"give the channel room for each result: make(chan T, n)", by)
		}
	}
}

// channels are the local variables whose only value is a channel without room, with what comes after in their block.
func channels(c *check) map[*types.Var][]ast.Stmt {
	found := map[*types.Var][]ast.Stmt{}
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
		block, is := at.Parent().Parent().Node().(*ast.BlockStmt)
		if _, isChan := v.Type().Underlying().(*types.Chan); is && isChan && !ofMain(c, at) {
			found[v] = block.List[slices.Index(block.List, ast.Stmt(as))+1:]
		}
	})
	return found
}

// ofMain reports whether a place is in the function after which the program ends.
func ofMain(c *check, at inspector.Cursor) bool {
	fn, _, _ := enclosing(at)
	_, name, _ := functionOf(fn)
	return name == "main" && c.pkg.Name() == "main"
}

// sendsOf returns where goroutines send their result to a channel, if nothing but sends and receives are done with it, and what starts them.
func sendsOf(c *check, ch *types.Var) (send *ast.SendStmt, starts map[ast.Node]bool) {
	starts = map[ast.Node]bool{}
	for _, use := range c.uses[ch] {
		switch p := use.Parent().Node().(type) {
		case *ast.SendStmt:
			if p.Chan != ast.Expr(use.Node().(*ast.Ident)) || !goes(c, use.Parent(), starts) {
				return nil, nil
			}
			send = p
		case *ast.UnaryExpr:
			if p.Op != token.ARROW {
				return nil, nil
			}
		case *ast.CallExpr: // go find(ctx, ch)
			s := sendOfGo(c, use, p)
			if s == nil {
				return nil, nil
			}
			send = s
			starts[use.Parent().Parent().Node()] = true
		default:
			return nil, nil
		}
	}
	return send, starts
}

// goes reports whether a send is the last thing of a function literal, or before a return, that go runs, itself or by its variable. It notes
// the go statements.
func goes(c *check, send inspector.Cursor, starts map[ast.Node]bool) bool {
	for e := range send.Enclosing((*ast.FuncLit)(nil), (*ast.ForStmt)(nil), (*ast.RangeStmt)(nil), (*ast.CommClause)(nil), (*ast.FuncDecl)(nil)) {
		lit, is := e.Node().(*ast.FuncLit)
		if !is || !endsThere(lit.Body, send.Node().(*ast.SendStmt)) {
			return false
		}
		switch p := e.Parent().Node().(type) {
		case *ast.CallExpr:
			if _, isGo := e.Parent().Parent().Node().(*ast.GoStmt); isGo && p.Fun == ast.Expr(lit) {
				starts[e.Parent().Parent().Node()] = true
				return true
			}
		case *ast.AssignStmt:
			v, is := c.object(p.Lhs[0]).(*types.Var)
			if is && len(p.Lhs) == 1 && onlyGoes(c, v) {
				for _, use := range c.uses[v] {
					starts[use.Parent().Parent().Node()] = true
				}
				return true
			}
		}
		return false
	}
	return false
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

// leavesWithout returns a select that receives from a channel and has another case that does not.
func leavesWithout(c *check, ch *types.Var) *ast.SelectStmt {
	for _, use := range c.uses[ch] {
		for e := range use.Enclosing((*ast.CommClause)(nil), (*ast.FuncLit)(nil)) {
			clause, is := e.Node().(*ast.CommClause)
			if !is || clause.Comm == nil || !within(clause.Comm, use.Node().Pos()) {
				break
			}
			sel := e.Parent().Parent().Node().(*ast.SelectStmt)
			for _, other := range sel.Body.List {
				if other := other.(*ast.CommClause); other != clause && !c.usesObject(other, ch) && returns(other.Body) {
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
	for at := range every[*ast.GoStmt](c.unit) {
		fn, _, body := enclosing(at)
		if body == nil || waitsFor(c, body) {
			continue
		}
		for _, call := range calls(at.Node(), true) {
			if len(call.Args) == 0 || !isContext(c.typeOf(call.Args[0])) || !c.isRemote(call) && !isDynamic(c.unit, call) && !givesContextOut(c.unit, call) && !takesRequestContext(c, call) {
				continue
			}
			for _, from := range append(sources(c.unit, call.Args[0], nil), call.Args[0]) {
				if ofHandler(c, from, 0) {
					_, name, _ := functionOf(fn)
					name = cmp.Or(name, "the handler")
					c.report(call, nil, "this goroutine goes on when %s has returned, and net/http ends the request's context then: %s is cut short, now and then, whenever the answer is faster; "+
						"give it context.WithoutCancel(ctx), with a timeout of its own", name, source(call.Fun))
					break
				}
			}
		}
	}
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
