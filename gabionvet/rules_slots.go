package gabionvet

import (
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"regexp"

	"golang.org/x/tools/go/ast/inspector"
)

// slotLost is G145.
func slotLost(c *check) {
	c.root.Inspect([]ast.Node{(*ast.BlockStmt)(nil), (*ast.CommClause)(nil), (*ast.CaseClause)(nil)}, func(at inspector.Cursor) bool {
		var list []ast.Stmt
		switch n := at.Node().(type) {
		case *ast.BlockStmt:
			list = n.List
		case *ast.CommClause:
			if list = n.Body; n.Comm != nil {
				list = append([]ast.Stmt{n.Comm}, n.Body...)
			}
		case *ast.CaseClause:
			list = n.Body
		}
		if !c.looksAt(at.Node().Pos()) {
			return true
		}
		for i, s := range list {
			if t, rest := takes(c, s, list[i+1:]); t != nil {
				checkSlot(c, t, rest)
			}
		}
		return true
	})
}

// A slot is what is taken, and must be given back.
type slot struct {
	what  string
	place ast.Node
	gives func(ast.Node) bool
}

// takes returns the slot that a statement takes, and what comes after it: of a channel of empty structs, a mutex, a semaphore or a pool, or a
// number of what is in flight.
func takes(c *check, s ast.Stmt, after []ast.Stmt) (*slot, []ast.Stmt) {
	switch s := s.(type) {
	case *ast.SelectStmt:
		for _, clause := range s.Body.List {
			clause := clause.(*ast.CommClause)
			if send, is := clause.Comm.(*ast.SendStmt); is && len(clause.Body) == 0 {
				return takes(c, send, after)
			}
		}
	case *ast.SendStmt:
		if v := c.typeOf(s.Value); v != nil {
			if t, is := v.Underlying().(*types.Struct); is && t.NumFields() == 0 {
				return ofChannelSlot(s, source(s.Chan)), after
			}
		}
	case *ast.IncDecStmt:
		if sel, is := s.X.(*ast.SelectorExpr); is && s.Tok == token.INC && inFlight.MatchString(sel.Sel.Name) {
			return counter(c, s, source(s.X)), after
		}
	case *ast.ExprStmt:
		if call, is := s.X.(*ast.CallExpr); is {
			return lockOrCount(c, s, call), after
		}
	}
	if as, is := s.(*ast.AssignStmt); is {
		if t, rest := releaser(c, as, after); t != nil {
			return t, rest
		}
	}
	return acquired(c, s, after)
}

func ofChannelSlot(s *ast.SendStmt, of string) *slot {
	return &slot{"slot of " + of, s, func(n ast.Node) bool {
		u, is := n.(*ast.UnaryExpr)
		return is && u.Op == token.ARROW && source(u.X) == of
	}}
}

var inFlight = regexp.MustCompile(`(?i)in_?flight|active|running|pending|in_?use|busy|outstanding|concurrent|inprogress`)

// counter is a number that is one more while something is done.
func counter(c *check, place ast.Node, of string) *slot {
	return &slot{"place in " + of, place, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.IncDecStmt:
			return n.Tok == token.DEC && source(n.X) == of
		case *ast.CallExpr:
			to, by := added(c, n)
			return by < 0 && to == of
		}
		return false
	}}
}

// added says to which number a call of sync/atomic adds, and how much.
func added(c *check, call *ast.CallExpr) (to string, by int64) {
	if len(call.Args) == 0 {
		return "", 0
	}
	v := c.info.Types[call.Args[len(call.Args)-1]].Value
	if v == nil || v.Kind() != constant.Int {
		return "", 0
	}
	by, _ = constant.Int64Val(v)
	switch sel, is := call.Fun.(*ast.SelectorExpr); {
	case c.is(call, "sync/atomic.AddInt32", "sync/atomic.AddInt64"):
		if un, is := call.Args[0].(*ast.UnaryExpr); is {
			return source(un.X), by
		}
	case is && c.is(call, "(sync/atomic.Int32).Add", "(sync/atomic.Int64).Add"):
		return source(sel.X), by
	}
	return "", 0
}

// lockOrCount returns what a call by itself takes.
func lockOrCount(c *check, s *ast.ExprStmt, call *ast.CallExpr) *slot {
	if to, by := added(c, call); by == 1 && inFlight.MatchString(to) {
		return counter(c, s, to)
	}
	for take, give := range map[string]string{"Lock": "Unlock", "RLock": "RUnlock"} {
		sel, is := call.Fun.(*ast.SelectorExpr)
		if ofMutex(c, s, take) == nil || !is {
			continue
		}
		of := source(sel.X)
		return &slot{"lock of " + of, s, func(n ast.Node) bool {
			call, is := n.(*ast.CallExpr)
			if !is {
				return false
			}
			sel, is := call.Fun.(*ast.SelectorExpr)
			return is && sel.Sel.Name == give && source(sel.X) == of
		}}
	}
	return nil
}

var (
	takeName = regexp.MustCompile(`^(Try)?(Acquire|Enter|Take|Borrow|Checkout)$|^(try)?(acquire|enter|borrow|checkout)$`)
	giveName = regexp.MustCompile(`(?i)^(r?unlock|release|leave|exit|put|return|give_?back|free|done)$`)
)

// acquired returns the slot that a statement acquires, and what comes after its failure was looked at.
func acquired(c *check, s ast.Stmt, after []ast.Stmt) (*slot, []ast.Stmt) {
	var call *ast.CallExpr
	var got types.Object
	branch, isIf := s.(*ast.IfStmt)
	as, is := s.(*ast.AssignStmt)
	if isIf {
		as, is = branch.Init.(*ast.AssignStmt)
	}
	switch {
	case is && len(as.Rhs) == 1:
		call, _ = as.Rhs[0].(*ast.CallExpr)
		if len(as.Lhs) == 2 && !isIf {
			got = c.object(as.Lhs[0])
		}
	case isIf:
		if not, is := branch.Cond.(*ast.UnaryExpr); is && not.Op == token.NOT {
			call, _ = not.X.(*ast.CallExpr)
		}
	}
	if call == nil || !isNamed(call, takeName) || isIf && !leaves(branch.Body.List) {
		return nil, nil
	}
	sel, is := call.Fun.(*ast.SelectorExpr)
	if !is {
		return nil, nil
	}
	if !isIf { // the error of it
		if len(after) == 0 {
			return nil, nil
		}
		failed, is := after[0].(*ast.IfStmt)
		if !is || !leaves(failed.Body.List) || !c.usesObject(failed.Cond, c.object(as.Lhs[len(as.Lhs)-1])) {
			return nil, nil
		}
		after = after[1:]
	}
	of, sets := source(sel.X), fieldsSet(c, call)
	return &slot{"slot of " + of, s, func(n ast.Node) bool {
		if by, is := n.(*ast.SelectorExpr); is && source(by.X) == of && !isCalled(c, by) {
			return true // the method as a value
		}
		give, is := n.(*ast.CallExpr)
		if !is || give == call {
			return false
		}
		by, is := give.Fun.(*ast.SelectorExpr)
		if is && source(by.X) == of && len(sets) > 0 && shares(fieldsSet(c, give), sets) {
			return true
		}
		return is && isNamed(give, giveName) && (source(by.X) == of || got != nil && (c.object(by.X) == got || usesAsArgument(c.unit, give, got)))
	}}, after
}

func isCalled(c *check, sel *ast.SelectorExpr) bool {
	at, found := c.root.FindNode(sel)
	if !found {
		return true
	}
	call, is := at.Parent().Node().(*ast.CallExpr)
	return is && call.Fun == ast.Expr(sel)
}

// fieldsSet are the fields that a method of the package assigns to: those of a breaker that is entered are settled later.
func fieldsSet(c *check, call *ast.CallExpr) map[types.Object]bool {
	t, all := c.targets[call], map[types.Object]bool{}
	if t == nil {
		return all
	}
	own(t.body, func(n ast.Node) {
		if as, is := n.(*ast.AssignStmt); is {
			for _, to := range as.Lhs {
				if v, is := c.object(to).(*types.Var); is && v.IsField() {
					all[v] = true
				}
			}
		}
	})
	return all
}

func shares(a, b map[types.Object]bool) bool {
	for o := range a {
		if b[o] {
			return true
		}
	}
	return false
}

// releaser returns the slot of which a call returned the function that gives it back.
func releaser(c *check, as *ast.AssignStmt, after []ast.Stmt) (*slot, []ast.Stmt) {
	if len(as.Rhs) != 1 || len(as.Lhs) != 2 || len(after) == 0 || !isError(c.typeOf(as.Lhs[1])) {
		return nil, nil
	}
	v, is := c.object(as.Lhs[0]).(*types.Var)
	sig, isFunc := signature(c.typeOf(as.Lhs[0]))
	failed, isIf := after[0].(*ast.IfStmt)
	if !is || v.IsField() || !isFunc || sig.Params().Len() > 0 || sig.Results().Len() > 0 || !giveName.MatchString(v.Name()) ||
		!isIf || !leaves(failed.Body.List) || !c.usesObject(failed.Cond, c.object(as.Lhs[1])) {
		return nil, nil
	}
	return &slot{"slot that " + v.Name() + " gives back, and", as, func(n ast.Node) bool {
		id, is := n.(*ast.Ident)
		return is && c.info.Uses[id] == types.Object(v)
	}}, after[1:]
}

// checkSlot reports the first return after a slot is taken that does not give it back, where the end does.
func checkSlot(c *check, t *slot, after []ast.Stmt) {
	end := token.NoPos
	for _, s := range after {
		switch s.(type) {
		case *ast.ExprStmt, *ast.DeferStmt, *ast.GoStmt, *ast.IncDecStmt, *ast.AssignStmt, *ast.ReturnStmt:
			if t.givenIn(s) {
				end = s.Pos()
			}
		}
	}
	for _, left := range returnsIn(after) {
		if left.Pos() > end {
			return
		}
		w := &walk{u: c.unit, flag: func(n ast.Node) uint8 {
			switch {
			case n == ast.Node(left):
				return opened
			case t.givenAt(c, n):
				return closed
			}
			return 0
		}}
		ret := &frame{}
		w.block(after, state{}.set(), ret)
		if !w.lost && ret.brk.has(none, opened, closed) {
			c.report(left, nil, "this returns without giving back the %s that is taken on line %d: each time it is one less, until nothing goes through any more; "+
				"give it back in a defer, right after it is taken", t.what, c.fset.Position(t.place.Pos()).Line)
			return
		}
	}
}

// returnsIn are the statements by which code returns. A break or continue may leave the slot to the next round, or to what comes after the loop.
func returnsIn(list []ast.Stmt) (all []*ast.ReturnStmt) {
	for _, s := range list {
		own(s, func(n ast.Node) {
			if ret, is := n.(*ast.ReturnStmt); is {
				all = append(all, ret)
			}
		})
	}
	return all
}

// givenAt reports whether a node gives the slot back, or hands it to what may.
func (t *slot) givenAt(c *check, n ast.Node) bool {
	switch n := n.(type) {
	case *ast.FuncLit, *ast.GoStmt, *ast.DeferStmt:
		return t.givenIn(n)
	case *ast.CallExpr:
		target := c.targets[n]
		return t.gives(n) || target != nil && (mentions(target.body, giveName) || ofChannel(target.body))
	}
	return t.gives(n)
}

func (t *slot) givenIn(n ast.Node) bool { return has(n, t.gives) }

// ofChannel reports whether code receives from a channel.
func ofChannel(body *ast.BlockStmt) bool {
	return has(body, func(u *ast.UnaryExpr) bool { return u.Op == token.ARROW })
}
