package gabionvet

import (
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"regexp"
	"slices"

	"golang.org/x/tools/go/ast/inspector"
)

// sameJitter is the part of G101 that finds jitter which every process draws alike.
func sameJitter(c *check) {
	for _, l := range c.loops {
		for _, w := range l.waits {
			if from := constantSource(c, w); from != nil {
				c.report(w.node, nil, "the jitter of this loop is drawn from %s, whose seed is constant: every process draws the same waits, so all of them come back together; "+
					"use the functions of math/rand/v2, as rand.N, which are seeded by themselves", source(from))
				break
			}
		}
	}
}

// constantSource returns the generator with a constant seed from which a wait is drawn.
func constantSource(c *check, w wait) (found *ast.CallExpr) {
	ast.Inspect(w.d, func(n ast.Node) bool {
		sel, is := n.(*ast.SelectorExpr)
		if name := typeNameOf(c, sel); !is || name != "math/rand.Rand" {
			return true
		}
		for _, from := range sources(c.unit, sel.X, nil) {
			made, is := from.(*ast.CallExpr)
			if !is || !c.is(made, "math/rand.New") || len(made.Args) != 1 {
				continue
			}
			for _, seed := range sources(c.unit, made.Args[0], nil) {
				if s, is := seed.(*ast.CallExpr); is && c.is(s, "math/rand.NewSource", "math/rand.NewPCG") && constants(c, s.Args) {
					found = made
				}
			}
		}
		return found == nil
	})
	return found
}

func typeNameOf(c *check, sel *ast.SelectorExpr) string {
	if sel == nil {
		return ""
	}
	return typeName(c.typeOf(sel.X))
}

func constants(c *check, all []ast.Expr) bool {
	return !slices.ContainsFunc(all, func(e ast.Expr) bool { return c.info.Types[e].Value == nil })
}

// endlessRecursion is the part of G102 that finds a function which calls itself as it was called.
func endlessRecursion(c *check) {
	for _, decl := range every[*ast.FuncDecl](c.unit) {
		if decl.Body == nil || remembers(c, decl.Body) {
			continue
		}
		sent := token.NoPos
		for _, call := range directCalls(decl.Body) {
			if c.sends(call) && sent == token.NoPos {
				sent = call.Pos()
			}
			t := c.targets[call]
			if t == nil || t.node != ast.Node(decl) || sent == token.NoPos || call.Pos() < sent || !asCalled(c, decl, call) {
				continue
			}
			c.report(call, nil, "%s calls itself with what it was called with, and nothing counts how often: as long as the server answers the same, it asks again, at once, until the stack or the caller's patience ends; "+
				"do it once more and no further", decl.Name.Name)
		}
	}
}

// asCalled reports whether a function passes its own parameters on, which nothing has changed, on the same receiver.
func asCalled(c *check, decl *ast.FuncDecl, call *ast.CallExpr) bool {
	if sel, is := ast.Unparen(call.Fun).(*ast.SelectorExpr); is {
		v, isVar := c.object(sel.X).(*types.Var)
		if !isVar || decl.Recv == nil || !within(decl.Recv, v.Pos()) {
			return false
		}
	}
	for i, arg := range call.Args {
		v, is := c.object(arg).(*types.Var)
		if !is || len(c.values[v]) > 0 {
			return false
		}
		if node, at, is := parameterNode(c.unit, v); !is || node != ast.Node(decl) || at != i {
			return false
		}
	}
	return true
}

// remembers reports whether code counts, or notes that it has been there.
func remembers(c *check, body *ast.BlockStmt) (found bool) {
	own(body, func(n ast.Node) {
		switch n := n.(type) {
		case *ast.IncDecStmt:
			found = true
		case *ast.AssignStmt:
			found = found || n.Tok != token.ASSIGN && n.Tok != token.DEFINE
			for _, e := range n.Rhs {
				v := c.info.Types[e].Value
				found = found || v != nil && v.Kind() == constant.Bool
			}
		case *ast.CallExpr:
			id := calledName(n)
			found = found || id != nil && (id.Name == "Add" || id.Name == "Store" || id.Name == "CompareAndSwap")
		}
	})
	return found
}

// sentElsewhere is the part of G111 that finds a POST which goes to a second server whatever became of it at the first.
func sentElsewhere(c *check) {
	for _, l := range c.failovers {
		for _, a := range l.attempts {
			if !c.asks(l) && !c.looksAtStatus(l.body) && createsIn(c, a) {
				tellElsewhere(c, a)
			}
		}
	}
	for at, s := range every[*ast.IfStmt](c.unit) {
		cond, is := s.Cond.(*ast.BinaryExpr)
		if !is || cond.Op != token.NEQ || !c.isNil(cond.Y) || !isError(c.typeOf(cond.X)) || mentions(s.Body, asksError) {
			continue
		}
		first := assignedBefore(at, s)
		if first == nil {
			continue
		}
		for _, again := range directCalls(s.Body) {
			if !sameElsewhere(c, first, again) {
				continue
			}
			if createsIn(c, first) {
				tellElsewhere(c, again)
			}
		}
	}
}

func tellElsewhere(c *check, again *ast.CallExpr) {
	c.report(again, nil, "this sends to a second server what the first may have done: after a timeout it is done at both, such as charging a card, and a key does not help, since each server knows only its own; "+
		"go to the second only after an error that says that nothing was done")
}

// createsIn reports whether a call sends a POST that creates something, or pays by an interface.
func createsIn(c *check, call *ast.CallExpr) bool {
	if f := c.callee(call); isDynamic(c.unit, call) && f != nil && pays.MatchString(f.Name()) {
		return true
	}
	return slices.ContainsFunc(reach(c.unit, call), func(at reached) bool {
		return len(at.call.Args) > 2 && c.is(at.call, "net/http.NewRequest", "net/http.NewRequestWithContext") && createsByPost(c, at)
	})
}

// assignedBefore returns the call whose error an if asks for, of the same statement or of the one before.
func assignedBefore(at inspector.Cursor, s *ast.IfStmt) *ast.CallExpr {
	init := s.Init
	if block, is := at.Parent().Node().(*ast.BlockStmt); is && init == nil {
		for i, stmt := range block.List {
			if stmt == ast.Stmt(s) && i > 0 {
				init = block.List[i-1]
			}
		}
	}
	as, is := init.(*ast.AssignStmt)
	if !is || len(as.Rhs) != 1 {
		return nil
	}
	call, _ := as.Rhs[0].(*ast.CallExpr)
	return call
}

// sameElsewhere reports whether two calls are of one method with the same arguments, on different values.
func sameElsewhere(c *check, first, again *ast.CallExpr) bool {
	a, is := ast.Unparen(first.Fun).(*ast.SelectorExpr)
	b, isToo := ast.Unparen(again.Fun).(*ast.SelectorExpr)
	if !is || !isToo || c.callee(first) == nil || c.callee(first) != c.callee(again) || source(a.X) == source(b.X) || len(first.Args) != len(again.Args) {
		return false
	}
	for i := range first.Args {
		if types.ExprString(first.Args[i]) != types.ExprString(again.Args[i]) && !isContext(c.typeOf(first.Args[i])) {
			return false
		}
	}
	return true
}

// createsByPost reports whether a request is a POST that speaks of nothing harmless.
func createsByPost(c *check, at reached) bool {
	n := len(at.call.Args)
	for _, s := range at.path {
		if harmless.MatchString(s.name) {
			return false
		}
	}
	return constantText(c, at.call.Args[n-3]) == "POST" && !saysHarmless(c, at.call.Args[n-2], at.path)
}

// madeByCall is the part of G119 and G120 that finds what a function of the package makes anew each time, and its caller uses up.
func madeByCall(c *check, visit func(call *ast.CallExpr, t *code, made ast.Expr, where string)) {
	kinds := map[*code]ast.Expr{}
	c.eachCall(func(at inspector.Cursor, call *ast.CallExpr) {
		t := c.targets[call]
		decl, is := targetDecl(t)
		if !is || decl.Type.Results == nil {
			return
		}
		made, known := kinds[t]
		if !known {
			made = madeBy(c, t)
			kinds[t] = made
		}
		if made == nil || c.escapes(at, 0) {
			return
		}
		if where := c.perRequest(at, false, 0); where != "" {
			visit(call, t, made, where)
		}
	})
}

// madeBy returns what a function returns, if it is one thing that is there for many calls.
func madeBy(c *check, t *code) (made ast.Expr) {
	returned := 0
	own(t.body, func(n ast.Node) {
		if ret, is := n.(*ast.ReturnStmt); is && len(ret.Results) > 0 {
			made = ast.Unparen(ret.Results[0])
			returned++
		}
	})
	call, is := made.(*ast.CallExpr)
	if returned == 1 && (is && longLived(c, call) != "" || typeName(c.typeOf(made)) == "net/http.Client") {
		return made
	}
	return nil
}

func targetDecl(t *code) (*ast.FuncDecl, bool) {
	if t == nil {
		return nil, false
	}
	decl, is := t.node.(*ast.FuncDecl)
	return decl, is
}

var transportName = regexp.MustCompile(`^(Transport|Clone)$`)

// transportByCall is the part of G119 for a client that a function makes.
func transportByCall(c *check) {
	madeByCall(c, func(call *ast.CallExpr, t *code, made ast.Expr, where string) {
		if mentions(t.body, oneShot) || typeName(c.typeOf(made)) != "net/http.Client" {
			return
		}
		fresh := false
		ast.Inspect(made, func(n ast.Node) bool {
			lit, is := n.(*ast.CompositeLit)
			fresh = fresh || is && typeName(c.typeOf(lit)) == "net/http.Transport"
			if id, is := n.(*ast.Ident); is && typeName(c.typeOf(id)) == "net/http.Transport" && declaredIn(c.object(id), t.body) {
				fresh = fresh || slices.ContainsFunc(sources(c.unit, id, nil), func(e ast.Expr) bool { return mentions(e, transportName) })
			}
			return true
		})
		if fresh {
			c.report(call, nil, "%s makes an http.Transport, so there is a new one %s: no connection is ever used again, and idle ones stay open until the server closes them; "+
				"make one Client and share it", t.name, where)
		}
	})
}

// asksForAnything reports whether a loop asks for an error that the function of the attempt makes of each failure of its call, so
// that a lost answer is among them.
func asksForAnything(c *check, l *retryLoop, at reached) bool {
	if len(at.path) == 0 {
		return false
	}
	asked := map[types.Object]bool{}
	note := func(e ast.Expr, by ast.Expr, not bool) {
		if obj := c.object(e); obj != nil && obj.Parent() == c.pkg.Scope() && isError(obj.Type()) && goesOn(c, by, not) {
			asked[obj] = true
		}
	}
	ast.Inspect(l.code(), func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			if c.is(n, "errors.Is") {
				note(n.Args[1], n, false)
			}
		case *ast.BinaryExpr:
			if n.Op == token.EQL || n.Op == token.NEQ {
				note(n.X, n, n.Op == token.NEQ)
				note(n.Y, n, n.Op == token.NEQ)
			}
		}
		return true
	})
	in, found := c.root.FindNode(at.path[len(at.path)-1].body)
	if !found || len(asked) == 0 {
		return false
	}
	for cur := range in.Preorder((*ast.IfStmt)(nil)) {
		s := cur.Node().(*ast.IfStmt)
		if cond, is := s.Cond.(*ast.BinaryExpr); !is || cond.Op != token.NEQ || !c.isNil(cond.Y) || assignedBefore(cur, s) != at.call {
			continue
		}
		for _, stmt := range s.Body.List {
			if ret, is := stmt.(*ast.ReturnStmt); is && mentionsAny(c, ret, asked) {
				return true
			}
		}
	}
	return false
}

// goesOn reports whether a loop surely goes on where a condition holds, or where it does not hold if not is set.
func goesOn(c *check, cond ast.Expr, not bool) bool {
	at, found := c.root.FindNode(cond)
	if !found {
		return false
	}
	for e := range at.Enclosing((*ast.UnaryExpr)(nil), (*ast.IfStmt)(nil), (*ast.CaseClause)(nil)) {
		var body []ast.Stmt
		switch n := e.Node().(type) {
		case *ast.UnaryExpr:
			not = not != (n.Op == token.NOT)
			continue
		case *ast.IfStmt:
			body = n.Body.List
			if !within(n.Cond, cond.Pos()) {
				return false
			}
		case *ast.CaseClause:
			body = n.Body
			if len(body) > 0 && cond.Pos() >= body[0].Pos() {
				return false
			}
		}
		return not == leaves(body)
	}
	return false
}

// leaves reports whether statements end with one that leaves a loop.
func leaves(body []ast.Stmt) bool {
	if len(body) == 0 {
		return false
	}
	b, is := body[len(body)-1].(*ast.BranchStmt)
	return is && b.Tok != token.CONTINUE || returns(body)
}

// mentionsAny reports whether code names one of some objects.
func mentionsAny(c *check, n ast.Node, objs map[types.Object]bool) bool {
	return has(n, func(id *ast.Ident) bool { return objs[c.info.Uses[id]] })
}
