package gabionvet

import (
	"fmt"
	"go/ast"
	"go/types"
	"regexp"
	"slices"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/ast/inspector"
)

// waitWithoutJitter is G101.
func waitWithoutJitter(c *check) {
	sameJitter(c)
	for _, l := range c.loops {
		for _, w := range l.waits {
			if drawnWait(c.unit, w) || c.drawsIn(l) || c.asks(l) && ofTicker(c.unit, w) { // one that asks at fixed times follows a protocol
				continue
			}
			c.report(w.node, c.jitterFix(l, w), "this loop waits %s before it tries again, without jitter: callers that failed together come back together, "+
				"again and again; draw the wait from a range, as rand.N(%s) of math/rand/v2 does, or let gabion.Do wait", c.waitText(w.d), source(w.d))
			break
		}
	}
}

// ofTicker reports whether a wait is for the next tick.
func ofTicker(u *unit, w wait) bool {
	return has(w.node, func(sel *ast.SelectorExpr) bool { return typeName(u.typeOf(sel.X)) == "time.Ticker" })
}

// drawnWait reports whether how long a wait takes may be drawn. Of a function of the package that waits
// its arguments decide, and what it calls.
func drawnWait(u *unit, w wait) bool {
	call, is := w.d.(*ast.CallExpr)
	if t := u.targets[call]; !is || ast.Node(call) != w.node || t == nil {
		return u.mayBeRandom(w.d, 0)
	}
	for _, at := range reach(u, call) {
		if u.draws(at.call) {
			return true
		}
	}
	return slices.ContainsFunc(call.Args, func(e ast.Expr) bool {
		t := u.typeOf(e)
		return t != nil && (typeName(t) == "time.Duration" || isInteger(t)) && u.mayBeRandom(e, 0)
	})
}

func (u *unit) waitText(d ast.Expr) string {
	if tv := u.info.Types[d]; tv.Value != nil {
		return source(d) + " each time"
	}
	return source(d)
}

// drawsIn reports whether a loop, or the function around it, uses a random number.
func (u *unit) drawsIn(l *retryLoop) bool {
	var body *ast.BlockStmt
	switch f := l.fn.(type) {
	case *ast.FuncDecl:
		body = f.Body
	case *ast.FuncLit:
		body = f.Body
	}
	return slices.ContainsFunc(calls(body, true), func(call *ast.CallExpr) bool {
		return u.draws(call) || u.random[u.callee(call)] && within(l.code(), call.Pos())
	})
}

// mayBeRandom reports whether a duration comes from somewhere that may draw it: a call that
// is no conversion, a function value, an interface.
func (u *unit) mayBeRandom(e ast.Expr, depth int) (may bool) {
	if e == nil || depth > 4 {
		return true
	}
	ast.Inspect(e, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			if !u.info.Types[n.Fun].IsType() && !u.isPure(n) {
				may = true
			}
		case *ast.Ident:
			if v, is := u.info.Uses[n].(*types.Var); is && !may {
				may = u.variableMayBeRandom(v, depth)
			}
		}
		return !may
	})
	return may
}

var jitters = regexp.MustCompile(`(?i)rand|jitter|fuzz|splay|scatter|entropy`)

func (u *unit) variableMayBeRandom(v *types.Var, depth int) bool {
	if jitters.MatchString(v.Name()) || len(u.values[v]) == 0 && randomName.MatchString(v.Name()) {
		return true
	}
	if typeName(v.Type()) != "time.Duration" && !v.IsField() {
		if b, is := v.Type().Underlying().(*types.Basic); !is || b.Info()&types.IsNumeric == 0 {
			return false // a struct that a field is read of, and so on: the field decides
		}
	}
	if v.Pkg() != u.pkg {
		return true
	}
	for _, value := range u.values[v] {
		if value != nil && !mentionsObject(u, value, v) && u.mayBeRandom(value, depth+1) {
			return true
		}
		if value != nil && mentionsObject(u, value, v) && u.callsUnknown(value) {
			return true
		}
	}
	return false
}

func (u *unit) callsUnknown(e ast.Expr) bool {
	return slices.ContainsFunc(calls(e, true), func(call *ast.CallExpr) bool {
		return !u.info.Types[call.Fun].IsType() && !u.isPure(call)
	})
}

// isPure reports whether a call computes what it returns from its arguments alone.
func (u *unit) isPure(call *ast.CallExpr) bool {
	if id, is := ast.Unparen(call.Fun).(*ast.Ident); is {
		if _, is := u.info.Uses[id].(*types.Builtin); is {
			return true
		}
	}
	f := u.callee(call)
	if f == nil || f.Pkg() == nil {
		return false
	}
	switch f.Pkg().Path() {
	case "math", "math/bits", "time":
		return true
	}
	t := u.targets[call]
	return t != nil && computes(u, t, 0)
}

// computes reports whether what a function of the package returns comes from what it is given, and from
// nothing that could be random.
func computes(u *unit, t *code, depth int) bool {
	if depth > farthest {
		return false
	}
	for _, call := range calls(t.body, true) {
		inner := u.targets[call]
		switch f := u.callee(call); {
		case u.info.Types[call.Fun].IsType() || f == nil && inner == nil && u.isPure(call):
		case inner != nil && inner != t && computes(u, inner, depth+1):
		case f != nil && f.Pkg() != nil && (f.Pkg().Path() == "math" || f.Pkg().Path() == "time"):
		default:
			return false
		}
	}
	return !mentions(t.body, jitters)
}

func (c *check) jitterFix(l *retryLoop, w wait) []analysis.SuggestedFix {
	call, is := w.node.(*ast.CallExpr)
	if !is || !w.sleep || typeName(c.typeOf(w.d)) != "time.Duration" {
		return nil
	}
	name, edits := c.importing(call, "math/rand/v2", "rand")
	if name == "" {
		return nil
	}
	edits = append(edits,
		analysis.TextEdit{Pos: w.d.Pos(), End: w.d.Pos(), NewText: []byte(name + ".N(")},
		analysis.TextEdit{Pos: w.d.End(), End: w.d.End(), NewText: []byte(")")})
	if tv := c.info.Types[w.d]; tv.Value == nil {
		return nil // rand.N panics at zero
	}
	return []analysis.SuggestedFix{{Message: "Draw the wait between zero and " + source(w.d), TextEdits: edits}}
}

// loopWithoutBound is G102.
func loopWithoutBound(c *check) {
	endlessRecursion(c)
	restartsItself(c)
	c.eachCall(func(_ inspector.Cursor, call *ast.CallExpr) { endlessLibrary(c, call) })
	for _, l := range c.loops {
		if v := neverCounted(c, l); v != nil {
			c.report(l.stmt, nil, "nothing in this loop changes %s, so its condition is no bound: it repeats %s until that succeeds, or its context ends; count the attempts", v.Name(), called(l.attempts))
			continue
		}
		if l.bounded() || len(l.waits) == 0 && !endlessHead(l.stmt) {
			continue
		}
		c.report(l.stmt, nil, "this loop repeats %s until it succeeds: nothing ends it while the dependency is down, and the caller waits for ever; "+
			"bound the attempts, or the time with a context's deadline", called(l.attempts))
	}
}

func endlessHead(s ast.Stmt) bool {
	switch s := s.(type) {
	case *ast.ForStmt:
		return s.Cond == nil
	case *ast.LabeledStmt:
		return true
	}
	return false
}

func called(attempts []*ast.CallExpr) string {
	var names []string
	for _, a := range attempts {
		names = append(names, source(a.Fun))
		if len(names) == 2 {
			break
		}
	}
	return listed(names)
}

var contextEnd = regexp.MustCompile(`^(Done|Err|Cause|ctxErr|SleepWithContext|SleepContext)$`)

// sleepDeafToContext is G103.
func sleepDeafToContext(c *check) {
	endlessWithContext(c)
	goesOnAfterEnd(c)
	c.eachCall(func(at inspector.Cursor, call *ast.CallExpr) { deafLibrary(c, at, call) })
	for _, l := range c.loops {
		if hearsEnd(l.code()) {
			continue
		}
		name, _ := c.contextInScope(l.cursor)
		if name == "" {
			sleepDeafToCaller(c, l)
			continue
		}
		for _, w := range l.waits {
			if !w.sleep {
				continue
			}
			c.report(w.node, c.sleepFix(l, w, name), "time.Sleep ignores %s: a caller that gave up is kept waiting, and this loop goes on trying in vain; "+
				"wait in a select with <-%s.Done()", name, name)
			break
		}
	}
}

// sleepDeafToCaller finds a helper that has no context at all, while its callers have one.
func sleepDeafToCaller(c *check, l *retryLoop) {
	name := callerContext(c.unit, l)
	for _, w := range l.waits {
		if w.sleep && name != "" {
			c.report(w.node, nil, "time.Sleep ignores the context of what it retries, such as %s: a caller that gave up is kept waiting, and this loop goes on trying in vain; "+
				"take a context as a parameter, and wait in a select with its Done()", name)
			return
		}
	}
}

// sleepFix waits for the context too, where the function returns an error and no more.
func (c *check) sleepFix(l *retryLoop, w wait, ctx string) []analysis.SuggestedFix {
	at, found := c.root.FindNode(w.node)
	if !found {
		return nil
	}
	stmt, is := at.Parent().Node().(*ast.ExprStmt)
	_, typ, _ := enclosing(at)
	if !is || typ == nil || typ.Results == nil || len(typ.Results.List) != 1 || len(typ.Results.List[0].Names) > 1 ||
		!isError(c.typeOf(typ.Results.List[0].Type)) {
		return nil
	}
	text := fmt.Sprintf("select {\ncase <-%s.Done():\nreturn %s.Err()\ncase <-time.After(%s):\n}", ctx, ctx, source(w.d))
	if len(types.ExprString(w.d)) > 40 {
		return nil
	}
	return []analysis.SuggestedFix{{Message: "Wait for the context too", TextEdits: []analysis.TextEdit{{Pos: stmt.Pos(), End: stmt.End(), NewText: []byte(text)}}}}
}

var asksError = regexp.MustCompile(`(?i)retr(y|ia)|tempora|transient|permanent|fatal|recover|timeout|^Is[A-Z]|Code|^As$|^Is$|classif|should|status`)

// retriesEveryError is G104.
func retriesEveryError(c *check) {
	for _, l := range c.loops {
		if len(l.waits) == 0 || !c.grows(l) || c.asks(l) || c.looksAtStatus(l.body) || c.onlyDials(l) {
			continue
		}
		c.report(l.attempts[0], nil, "this loop repeats %s whatever its error says: what is refused, invalid, or ended by its context fails again each time, "+
			"after longer and longer waits; repeat only what can succeed, and return other errors at once", source(l.attempts[0].Fun))
	}
}

// grows reports whether the wait of a loop gets longer: it is a hand-written back-off.
func (u *unit) grows(l *retryLoop) bool {
	for _, w := range l.waits {
		if u.info.Types[w.d].Value != nil {
			continue
		}
		if has(w.d, func(id *ast.Ident) bool {
			v, is := u.info.Uses[id].(*types.Var)
			return is && !v.IsField() && u.changesIn(v, l.code())
		}) {
			return true
		}
	}
	return false
}

// changesIn reports whether a loop assigns to a variable, its own counter included.
func (u *unit) changesIn(v *types.Var, stmt ast.Node) (changes bool) {
	ast.Inspect(stmt, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			for _, to := range n.Lhs {
				changes = changes || u.object(to) == types.Object(v)
			}
		case *ast.IncDecStmt:
			changes = changes || u.object(n.X) == types.Object(v)
		case *ast.RangeStmt:
			changes = changes || n == stmt && n.Key != nil && (u.object(n.Key) == types.Object(v) || n.Value != nil && u.object(n.Value) == types.Object(v))
		}
		return !changes
	})
	return changes
}

// asks reports whether a loop asks anything of its error but whether there is one.
func (u *unit) asks(l *retryLoop) bool {
	return has(l.code(), func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			return asksOf(u, n)
		case *ast.BinaryExpr:
			if l.errs[u.object(n.X)] && !u.isNil(n.Y) || l.errs[u.object(n.Y)] && !u.isNil(n.X) {
				return true
			}
		case *ast.TypeAssertExpr, *ast.TypeSwitchStmt:
			return true
		case *ast.SwitchStmt:
			return n.Tag != nil && l.errs[u.object(n.Tag)]
		}
		return false
	})
}

// asksOf reports whether a call asks what an error or an answer is: by its name, and since it says yes or no,
// or has the error, the answer or its status.
func asksOf(u *unit, call *ast.CallExpr) bool {
	id := calledName(call)
	t, _ := u.typeOf(call).(*types.Basic)
	yesNo := t != nil && t.Kind() == types.Bool
	if yesNo && slices.ContainsFunc(call.Args, func(e ast.Expr) bool { return isError(u.typeOf(e)) }) {
		return true // refused(err)
	}
	if id == nil || !asksError.MatchString(id.Name) || u.is(call, derive...) {
		return false
	}
	of := call.Args
	if sel, is := call.Fun.(*ast.SelectorExpr); is {
		of = append(of[:len(of):len(of)], sel.X)
	}
	return yesNo || slices.ContainsFunc(of, func(e ast.Expr) bool {
		t := u.typeOf(e)
		return t != nil && (isError(t) || isResponse(t) || u.isStatus(e) || types.Implements(t, types.Universe.Lookup("error").Type().Underlying().(*types.Interface)))
	})
}

// onlyDials reports whether the attempts only open connections, all of whose failures may pass.
func (u *unit) onlyDials(l *retryLoop) bool {
	dial := regexp.MustCompile(`(?i)dial|connect|ping|listen|open|login|handshake|start|init|resolve|lookup|wait|close|shutdown`)
	for _, a := range l.attempts {
		if id := calledName(a); id == nil || !dial.MatchString(id.Name) {
			return false
		}
	}
	return true
}
