package gabionvet

import (
	"go/ast"
	"go/token"
	"go/types"
	"regexp"

	"golang.org/x/tools/go/ast/inspector"
)

// endedBeforeRead is G128.
func endedBeforeRead(c *check) {
	c.root.Inspect([]ast.Node{(*ast.FuncDecl)(nil), (*ast.FuncLit)(nil)}, func(at inspector.Cursor) bool {
		_, _, body := functionOf(at.Node())
		if body == nil || !c.looksAt(body.Pos()) {
			return true
		}
		checkClosed(c, at.Node(), body)
		if ends := endedContexts(c.unit, body); len(ends) > 0 {
			checkEnded(c, at.Node(), body, func(e ast.Expr) bool { return ends[c.object(e)] }, "the deferred cancel ends its context when this function returns")
		}
		return true
	})
	for _, r := range c.regions {
		if !r.by.gabion || r.by.tx || r.short == "gabion.Open" || r.lit == nil || len(r.typ.Params.List) == 0 {
			continue
		}
		for _, id := range r.typ.Params.List[0].Names {
			own := c.info.Defs[id]
			checkEnded(c, r.lit, r.body, func(e ast.Expr) bool { return own != nil && c.object(e) == own }, r.short+" ends its context when the work returns (gabion.Open does not)")
		}
	}
}

func functionOf(n ast.Node) (typ *ast.FuncType, name string, body *ast.BlockStmt) {
	switch f := n.(type) {
	case *ast.FuncDecl:
		return f.Type, f.Name.Name, f.Body
	case *ast.FuncLit:
		return f.Type, "", f.Body
	}
	return nil, "", nil
}

// endedContexts are the contexts that a function makes and whose cancel it defers.
func endedContexts(u *unit, body *ast.BlockStmt) map[types.Object]bool {
	found := map[types.Object]bool{}
	deferred := map[types.Object]bool{}
	own(body, func(n ast.Node) {
		if d, is := n.(*ast.DeferStmt); is {
			ast.Inspect(d.Call, func(n ast.Node) bool {
				if call, is := n.(*ast.CallExpr); is && len(call.Args) == 0 {
					deferred[u.object(call.Fun)] = true
				}
				return true
			})
		}
	})
	own(body, func(n ast.Node) {
		as, is := n.(*ast.AssignStmt)
		if !is || len(as.Rhs) != 1 || len(as.Lhs) != 2 {
			return
		}
		if call, is := as.Rhs[0].(*ast.CallExpr); is && u.is(call, derive...) && deferred[u.object(as.Lhs[1])] && u.object(as.Lhs[1]) != nil {
			found[u.object(as.Lhs[0])] = true
		}
	})
	return found
}

// own visits the nodes of a function without those of function literals in it.
func own(body ast.Node, visit func(ast.Node)) {
	ast.Inspect(body, func(n ast.Node) bool {
		if _, is := n.(*ast.FuncLit); is && n != body {
			return false
		}
		if n != nil {
			visit(n)
		}
		return true
	})
}

// checkClosed reports what a function returns and whose Close it defers.
func checkClosed(c *check, fn ast.Node, body *ast.BlockStmt) {
	own(body, func(n ast.Node) {
		d, is := n.(*ast.DeferStmt)
		if !is {
			return
		}
		sel, is := d.Call.Fun.(*ast.SelectorExpr)
		if !is || sel.Sel.Name != "Close" {
			return
		}
		of := sel.X
		if inner, is := of.(*ast.SelectorExpr); is && inner.Sel.Name == "Body" {
			of = inner.X
		}
		v, is := c.object(of).(*types.Var)
		if !is || v.IsField() || !declaredIn(v, fn) || len(c.values[v]) != 1 {
			return
		}
		call, is := c.values[v][0].(*ast.CallExpr)
		if is && streamed(c, call) != "" && handsOut(c, v, fn, body) {
			c.report(d, nil, "%s is returned, and this closes it before the caller can read it; close it where it is read, or read it here", streamed(c, call))
		}
	})
}

// checkEnded reports what a function gets with a context that ends, and hands out unread.
func checkEnded(c *check, fn ast.Node, body *ast.BlockStmt, ends func(ast.Expr) bool, why string) {
	tell := func(call *ast.CallExpr) {
		c.report(call, nil, "%s is read after this function, but %s: reading it fails, or stops halfway when it is long; "+
			"read it here, or let the context live until it is closed", streamed(c, call), why)
	}
	own(body, func(n ast.Node) {
		switch n := n.(type) {
		case *ast.ReturnStmt:
			for _, e := range n.Results {
				if call, is := ast.Unparen(e).(*ast.CallExpr); is && len(n.Results) == 1 && streamed(c, call) != "" && givenContext(c, call, ends) {
					tell(call)
				}
			}
		case *ast.AssignStmt:
			call, is := ast.Unparen(n.Rhs[0]).(*ast.CallExpr)
			if !is || len(n.Rhs) != 1 || streamed(c, call) == "" || !givenContext(c, call, ends) {
				return
			}
			if v, is := c.object(n.Lhs[0]).(*types.Var); is && !v.IsField() && handsOut(c, v, fn, body) {
				tell(call)
			}
		}
	})
}

// streamed says what a call returns that is read later, while its context lives.
func streamed(c *check, call *ast.CallExpr) string {
	t := c.typeOf(call)
	if tuple, is := t.(*types.Tuple); is && tuple.Len() > 0 {
		t = tuple.At(0).Type()
	}
	switch typeName(t) {
	case "net/http.Response":
		return "the body of this answer"
	case "database/sql.Rows", "github.com/jackc/pgx.Rows":
		return "the rows of this query"
	case "database/sql.Row", "github.com/jackc/pgx.Row":
		return "the row of this query"
	}
	return ""
}

// givenContext reports whether a call is given a context, itself or in its request.
func givenContext(c *check, call *ast.CallExpr, is func(ast.Expr) bool) bool {
	for _, arg := range call.Args {
		if is(arg) {
			return true
		}
		if !isRequest(c.typeOf(arg)) {
			continue
		}
		from := []ast.Expr{arg}
		for _, value := range append(c.values[c.object(arg)], from...) {
			made, isCall := value.(*ast.CallExpr)
			for i := 0; isCall && i < len(made.Args); i++ {
				if is(made.Args[i]) {
					return true
				}
			}
		}
	}
	return false
}

// handsOut reports whether a function returns what a variable holds, or leaves it in a variable from outside, and does not read it.
func handsOut(c *check, v *types.Var, fn ast.Node, body *ast.BlockStmt) bool {
	out := false
	if !declaredIn(v, body) && !isNamedResult(c, v, fn) {
		for _, use := range c.uses[v] {
			out = out || !within(body, use.Node().Pos())
		}
	}
	for _, use := range c.uses[v] {
		if !within(body, use.Node().Pos()) {
			continue
		}
		at := use.Parent()
		if sel, is := at.Node().(*ast.SelectorExpr); is {
			switch sel.Sel.Name {
			case "Body":
				at = at.Parent()
				if inner, is := at.Node().(*ast.SelectorExpr); is && inner.Sel.Name == "Close" {
					continue
				}
				for { // return &Document{Body: resp.Body}, nil
					un, isUnary := at.Node().(*ast.UnaryExpr)
					_, isLit := at.Node().(*ast.CompositeLit)
					_, isField := at.Node().(*ast.KeyValueExpr)
					if !isLit && !isField && (!isUnary || un.Op != token.AND) {
						break
					}
					at = at.Parent()
				}
				if ret, is := at.Node().(*ast.ReturnStmt); is && !errorReturned(c, ret) {
					out = true
					continue
				}
				return false // read, or replaced
			case "Next", "Scan":
				return false
			case "Close":
				if !streams(v.Type()) {
					return false
				}
			}
			continue
		}
		switch p := at.Node().(type) {
		case *ast.ReturnStmt:
			out = out || !errorReturned(c, p)
		case *ast.CallExpr:
			if t := c.targets[p]; t == nil || mentions(t.body, readName) {
				return false
			}
		}
	}
	if isNamedResult(c, v, fn) {
		own(body, func(n ast.Node) {
			ret, is := n.(*ast.ReturnStmt)
			out = out || is && len(ret.Results) == 0
		})
	}
	return out
}

func streams(t types.Type) bool { return typeName(t) == "database/sql.Rows" || isResponse(t) }

var readName = regexp.MustCompile(`^(Body|ReadAll|Copy|NewDecoder|Next|Scan)$`)

func isNamedResult(c *check, v *types.Var, fn ast.Node) bool {
	typ, _, _ := functionOf(fn)
	return typ != nil && typ.Results != nil && within(typ.Results, v.Pos())
}

// errorReturned reports whether a return gives an error that is made there, so that the rest is not looked at.
func errorReturned(c *check, ret *ast.ReturnStmt) bool {
	if len(ret.Results) < 2 {
		return false
	}
	_, made := ret.Results[len(ret.Results)-1].(*ast.CallExpr)
	return made
}

// failureLost is G130.
func failureLost(c *check) {
	failureOnlySaid(c)
	for _, l := range c.loops {
		switch s := l.stmt.(type) {
		case *ast.ForStmt:
			if s.Cond == nil {
				continue
			}
		case *ast.LabeledStmt:
			continue
		}
		breaks := l.exit.broken.has(ok, 0, 0)
		if !l.exit.out.has(ok, 0, 0) && !breaks || !l.exit.round.has(failed, 0, 0) {
			continue
		}
		block, is := l.cursor.Parent().Node().(*ast.BlockStmt)
		if !is {
			continue
		}
		for i, s := range block.List[:max(0, len(block.List)-1)] {
			ret, isReturn := block.List[i+1].(*ast.ReturnStmt)
			if s != l.stmt || !isReturn || len(ret.Results) == 0 {
				continue
			}
			if e := ret.Results[len(ret.Results)-1]; isNoError(c, l, e) && (!breaks || c.isNil(e)) {
				c.report(ret, nil, "this returns no error when every attempt of the loop above it failed: the caller goes on as if %s had succeeded; "+
					"return the last attempt's error", called(l.attempts))
			}
		}
	}
}

// isNoError reports whether an error is surely nil after the attempts of a loop: it is written so, or nothing is ever
// assigned to it, as where the loop declares an err of its own.
func isNoError(c *check, l *retryLoop, e ast.Expr) bool {
	_, typ, _ := enclosing(l.cursor)
	if typ == nil || typ.Results == nil || len(typ.Results.List) == 0 || !isError(c.typeOf(typ.Results.List[len(typ.Results.List)-1].Type)) {
		return false
	}
	if c.isNil(e) {
		return true
	}
	v, is := c.object(e).(*types.Var)
	if !is || v.IsField() || !isError(v.Type()) || v.Kind() == types.ParamVar || !declaredIn(v, l.fn) {
		return false
	}
	for _, value := range c.values[v] {
		if value == nil || !c.isNil(value) {
			return false
		}
	}
	return true
}
