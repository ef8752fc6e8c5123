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

var (
	refuses  = regexp.MustCompile(`^(Nack|Nak|Reject|NackMsg|Requeue)$`)
	countsIt = regexp.MustCompile(`(?i)redeliver|x-death|deliver(y|ies)_?(count|limit)|num_?deliver|attempt|retr(y|ies)|max_?tries|dead_?letter|dlq|dlx|poison|park`)
)

// requeuedForever is G147.
func requeuedForever(c *check) {
	c.eachCall(func(at inspector.Cursor, call *ast.CallExpr) {
		if !requeues(c, call) || countsHere(c, call) {
			return
		}
		for e := range at.Enclosing((*ast.IfStmt)(nil), (*ast.FuncLit)(nil), (*ast.FuncDecl)(nil)) {
			branch, is := e.Node().(*ast.IfStmt)
			if !is {
				return
			}
			cond, is := branch.Cond.(*ast.BinaryExpr)
			if !is || cond.Op != token.NEQ || !c.isNil(cond.Y) || !isError(c.typeOf(cond.X)) || waitsIn(c, branch.Body) {
				continue
			}
			c.report(call, nil, "whatever the error is, the message goes back to its queue and comes again at once: one that can never succeed, as one that cannot be decoded, goes round for ever and takes the place of all others; "+
				"count how often it came, wait longer each time, and put it aside after some")
			return
		}
	})
}

// requeues reports whether a call gives a message back to its queue, which sends it again at once.
func requeues(c *check, call *ast.CallExpr) bool {
	if !isNamed(call, refuses) || c.callee(call) == nil {
		return false
	}
	if len(call.Args) == 0 {
		return calledName(call).Name == "Nak"
	}
	v := c.info.Types[call.Args[len(call.Args)-1]].Value
	return v != nil && v.Kind() == constant.Bool && constant.BoolVal(v)
}

// countsHere reports whether the function of a call, or what it calls, or who calls it, counts how often a message came.
func countsHere(c *check, call *ast.CallExpr) bool {
	decl := c.enclosingDecl(call)
	if decl == nil || mentions(decl, countsIt) {
		return true
	}
	for _, at := range reach(c.unit, decl) {
		if t := c.targets[at.call]; t != nil && mentions(t.node, countsIt) {
			return true
		}
	}
	for _, caller := range c.runners[decl] {
		if outer := c.enclosingDecl(caller); outer == nil || mentions(outer, countsIt) {
			return true
		}
	}
	return false
}

func waitsIn(c *check, body *ast.BlockStmt) bool {
	for _, at := range reach(c.unit, body) {
		if _, _, is := pause(c.unit, at.call, 0); is || c.is(at.call, "time.After", "time.NewTimer", "time.AfterFunc") {
			return true
		}
	}
	return false
}

// ackedAnyway is the part of G140 that finds a message which is acknowledged also when its work has failed.
func ackedAnyway(c *check, list []ast.Stmt) {
	for i, s := range list {
		branch, is := s.(*ast.IfStmt)
		if !is || branch.Else != nil || branch.Init == nil || !onlySays(c, branch.Body) {
			continue
		}
		cond, is := branch.Cond.(*ast.BinaryExpr)
		if !is || cond.Op != token.NEQ || !c.isNil(cond.Y) || !isError(c.typeOf(cond.X)) {
			continue
		}
		for _, next := range list[i+1:] {
			ack, msg := ackIn(c, next)
			if msg == nil {
				continue
			}
			if work := workOn(c, []ast.Stmt{&ast.BlockStmt{List: []ast.Stmt{branch.Init}}}, msg); work != nil {
				c.report(ack, nil, "%s is acknowledged also when %s has failed, which is only logged: the message is gone and its work was not done; "+
					"acknowledge it after a success, and put aside what fails again and again", msg.Name(), source(work.Fun))
			}
			break
		}
	}
}

var saysName = regexp.MustCompile(`(?i)^(log|print|warn|error|info|debug|fatal|record|observe|report|inc|add|capture|with|string|err|sprint|count|mark|set)`)

// onlySays reports whether code does no more than log, and goes on.
func onlySays(c *check, body *ast.BlockStmt) bool {
	only := true
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ReturnStmt, *ast.BranchStmt, *ast.AssignStmt, *ast.SendStmt, *ast.GoStmt, *ast.DeferStmt:
			only = false
		case *ast.CallExpr:
			id := calledName(n)
			only = only && (id != nil && saysName.MatchString(id.Name) || c.info.Types[n.Fun].IsType())
		}
		return only
	})
	return only && len(body.List) > 0
}

// lockWithoutEnd is G146.
func lockWithoutEnd(c *check) {
	c.eachCall(func(at inspector.Cursor, call *ast.CallExpr) {
		id := calledName(call)
		if id == nil || id.Name != "SetNX" || len(call.Args) < 3 {
			return
		}
		v := c.info.Types[call.Args[len(call.Args)-1]].Value
		if v == nil || constant.Sign(constant.ToInt(v)) != 0 || typeName(c.typeOf(call.Args[len(call.Args)-1])) != "time.Duration" {
			return
		}
		decl := c.enclosingDecl(call)
		if decl == nil || !saysLock(decl) || c.says(setsEnd) {
			return
		}
		c.report(call, nil, "this lock has no end: when the process that holds it dies, or its release is lost in an outage, nothing ever takes it again; "+
			"give it a time after which it ends, longer than the work may take, and make the work end before it does")
	})
}

var (
	setsEnd  = regexp.MustCompile(`^P?Expire(At)?$`)
	lockName = regexp.MustCompile(`(?i)lock|mutex|lease|leader`)
)

func saysLock(n ast.Node) bool {
	return has(n, func(lit *ast.BasicLit) bool {
		return lit.Kind == token.STRING && lockName.MatchString(lit.Value)
	}) || mentions(n, lockName)
}

// restartsItself is the part of G102 that finds a function which starts itself again after each failure, by a timer or a goroutine.
func restartsItself(c *check) {
	for at, decl := range every[*ast.FuncDecl](c.unit) {
		if decl.Body == nil || counting(decl.Body) || hearsEnd(decl.Body) || !c.remote[declared(c.unit, decl)] {
			continue
		}
		for e := range at.Preorder((*ast.CallExpr)(nil)) {
			call := e.Node().(*ast.CallExpr)
			if !afterFailure(c, e) || !startsAgain(c, e, call, decl) {
				continue
			}
			c.report(call, nil, "%s starts itself again after each failure, and nothing counts how often: while the dependency is down this goes on for ever, and each call that fails adds one more; "+
				"bound the attempts, wait longer each time and with jitter, and end with the context", decl.Name.Name)
		}
	}
}

// counting reports whether code counts anything.
func counting(body *ast.BlockStmt) bool {
	return has(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.IncDecStmt:
			return true
		case *ast.AssignStmt:
			return n.Tok != token.ASSIGN && n.Tok != token.DEFINE
		case *ast.BinaryExpr:
			return n.Op == token.ADD || n.Op == token.SUB
		}
		return false
	})
}

// startsAgain reports whether a call runs a function in another goroutine: by go, or by a timer.
func startsAgain(c *check, at inspector.Cursor, call *ast.CallExpr, decl *ast.FuncDecl) bool {
	isSelf := func(e ast.Expr) bool {
		f, is := c.object(e).(*types.Func)
		return is && f == declared(c.unit, decl)
	}
	if c.is(call, "time.AfterFunc") && len(call.Args) == 2 {
		if isSelf(call.Args[1]) {
			return true
		}
		lit, is := call.Args[1].(*ast.FuncLit)
		return slices.ContainsFunc(calls(lit, false), func(inner *ast.CallExpr) bool { return is && isSelf(inner.Fun) })
	}
	_, isGo := at.Parent().Node().(*ast.GoStmt)
	return isGo && isSelf(call.Fun)
}

// afterFailure reports whether a place is in a branch that an error leads to.
func afterFailure(c *check, at inspector.Cursor) bool {
	for e := range at.Enclosing((*ast.IfStmt)(nil)) {
		branch := e.Node().(*ast.IfStmt)
		b, is := branch.Cond.(*ast.BinaryExpr)
		if is && b.Op == token.NEQ && c.isNil(b.Y) && isError(c.typeOf(b.X)) && within(branch.Body, at.Node().Pos()) {
			return true
		}
	}
	return false
}
