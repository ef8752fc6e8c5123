package gabionvet

import (
	"go/ast"
	"go/token"
	"go/types"
	"regexp"

	"golang.org/x/tools/go/ast/inspector"
)

// shutdownNotAwaited is G151.
func shutdownNotAwaited(c *check) {
	c.eachCall(func(at inspector.Cursor, call *ast.CallExpr) {
		_, _, body := enclosing(at)
		if body == nil || !c.is(call, "(net/http.Server).ListenAndServe", "(net/http.Server).ListenAndServeTLS", "(net/http.Server).Serve", "(net/http.Server).ServeTLS") {
			return
		}
		if _, is := at.Parent().Node().(*ast.GoStmt); is {
			return
		}
		of := source(call.Fun.(*ast.SelectorExpr).X)
		ends, waits := false, false
		own(body, func(n ast.Node) {
			switch n := n.(type) {
			case *ast.GoStmt:
				ends = ends || shutsDown(c, n, of)
			case *ast.UnaryExpr:
				waits = waits || n.Op == token.ARROW
			case *ast.SelectStmt:
				waits = true
			case *ast.CallExpr:
				waits = waits || isNamed(n, waitName)
			}
		})
		if ends && !waits {
			c.report(call, nil, "this returns as soon as Shutdown begins, and nothing waits until Shutdown has returned: what comes after it, and the end of the program, cuts off the requests that Shutdown waits for, at each deploy; "+
				"serve in the goroutine, and call Shutdown here")
		}
	})
}

// shutsDown reports whether a goroutine ends a server, and tells no other goroutine when that is done.
func shutsDown(c *check, n *ast.GoStmt, of string) bool {
	lit, is := n.Call.Fun.(*ast.FuncLit)
	if !is {
		return false
	}
	ends, tells := false, false
	ast.Inspect(lit.Body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SendStmt:
			tells = true
		case *ast.CallExpr:
			sel, is := n.Fun.(*ast.SelectorExpr)
			ends = ends || is && c.is(n, "(net/http.Server).Shutdown") && source(sel.X) == of
			tells = tells || source(n.Fun) == "close" || is && sel.Sel.Name == "Done" && len(n.Args) == 0 && !isContext(c.typeOf(sel.X))
		}
		return true
	})
	return ends && !tells
}

// pipeEndsClean is G152.
func pipeEndsClean(c *check) {
	c.eachCall(func(at inspector.Cursor, call *ast.CallExpr) {
		sel, is := call.Fun.(*ast.SelectorExpr)
		if !is || !c.is(call, "(io.PipeWriter).Close") {
			return
		}
		_, deferred := at.Parent().Node().(*ast.DeferStmt)
		_, _, body := enclosing(at)
		pipe, is := c.object(sel.X).(*types.Var)
		if !is || !deferred || pipe.IsField() || body == nil || endsWithError(c, pipe) {
			return
		}
		for _, write := range directCalls(body) {
			if sig, is := signature(c.typeOf(write.Fun)); is && canFail(sig) && usesAsArgument(c.unit, write, pipe) {
				c.report(call, nil, "whatever becomes of %s, the reader of the pipe comes to a clean end: what was written so far is taken for the whole, and stored as such; "+
					"close the pipe with %s.CloseWithError(err), which is a clean end when err is nil", source(write.Fun), source(sel.X))
				return
			}
		}
	})
}

// endsWithError reports whether a pipe is closed by CloseWithError anywhere.
func endsWithError(c *check, pipe types.Object) bool {
	for _, use := range c.uses[pipe] {
		if sel, is := use.Parent().Node().(*ast.SelectorExpr); is && sel.Sel.Name == "CloseWithError" {
			return true
		}
	}
	return false
}

var endsAll = regexp.MustCompile(`(?i)cancel|stop|fail$|fatal|close|abort|exit|quit|panic|seterr|cause`)

// workerEnds is G153.
func workerEnds(c *check) {
	for at, loop := range every[*ast.RangeStmt](c.unit) {
		fn, _, body := enclosing(at)
		lit, isLit := fn.(*ast.FuncLit)
		if t := c.typeOf(loop.X); t == nil || !isLit || lit.Type.Results != nil || !startedInLoop(c, lit) {
			continue
		} else if _, is := t.Underlying().(*types.Chan); !is || body.List[len(body.List)-1] != ast.Stmt(loop) {
			continue
		}
		for e := range at.Preorder((*ast.IfStmt)(nil)) {
			branch := e.Node().(*ast.IfStmt)
			if user, _, _ := enclosing(e); user != fn || failedIn(c, branch) == nil || !returns(branch.Body.List) || tellsOthers(branch.Body) {
				continue
			}
			call := assignedBefore(e, branch)
			if call == nil || !c.isRemote(call) && !isDynamic(c.unit, call) && !worksOut(c.unit, call) {
				continue
			}
			c.report(branch.Body.List[len(branch.Body.List)-1], nil, "a failure of %s ends this worker, and not only its job: after as many failures as there are workers nothing receives from %s any more, and a sender waits for ever; "+
				"go on with the next job", source(call.Fun), source(loop.X))
		}
	}
}

// startedInLoop reports whether a function literal is run by several goroutines.
func startedInLoop(c *check, lit *ast.FuncLit) bool {
	at, found := c.root.FindNode(lit)
	if !found {
		return false
	}
	call, is := at.Parent().Node().(*ast.CallExpr)
	if !is {
		return false
	}
	_, goes := at.Parent().Parent().Node().(*ast.GoStmt)
	if !goes && !c.is(call, "(sync.WaitGroup).Go") {
		return false
	}
	for range at.Enclosing((*ast.ForStmt)(nil), (*ast.RangeStmt)(nil)) {
		return true
	}
	return false
}

// tellsOthers reports whether a branch ends the others too, or leaves the error where it is seen.
func tellsOthers(body *ast.BlockStmt) bool {
	return has(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SendStmt, *ast.AssignStmt:
			return true
		case *ast.CallExpr:
			return isNamed(n, endsAll)
		}
		return false
	})
}
