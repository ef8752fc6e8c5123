package gabionvet

import (
	"go/ast"
	"go/token"
	"go/types"
	"regexp"

	"golang.org/x/tools/go/ast/inspector"
)

// lockHeldInRetries is G141.
func lockHeldInRetries(c *check) {
	lockOfAllKeys(c)
	tell := func(lock *ast.CallExpr, what string) {
		c.report(lock, nil, "the lock that is taken here is held while %s: in an outage every other caller waits for it, whatever its own deadline says, and one after the other each waits as long again; "+
			"try without the lock, and take it to keep the result", what)
	}
	for _, l := range c.loops {
		if len(l.waits) == 0 || unlocks(l.body) {
			continue
		}
		what := "a loop waits between its attempts"
		if lock := lockedAt(c, l.cursor); lock != nil {
			tell(lock, what)
			continue
		}
		for _, call := range c.runners[l.fn] {
			at, found := c.root.FindNode(call)
			if fn, is := l.fn.(*ast.FuncDecl); found && (!is || !unlocks(fn)) {
				if lock := lockedAt(c, at); lock != nil {
					tell(lock, source(call.Fun)+" waits between its attempts")
				}
			}
		}
	}
	for _, r := range c.regions {
		if at, found := c.root.FindNode(r.call); found && !r.by.tx && (r.own == nil || len(r.own.waits) > 0) {
			if lock := lockedAt(c, at); lock != nil {
				tell(lock, r.short+" waits between its attempts")
			}
		}
	}
}

// lockOfAllKeys is the part of G141 that finds a map whose lock is held while one of its elements is fetched.
func lockOfAllKeys(c *check) {
	for at, as := range every[*ast.AssignStmt](c.unit) {
		index, is := as.Lhs[0].(*ast.IndexExpr)
		if !is {
			continue
		}
		_, isMap := c.typeOf(index.X).Underlying().(*types.Map)
		of, isField := index.X.(*ast.SelectorExpr)
		fn, _, body := enclosing(at)
		if node, _, is := parameterOf(c.unit, index.Index); !isMap || !isField || !is || node != fn {
			continue
		}
		lock := lockedAt(c, at)
		for _, call := range directCalls(body) {
			sig, is := signature(c.typeOf(call.Fun))
			if lock == nil || !is || call.Pos() > as.End() || call.Pos() < lock.Pos() || !takesContext(sig) && !c.leaves(call) || !callsOut(c, call) {
				continue
			}
			if in, found := c.root.FindNode(call); found && lockedAt(c, in) == lock {
				c.report(lock, nil, "the lock that is taken here is held while %s fetches one element of %s: when that is slow, a caller that asks for any other element waits too, and so do those that would find theirs; "+
					"fetch without the lock, once for each key, and take it to keep the result", source(call.Fun), source(of))
				break
			}
		}
	}
}

var unlockName = regexp.MustCompile(`^R?Unlock$`)

// unlocks reports whether code unlocks something itself.
func unlocks(n ast.Node) (found bool) {
	for _, call := range directCalls(n) {
		found = found || isNamed(call, unlockName) && !inDefer(n, call)
	}
	return found
}

func inDefer(in ast.Node, call *ast.CallExpr) bool {
	return has(in, func(d *ast.DeferStmt) bool { return d.Call == call })
}

// lockedAt returns the call that locks a mutex which is held at a place, in the same function.
func lockedAt(c *check, at inspector.Cursor) (lock *ast.CallExpr) {
	for e := range at.Enclosing() {
		switch e.Node().(type) {
		case *ast.FuncDecl, *ast.FuncLit, *ast.GoStmt:
			return lock
		}
		block, is := e.Parent().Node().(*ast.BlockStmt)
		if !is || lock != nil {
			continue
		}
		for _, s := range block.List {
			if s.Pos() >= e.Node().Pos() {
				break
			}
			if call := ofMutex(c, s, "Lock"); call != nil {
				lock = call
			} else if lock != nil && unlocks(s) {
				lock = nil
			}
		}
	}
	return lock
}

// ofMutex returns the call that a statement is, if it is of that method of a sync.Mutex or RWMutex.
func ofMutex(c *check, s ast.Stmt, method string) *ast.CallExpr {
	e, is := s.(*ast.ExprStmt)
	if !is {
		return nil
	}
	call, is := e.X.(*ast.CallExpr)
	if is && c.is(call, "(sync.Mutex)."+method, "(sync.RWMutex)."+method, "(sync.Locker)."+method) {
		return call
	}
	return nil
}

// addsAgain is G142.
func addsAgain(c *check) {
	for _, r := range c.repeats {
		if lit, is := r.node.(*ast.FuncLit); is && r.by != nil {
			checkAdds(c, r, lit)
		}
		for _, at := range r.runs {
			if t := c.targets[at.call]; t != nil && r.by == nil {
				if lit, is := t.node.(*ast.FuncLit); is && !within(r.node, lit.Pos()) {
					checkAdds(c, r, lit)
				}
			}
		}
	}
}

// checkAdds reports where repeated work adds to what it did not make, before it may still fail.
func checkAdds(c *check, r repeated, work *ast.FuncLit) {
	ast.Inspect(work.Body, func(n ast.Node) bool {
		to, place := addedTo(c, n)
		if sel, is := to.(*ast.SelectorExpr); is { // sum.Cents
			to = sel.X
		}
		v, is := c.object(to).(*types.Var)
		if to == nil || !is || v.IsField() || declaredIn(v, work) || v.Parent() == c.pkg.Scope() || startsAnew(c, work, v) || !failsAfter(c, work, place.Pos()) {
			return true
		}
		c.report(place, nil, "%s adds to %s, which is made outside of it, and may fail after that: the next attempt adds the same again to what the failed one left; "+
			"begin each attempt with an empty one, and keep it when the attempt has succeeded", c.loopName(r), v.Name())
		return true
	})
}

var noResult = regexp.MustCompile(`(?i)err|fail|try|tries|attempt|retr|wait|log|msg|trace|span|metric|stat`)

// addedTo returns what a node adds something to: a slice, a buffer, or a sum.
func addedTo(c *check, n ast.Node) (to ast.Expr, place ast.Node) {
	switch n := n.(type) {
	case *ast.AssignStmt:
		if len(n.Lhs) != 1 || noResult.MatchString(source(n.Lhs[0])) {
			return nil, nil
		}
		call, is := n.Rhs[0].(*ast.CallExpr)
		if is && len(call.Args) > 1 && n.Tok == token.ASSIGN && c.info.Types[call.Fun].IsBuiltin() && source(call.Fun) == "append" && source(call.Args[0]) == source(n.Lhs[0]) {
			return n.Lhs[0], n
		}
		if t := c.typeOf(n.Lhs[0]); n.Tok == token.ADD_ASSIGN && typeName(t) != "time.Duration" && c.info.Types[n.Rhs[0]].Value == nil && !isText(t) {
			return n.Lhs[0], n
		}
	case *ast.CallExpr:
		if sel, is := n.Fun.(*ast.SelectorExpr); is && bufferWrites.MatchString(sel.Sel.Name) && typeName(c.typeOf(sel.X)) == "bytes.Buffer" {
			return sel.X, n
		}
		if len(n.Args) > 0 && c.is(n, "encoding/json.NewEncoder", "encoding/xml.NewEncoder", "encoding/gob.NewEncoder", "encoding/csv.NewWriter", "compress/gzip.NewWriter", "fmt.Fprintf", "fmt.Fprint", "fmt.Fprintln", "io.Copy") {
			if un, is := n.Args[0].(*ast.UnaryExpr); is && un.Op == token.AND && typeName(c.typeOf(un.X)) == "bytes.Buffer" {
				return un.X, n
			}
			if typeName(c.typeOf(n.Args[0])) == "bytes.Buffer" {
				return n.Args[0], n
			}
		}
	}
	return nil, nil
}

var bufferWrites = regexp.MustCompile(`^(Write(String|Byte|Rune)?|ReadFrom)$`)

// startsAnew reports whether work gives a variable a value that does not come from itself, or empties it.
func startsAnew(c *check, work *ast.FuncLit, v *types.Var) (anew bool) {
	ast.Inspect(work.Body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			for i, to := range n.Lhs {
				if sel, is := to.(*ast.SelectorExpr); is {
					to = sel.X
				}
				if c.object(to) != types.Object(v) || n.Tok != token.ASSIGN {
					continue
				}
				call, is := n.Rhs[min(i, len(n.Rhs)-1)].(*ast.CallExpr)
				anew = anew || !is || source(call.Fun) != "append" || len(call.Args) == 0 || i >= len(n.Lhs) || source(call.Args[0]) != source(n.Lhs[i])
			}
		case *ast.CallExpr:
			sel, is := n.Fun.(*ast.SelectorExpr)
			anew = anew || is && c.object(sel.X) == types.Object(v) && empties.MatchString(sel.Sel.Name)
			for _, arg := range n.Args { // other code has it
				un, is := arg.(*ast.UnaryExpr)
				anew = anew || is && un.Op == token.AND && c.object(un.X) == types.Object(v) && typeName(v.Type()) != "bytes.Buffer"
			}
		}
		return true
	})
	return anew
}

var empties = regexp.MustCompile(`^(Reset|Truncate|Next|Read|WriteTo|ReadBytes|ReadString)$`)

// failsAfter reports whether a function may return an error after a place.
func failsAfter(c *check, work *ast.FuncLit, pos token.Pos) (fails bool) {
	own(work.Body, func(n ast.Node) {
		ret, is := n.(*ast.ReturnStmt)
		if is && ret.Pos() > pos && len(ret.Results) > 0 {
			last := ret.Results[len(ret.Results)-1]
			fails = fails || isError(c.typeOf(last)) && !c.isNil(last)
		}
	})
	return fails
}
