package gabionvet

import (
	"go/ast"
	"go/token"
	"go/types"
	"regexp"
	"slices"
)

// A repeated is code that runs again after a failure: the body of a loop, or work.
type repeated struct {
	body  *ast.BlockStmt
	node  ast.Node // with the loop's head
	what  string   // "this loop", "gabion.Do"
	by    *region  // nil for a loop
	loop  *retryLoop
	ch    types.Object // to which a hedge sends its result
	hedge bool         // it runs while the first may still succeed
	runs  []reached    // what it calls
}

// outside reports whether a variable is declared outside of what is repeated, and of what is followed from it.
func (r repeated) outside(v types.Object, path []step) bool {
	return v != nil && !declaredIn(v, r.node) && !slices.ContainsFunc(path, func(s step) bool { return declaredIn(v, s.node) })
}

// elsewhere reports whether each attempt goes to another server of a list.
func (r repeated) elsewhere() bool { return r.loop != nil && r.loop.others }

// findRepeats collects all of it.
func findRepeats(u *unit) {
	for _, l := range slices.Concat(u.loops, u.failovers) {
		u.repeats = append(u.repeats, repeated{body: l.body, node: l.code(), what: "this loop", loop: l, runs: reach(u, l.body)})
	}
	for _, r := range u.regions {
		node := ast.Node(r.body)
		if r.lit != nil {
			node = r.lit
		}
		u.repeats = append(u.repeats, repeated{body: r.body, node: node, what: r.short, by: r, runs: reach(u, r.body)})
	}
	for _, decl := range every[*ast.FuncDecl](u) {
		if decl.Body == nil {
			continue
		}
		if again := callsItself(u, decl); again != nil {
			u.repeats = append(u.repeats, repeated{body: decl.Body, node: decl.Body, what: decl.Name.Name + ", which calls itself,", runs: reach(u, decl)})
		}
		findHedges(u, decl)
	}
}

var attemptName = regexp.MustCompile(`(?i)attempt|tr(y|ies)|retr|remain|left|count|^n$`)

// callsItself returns the call by which a function tries again: with one attempt more, or less.
func callsItself(u *unit, decl *ast.FuncDecl) *ast.CallExpr {
	for _, call := range directCalls(decl.Body) {
		if t := u.targets[call]; t == nil || t.node != ast.Node(decl) {
			continue
		}
		for _, arg := range call.Args {
			b, is := ast.Unparen(arg).(*ast.BinaryExpr)
			if !is || b.Op != token.ADD && b.Op != token.SUB || !attemptName.MatchString(source(b.X)) {
				continue
			}
			if node, _, is := parameterOf(u, b.X); is && node == ast.Node(decl) {
				return call
			}
		}
	}
	return nil
}

// findHedges finds work that a function starts twice, in goroutines that send their results to one channel, of which
// it takes the first.
func findHedges(u *unit, decl *ast.FuncDecl) {
	type hedge struct {
		starts int
		works  []*ast.FuncLit
	}
	found := map[types.Object]*hedge{}
	var order []types.Object
	in, _ := u.root.FindNode(decl)
	for at := range in.Preorder((*ast.GoStmt)(nil)) {
		call := at.Node().(*ast.GoStmt).Call
		t := u.targets[call]
		lit, is := ast.Node(nil), false
		if t != nil {
			lit = t.node
		}
		work, is := lit.(*ast.FuncLit)
		if !is {
			continue
		}
		ch := sendsTo(u, work)
		if ch == nil || !takesFirst(u, decl, ch) {
			continue
		}
		h := found[ch]
		if h == nil {
			h = &hedge{}
			found[ch], order = h, append(order, ch)
		}
		h.starts++
		for range at.Enclosing((*ast.ForStmt)(nil), (*ast.RangeStmt)(nil)) {
			h.starts++
		}
		for e := range at.Enclosing((*ast.FuncLit)(nil)) { // start()
			h.starts += max(0, len(u.runners[e.Node()])-1)
			break
		}
		h.works = append(h.works, work)
	}
	for _, ch := range order {
		h := found[ch]
		for _, work := range h.works {
			if h.starts > 1 {
				u.repeats = append(u.repeats, repeated{body: work.Body, node: work, what: "this hedge", hedge: true, ch: ch, runs: reach(u, work.Body)})
			}
		}
	}
}

// sendsTo returns the channel to which a function literal sends, if it is one.
func sendsTo(u *unit, lit *ast.FuncLit) (ch types.Object) {
	ast.Inspect(lit.Body, func(n ast.Node) bool {
		if s, is := n.(*ast.SendStmt); is && ch == nil {
			ch = u.object(s.Chan)
		}
		return true
	})
	return ch
}

// takesFirst reports whether a function receives from a channel, and never in a loop.
func takesFirst(u *unit, decl *ast.FuncDecl, ch types.Object) (takes bool) {
	for _, use := range u.uses[ch] {
		switch p := use.Parent().Node().(type) {
		case *ast.UnaryExpr:
			if p.Op != token.ARROW || !within(decl, p.Pos()) {
				return false
			}
			for loop := range use.Enclosing((*ast.ForStmt)(nil), (*ast.RangeStmt)(nil)) {
				if !endsWithSuccess(u, loop.Node()) {
					return false
				}
			}
			takes = true
		case *ast.SendStmt:
		default:
			return false
		}
	}
	return takes
}

// endsWithSuccess reports whether a loop returns when an error is nil.
func endsWithSuccess(u *unit, loop ast.Node) bool {
	return has(loop, func(s *ast.IfStmt) bool {
		b, is := s.Cond.(*ast.BinaryExpr)
		return is && b.Op == token.EQL && u.isNil(b.Y) && isError(u.typeOf(b.X)) && returns(s.Body.List)
	})
}
