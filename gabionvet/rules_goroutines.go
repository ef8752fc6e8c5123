package gabionvet

import (
	"go/ast"
	"go/token"
	"go/types"

	"golang.org/x/tools/go/ast/inspector"
)

// answerNotTaken is G127.
func answerNotTaken(c *check) {
	for ch := range channels(c) {
		if send := soleSend(c, ch); send != nil {
			if sel := leavesWithout(c, ch); sel != nil {
				c.report(send, nil, "nothing receives from %s when the select on line %d returns for another reason: the goroutine stays here for ever, with all that it holds, once for each timeout; "+
					"give the channel room for each result: make(chan T, 1)", ch.Name(), c.fset.Position(sel.Pos()).Line)
			}
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

// soleSend returns where a goroutine sends its result to a channel: unconditionally, and nothing but
// sends and receives are done with the channel.
func soleSend(c *check, ch *types.Var) (send *ast.SendStmt) {
	for _, use := range c.uses[ch] {
		switch p := use.Parent().Node().(type) {
		case *ast.SendStmt:
			if p.Chan != ast.Expr(use.Node().(*ast.Ident)) || send != nil || !inGoroutine(c, use.Parent()) {
				return nil
			}
			send = p
		case *ast.UnaryExpr:
			if p.Op != token.ARROW {
				return nil
			}
		default:
			return nil
		}
	}
	return send
}

// inGoroutine reports whether a send is at the end of a function literal that go runs, itself or by its variable.
func inGoroutine(c *check, send inspector.Cursor) bool {
	body, is := send.Parent().Node().(*ast.BlockStmt)
	lit, isLit := send.Parent().Parent().Node().(*ast.FuncLit)
	if !is || !isLit || body.List[len(body.List)-1] != send.Node().(ast.Stmt) {
		return false
	}
	at := send.Parent().Parent()
	switch p := at.Parent().Node().(type) {
	case *ast.CallExpr:
		_, isGo := at.Parent().Parent().Node().(*ast.GoStmt)
		return isGo && p.Fun == ast.Expr(lit)
	case *ast.AssignStmt:
		v, is := c.object(p.Lhs[0]).(*types.Var)
		return is && len(p.Lhs) == 1 && onlyGoes(c, v)
	}
	return false
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
				if other := other.(*ast.CommClause); other != clause && returns(other.Body) && !c.usesObject(other, ch) {
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
