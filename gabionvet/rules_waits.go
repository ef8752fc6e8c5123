package gabionvet

import (
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/tools/go/ast/inspector"
)

// deadContext is G132.
func deadContext(c *check) {
	endsWithMaker(c)
	undoneWithDead(c)
	c.root.Inspect([]ast.Node{(*ast.IfStmt)(nil), (*ast.CommClause)(nil)}, func(at inspector.Cursor) bool {
		if !c.looksAt(at.Node().Pos()) {
			return true
		}
		var ctx types.Object
		var body []ast.Stmt
		switch n := at.Node().(type) {
		case *ast.IfStmt:
			ctx, body = endedIf(c, n.Cond), n.Body.List
		case *ast.CommClause:
			if s, is := n.Comm.(*ast.ExprStmt); is {
				if r, is := s.X.(*ast.UnaryExpr); is && r.Op == token.ARROW {
					ctx, body = ofContext(c.unit, r.X, "Done"), n.Body
				}
			}
		}
		for _, s := range body {
			for _, call := range directCalls(s) {
				if ctx == nil || len(call.Args) == 0 || c.object(call.Args[0]) != ctx || !callsOut(c, call) {
					continue
				}
				c.report(call, nil, "%s is called with %s, which has ended: it fails at once, whatever it would do; give it context.WithoutCancel(%s), with a timeout of its own", source(call.Fun), ctx.Name(), ctx.Name())
			}
		}
		return true
	})
}

// endsWithMaker is the part of G132 for a context with a timeout that a constructor leaves in what it makes: the time is that of one
// call, it runs from the making on, and it is over for all later calls.
func endsWithMaker(c *check) {
	for _, decl := range every[*ast.FuncDecl](c.unit) {
		if decl.Recv != nil || decl.Body == nil || !makerName.MatchString(decl.Name.Name) {
			continue
		}
		own(decl.Body, func(n ast.Node) {
			as, is := n.(*ast.AssignStmt)
			if !is || len(as.Rhs) != 1 || len(as.Lhs) != 2 {
				return
			}
			call, is := as.Rhs[0].(*ast.CallExpr)
			if !is || !c.is(call, "context.WithTimeout", "context.WithTimeoutCause") {
				return
			}
			if field := keptIn(c, c.object(as.Lhs[0]), decl); field != nil {
				c.report(call, nil, "this timeout begins when %s makes its value, and %s keeps it for all calls: once it is over each of them fails at once, until the process starts anew; "+
					"make the context of a call in the call", decl.Name.Name, field.Name())
			}
		})
	}
}

var (
	makerName = regexp.MustCompile(`^(?i:new|open|connect|make|dial|init)([A-Z]|$)`)
	ofOneCall = regexp.MustCompile(`(?i)req|call|op(eration)?$|cursor|rows|reader|writer|load|scan|page|poll|probe|fetch|export|import|backup|migrat|lock|snapshot|session|job|task|run|attempt|watch|query|tx|trans|iter|stream|lease|test|batch|work`)
)

// keptIn returns the field in which a function keeps a context, if methods make calls with it, and what has the field is no single
// call by its name.
func keptIn(c *check, ctx types.Object, decl *ast.FuncDecl) *types.Var {
	for _, use := range c.uses[ctx] {
		kv, is := use.Parent().Node().(*ast.KeyValueExpr)
		if !is || !within(decl, kv.Pos()) {
			continue
		}
		lit, is := use.Parent().Parent().Node().(*ast.CompositeLit)
		field, isVar := c.object(kv.Key).(*types.Var)
		if !is || !isVar || ofOneCall.MatchString(typeName(c.typeOf(lit))) {
			continue
		}
		for _, use := range c.uses[field] {
			sel, is := use.Parent().Node().(*ast.SelectorExpr)
			if !is || within(decl, sel.Pos()) {
				continue
			}
			if call, is := use.Parent().Parent().Node().(*ast.CallExpr); is && len(call.Args) > 0 && call.Args[0] == ast.Expr(sel) && (takesRequestContext(c, call) || c.isRemote(call)) {
				return field
			}
		}
	}
	return nil
}

// callsOut reports whether a call surely goes out: a function of the package only if it calls something that does.
func callsOut(c *check, call *ast.CallExpr) bool {
	if t := c.targets[call]; t != nil {
		return remoteIn(c.unit, t)
	}
	id := calledName(call)
	return (c.isRemote(call) || isDynamic(c.unit, call)) && (id == nil || !makesError.MatchString(id.Name))
}

var makesError = regexp.MustCompile(`(?i)err|cause|log|record|trace|metric|report`)

// endedIf returns the context that has ended where a condition holds.
func endedIf(c *check, cond ast.Expr) types.Object {
	b, is := ast.Unparen(cond).(*ast.BinaryExpr)
	if !is {
		return nil
	}
	switch {
	case b.Op == token.LAND:
		if ctx := endedIf(c, b.X); ctx != nil {
			return ctx
		}
		return endedIf(c, b.Y)
	case b.Op == token.NEQ && c.isNil(b.Y) || b.Op == token.EQL && !c.isNil(b.Y):
		return ofContext(c.unit, b.X, "Err")
	}
	return nil
}

// ofContext returns the context whose method a call is of.
func ofContext(u *unit, e ast.Expr, method string) types.Object {
	call, is := ast.Unparen(e).(*ast.CallExpr)
	if !is {
		return nil
	}
	sel, is := call.Fun.(*ast.SelectorExpr)
	if !is || sel.Sel.Name != method || !isContext(u.typeOf(sel.X)) {
		return nil
	}
	return u.object(sel.X)
}

// few is how often a loop may try at once: a connection that broke while it was idle is worth that.
const few = 4

// triesAtOnce is G133.
func triesAtOnce(c *check) {
	for _, l := range c.loops {
		if len(l.waits) > 0 || c.asks(l) || !l.exit.round.has(failed, 0, 0) || timesOf(c, l) <= few || mayWait(c, l) {
			continue
		}
		c.report(l.attempts[0], nil, "this loop repeats %s at once, again and again: while the dependency is down all attempts are used up in a moment, and it gets that many times the load; "+
			"wait between them, longer each time and with jitter", source(l.attempts[0].Fun))
	}
}

// timesOf is how often a loop tries: as its condition says, or else very often.
func timesOf(c *check, l *retryLoop) int64 {
	var bound ast.Expr
	switch s := l.stmt.(type) {
	case *ast.RangeStmt:
		bound = s.X
	case *ast.ForStmt:
		if s.Cond == nil {
			return few + 1
		}
		ast.Inspect(s.Cond, func(n ast.Node) bool {
			if b, is := n.(*ast.BinaryExpr); is && (b.Op == token.LSS || b.Op == token.LEQ) {
				bound = b.Y
			}
			return true
		})
	}
	if bound == nil {
		return 0
	}
	tv := c.info.Types[bound]
	if tv.Value == nil || tv.Value.Kind() != constant.Int {
		return 0
	}
	n, _ := constant.Int64Val(tv.Value)
	return n
}

var maybeWaits = regexp.MustCompile(`(?i)sleep|wait|pause|delay|back_?off|limit|throttle|acquire|next|tick|retr`)

// mayWait reports whether anything in a loop may wait.
func mayWait(c *check, l *retryLoop) bool {
	return has(l.code(), func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectStmt:
			return true
		case *ast.UnaryExpr:
			return n.Op == token.ARROW
		case *ast.CallExpr:
			id := calledName(n)
			return id == nil || maybeWaits.MatchString(id.Name)
		}
		return false
	}) || slices.ContainsFunc(reach(c.unit, l.body), func(at reached) bool {
		_, _, is := pause(c.unit, at.call, 0)
		return is || len(at.path) > 0 && c.is(at.call, "time.After", "time.NewTimer")
	})
}

// retryAfterIgnored is G134.
func retryAfterIgnored(c *check) {
	dateIgnored(c)
	for _, l := range c.loops {
		if !namesTooMany(l.body) || readsRetryAfter(c, l) {
			continue
		}
		w := &walk{u: c.unit, errs: l.errs, oks: l.oks, flag: l.anyWait, status: 429}
		e := w.loop(l.stmt, l.label)
		switch {
		case w.lost:
		case e.round.has(ok, 0, waited) && (len(l.waits) > 0 || !mayWait(c, l)):
			c.report(l.attempts[0], nil, "this loop repeats a 429 at once: the server has said that it takes no more for now, refuses the next one too, and counts it; "+
				"wait at least as long as Retry-After says")
		case len(l.waits) > 0 && e.round.has(ok, waited, 0):
			c.report(l.attempts[0], nil, "this loop repeats a 429 when its own wait is over, and never reads Retry-After: it asks again before the server is ready, and is refused for longer; "+
				"wait at least as long as the header says")
		}
	}
}

var (
	tooMany    = regexp.MustCompile(`^StatusTooManyRequests$`)
	retryAfter = regexp.MustCompile(`(?i)retry_?after|rate_?limit_?reset`)
)

// anyWait marks what waits, or may by its name.
func (l *retryLoop) anyWait(n ast.Node) uint8 {
	if call, is := n.(*ast.CallExpr); is && isNamed(call, maybeWaits) {
		return waited
	}
	return l.waitFlag(n)
}

// readsRetryAfter reports whether the file of a loop, or what the loop calls, speaks of Retry-After.
func readsRetryAfter(c *check, l *retryLoop) bool {
	speaks := func(n ast.Node) bool { return mentions(n, retryAfter) || saysText(n, "retry-after") }
	for f := range l.cursor.Enclosing((*ast.File)(nil)) {
		if speaks(f.Node()) {
			return true
		}
	}
	return slices.ContainsFunc(reach(c.unit, l.body), func(at reached) bool {
		t := c.targets[at.call]
		return t != nil && speaks(t.body)
	})
}

// namesTooMany reports whether code asks for a 429 by itself.
func namesTooMany(n ast.Node) bool {
	return has(n, func(lit *ast.BasicLit) bool { return lit.Value == "429" }) || mentions(n, tooMany)
}

// saysText reports whether code has a text.
func saysText(n ast.Node, text string) bool {
	return has(n, func(lit *ast.BasicLit) bool {
		return lit.Kind == token.STRING && strings.Contains(strings.ToLower(lit.Value), text)
	})
}

// deafLibrary finds a library's retries that are not given the context at hand.
func deafLibrary(c *check, at inspector.Cursor, call *ast.CallExpr) {
	if !strings.HasPrefix(c.fullName(call), "github.com/avast/retry-go.Do") {
		return
	}
	name, _ := c.contextInScope(at)
	for i, arg := range call.Args {
		if i > 0 && (mentions(arg, contextOption) || c.object(arg) != nil) || isContext(c.typeOf(arg)) {
			return
		}
	}
	if name != "" && !hearsEnd(call) {
		c.report(call, nil, "%s waits between its attempts and does not hear that %s ended: a caller that gave up is kept waiting; give it retry.Context(%s)", source(call.Fun), name, name)
	}
}

var contextOption = regexp.MustCompile(`^Context$`)

// endlessWithContext finds loops that no failure leaves and that call with a context which can end: from then on each call fails.
func endlessWithContext(c *check) {
	c.root.Inspect([]ast.Node{(*ast.ForStmt)(nil), (*ast.RangeStmt)(nil)}, func(at inspector.Cursor) bool {
		l := &retryLoop{stmt: at.Node().(ast.Stmt), body: loopBody(at.Node())}
		if r, is := l.stmt.(*ast.RangeStmt); !c.looksAt(l.stmt.Pos()) || is && !isTick(c.unit, r.X) || !is && !endlessHead(l.stmt) || hearsEnd(l.stmt) {
			return true
		}
		c.findWaits(l)
		if len(l.waits) == 0 || !l.waits[0].sleep || slices.ContainsFunc(c.loops, func(known *retryLoop) bool { return known.stmt == l.stmt }) {
			return true
		}
		for _, call := range directCalls(l.body) {
			if len(call.Args) == 0 || !isContext(c.typeOf(call.Args[0])) || !c.isRemote(call) && !isDynamic(c.unit, call) {
				continue
			}
			v, is := c.object(call.Args[0]).(*types.Var)
			if !is || declaredIn(v, l.body) || v.IsField() || v.Kind() != types.ParamVar && c.contextLimit(call.Args[0], 0) == endless && !canEnd(c.unit, v) ||
				failureLeaves(c.unit, l, call) {
				continue
			}
			c.report(l.waits[0].node, nil, "nothing ends this loop when %s has ended: from then on it waits and calls %s in vain, for ever; wait in a select with <-%s.Done()", v.Name(), source(call.Fun), v.Name())
			break
		}
		return true
	})
}

// failureLeaves reports whether a failure of a call may leave a loop. A yes that came with the error does not count.
func failureLeaves(u *unit, l *retryLoop, call *ast.CallExpr) bool {
	w := &walk{u: u, errs: map[types.Object]bool{}, oks: map[types.Object]bool{}}
	ast.Inspect(l.body, func(n ast.Node) bool {
		as, is := n.(*ast.AssignStmt)
		if !is || len(as.Rhs) != 1 || as.Rhs[0] != ast.Expr(call) {
			return true
		}
		for _, to := range as.Lhs {
			switch v := u.object(to); {
			case v == nil:
			case isError(v.Type()):
				w.errs[v] = true
			case v.Type() == types.Typ[types.Bool]:
				w.oks[v] = true
			}
		}
		return true
	})
	leave := w.loop(l.stmt, "").leave
	return w.lost || leave.has(none, 0, 0) || leave.has(failed, 0, 0)
}

// canEnd reports whether a context was derived with a cancel.
func canEnd(u *unit, v *types.Var) bool {
	return slices.ContainsFunc(u.values[v], func(e ast.Expr) bool {
		call, is := e.(*ast.CallExpr)
		return is && u.is(call, derive...)
	})
}

// endlessLibrary is the part of G102 that finds a retry library that was given no bound.
func endlessLibrary(c *check, call *ast.CallExpr) {
	name := c.fullName(call)
	avast := strings.HasPrefix(name, "github.com/avast/retry-go.Do")
	for _, arg := range call.Args {
		opt, is := ast.Unparen(arg).(*ast.CallExpr)
		if !is || !avast && !strings.HasPrefix(name, "github.com/cenkalti/backoff.Retry") || mentions(call, bounds) {
			continue
		}
		constantly := c.is(opt, "github.com/cenkalti/backoff.NewConstantBackOff") && !strings.HasPrefix(c.callee(call).Pkg().Path(), "github.com/cenkalti/backoff/v5")
		zero := len(opt.Args) == 1 && c.is(opt, "github.com/avast/retry-go.Attempts", "github.com/avast/retry-go.UntilSucceeded", "github.com/cenkalti/backoff.WithMaxElapsedTime") && isZero(c, opt.Args[0])
		if constantly || zero || c.is(opt, "github.com/avast/retry-go.UntilSucceeded") {
			c.report(opt, nil, "%s has no bound here: nothing ends it while the dependency is down, and the caller waits for ever; "+
				"give it a number of attempts, or a context with a deadline", shortName(c.callee(call)))
		}
	}
}

var bounds = regexp.MustCompile(`^(Context|WithContext|WithMaxRetries|WithMaxTries)$`)

// dateIgnored is the part of G134 that finds a Retry-After which is read as a number alone, and is 0 if it is a date.
func dateIgnored(c *check) {
	c.eachCall(func(at inspector.Cursor, call *ast.CallExpr) {
		as, is := at.Parent().Node().(*ast.AssignStmt)
		if !is || len(as.Lhs) != 2 || len(call.Args) == 0 || source(as.Lhs[1]) != "_" || !c.is(call, "strconv.Atoi", "strconv.ParseInt") {
			return
		}
		if parsesRetryAfter(c, call) {
			c.report(call, nil, "a Retry-After may be a date, which is no number: the error is dropped and the wait becomes 0, so the server is asked again at once, just when it said when; "+
				"read it by http.ParseTime too, and wait for a time of your own if it is neither")
		}
	})
}

// parsesRetryAfter reports whether a call makes a number of what Retry-After says.
func parsesRetryAfter(c *check, call *ast.CallExpr) bool {
	return c.is(call, "strconv.Atoi", "strconv.ParseInt", "strconv.ParseUint") && slices.ContainsFunc(append(sources(c.unit, call.Args[0], nil), call.Args[0]), func(from ast.Expr) bool {
		get, is := from.(*ast.CallExpr)
		return is && len(get.Args) == 1 && isNamed(get, getName) && strings.EqualFold(constantText(c, get.Args[0]), "retry-after")
	})
}

var getName = regexp.MustCompile(`^Get$`)
