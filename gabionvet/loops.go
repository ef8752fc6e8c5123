package gabionvet

import (
	"go/ast"
	"go/types"
	"regexp"
	"strings"

	"golang.org/x/tools/go/ast/inspector"
)

// flags of the paths through a loop.
const (
	waited = 1 << iota
	closed
	opened
	marked
)

// A retryLoop is a loop that a success of its call leaves, and that comes round after a
// failure. Loops that go on for ever by design, such as those that accept or consume, and
// loops that wait for a state, are none.
type retryLoop struct {
	stmt     ast.Stmt
	body     *ast.BlockStmt
	label    string
	fn       ast.Node // the function that it stands in: *ast.FuncDecl or *ast.FuncLit
	cursor   inspector.Cursor
	attempts []*ast.CallExpr
	errs     map[types.Object]bool
	waits    []wait // in its own body, not in function literals
	exit     exit
}

// A wait is where a loop waits before it comes round.
type wait struct {
	node  ast.Node
	d     ast.Expr // how long
	sleep bool     // time.Sleep, which nothing ends
}

func (u *unit) findLoops() {
	u.root.Inspect([]ast.Node{(*ast.ForStmt)(nil), (*ast.RangeStmt)(nil)}, func(c inspector.Cursor) bool {
		if l := u.readLoop(c); l != nil {
			u.loops = append(u.loops, l)
		}
		return true
	})
}

func (u *unit) readLoop(c inspector.Cursor) *retryLoop {
	l := &retryLoop{stmt: c.Node().(ast.Stmt), cursor: c, errs: map[types.Object]bool{}}
	if !u.looksAt(l.stmt.Pos()) {
		return nil
	}
	switch s := l.stmt.(type) {
	case *ast.ForStmt:
		if countsThings(s.Cond) {
			return nil
		}
		l.body = s.Body
	case *ast.RangeStmt:
		if !u.countsTimes(s.X) {
			return nil
		}
		l.body = s.Body
	}
	if p, is := c.Parent().Node().(*ast.LabeledStmt); is {
		l.label = p.Label.Name
	}
	for e := range c.Enclosing((*ast.FuncDecl)(nil), (*ast.FuncLit)(nil)) {
		l.fn = e.Node()
		break
	}
	u.findAttempts(l)
	if l.fn == nil || len(l.attempts) == 0 {
		return nil
	}
	u.findWaits(l)
	return u.judgeLoop(l)
}

// countsThings reports whether a loop goes over the elements of something, by its
// condition: it tries one after the other.
func countsThings(cond ast.Expr) (found bool) {
	if cond == nil {
		return false
	}
	ast.Inspect(cond, func(n ast.Node) bool {
		if call, is := n.(*ast.CallExpr); is {
			switch f := call.Fun.(type) {
			case *ast.Ident:
				found = found || f.Name == "len"
			case *ast.SelectorExpr:
				found = found || f.Sel.Name == "Next" || f.Sel.Name == "Scan" || f.Sel.Name == "HasMorePages" || f.Sel.Name == "Len"
			}
		}
		return !found
	})
	return found
}

// countsTimes reports whether a range is over a number or over waits, and not over things.
func (u *unit) countsTimes(e ast.Expr) bool {
	t := u.typeOf(e)
	if t == nil {
		return false
	}
	switch t := t.Underlying().(type) {
	case *types.Basic:
		return t.Info()&types.IsInteger != 0 && !countsThings(e)
	case *types.Slice:
		return typeName(t.Elem()) == "time.Duration"
	case *types.Array:
		return typeName(t.Elem()) == "time.Duration"
	}
	return false
}

// findAttempts finds the calls over a network that the loop looks at the error of.
func (u *unit) findAttempts(l *retryLoop) {
	note := func(e ast.Expr) bool {
		call, is := ast.Unparen(e).(*ast.CallExpr)
		if !is || !u.isRemote(call) {
			return false
		}
		l.attempts = append(l.attempts, call)
		return true
	}
	ast.Inspect(l.stmt, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			return false
		case *ast.ForStmt, *ast.RangeStmt:
			return n == l.stmt // an inner loop's are its own
		case *ast.AssignStmt:
			if len(n.Rhs) != 1 || !isError(u.typeOf(n.Lhs[len(n.Lhs)-1])) {
				return true
			}
			if obj := u.object(n.Lhs[len(n.Lhs)-1]); obj != nil && note(n.Rhs[0]) {
				l.errs[obj] = true
			}
		case *ast.BinaryExpr:
			if u.isNil(n.Y) && isError(u.typeOf(n.X)) {
				note(n.X)
			}
		}
		return true
	})
}

func (u *unit) findWaits(l *retryLoop) {
	for _, call := range calls(l.body, false) {
		switch {
		case len(call.Args) != 1:
		case u.is(call, "time.Sleep"):
			l.waits = append(l.waits, wait{call, call.Args[0], true})
		case u.is(call, "time.After", "time.NewTimer"):
			l.waits = append(l.waits, wait{call, call.Args[0], false})
		case u.is(call, "(time.Timer).Reset"):
			l.waits = append(l.waits, wait{call, call.Args[0], false})
		}
	}
}

// waitFlag marks the nodes that are a loop's waits.
func (l *retryLoop) waitFlag(n ast.Node) uint8 {
	for _, w := range l.waits {
		if w.node == n {
			return waited
		}
	}
	return 0
}

func (u *unit) judgeLoop(l *retryLoop) *retryLoop {
	w := &walk{u: u, errs: l.errs, flag: l.waitFlag}
	l.exit = w.loop(l.stmt, l.label)
	if w.lost || !l.exit.leave.has(ok, 0, 0) || !l.exit.round.has(failed, 0, 0) {
		return nil
	}
	if len(l.waits) > 0 && !l.exit.round.has(failed, waited, 0) {
		return nil // it waits for something else
	}
	// A success that comes round makes it a loop that waits for a state, or that consumes.
	// Answers with a status are judged by a 200.
	if u.looksAtStatus(l.body) {
		w := &walk{u: u, errs: l.errs, flag: l.waitFlag, status: 200}
		if w.loop(l.stmt, l.label).round.has(ok, 0, 0) {
			return nil
		}
		return l
	}
	if l.exit.round.has(ok, 0, 0) {
		return nil
	}
	return l
}

func (u *unit) looksAtStatus(n ast.Node) (found bool) {
	ast.Inspect(n, func(n ast.Node) bool {
		if e, is := n.(ast.Expr); is && u.isStatus(e) {
			found = true
		}
		return !found
	})
	return found
}

// bounded reports whether anything but a success can leave the loop: a failure, or what
// comes before the next attempt, such as a channel that says that the program ends.
func (l *retryLoop) bounded() bool {
	return l.exit.leave.has(failed, 0, 0) || l.exit.leave.has(none, 0, 0)
}

// mentions reports whether a node names something that matches.
func mentions(n ast.Node, name *regexp.Regexp) (found bool) {
	if n == nil {
		return false
	}
	ast.Inspect(n, func(n ast.Node) bool {
		if id, is := n.(*ast.Ident); is && name.MatchString(id.Name) {
			found = true
		}
		return !found
	})
	return found
}

// contextInScope returns the name of a context that a function has: its own parameter or
// that of a function around it, or that of a request.
func (u *unit) contextInScope(c inspector.Cursor) (name string, handler bool) {
	for e := range c.Enclosing((*ast.FuncDecl)(nil), (*ast.FuncLit)(nil)) {
		var typ *ast.FuncType
		switch f := e.Node().(type) {
		case *ast.FuncDecl:
			typ = f.Type
		case *ast.FuncLit:
			typ = f.Type
		}
		for _, field := range typ.Params.List {
			t := u.typeOf(field.Type)
			for _, id := range field.Names {
				switch {
				case id.Name == "_":
				case isContext(t):
					return id.Name, false
				case typeName(t) == "net/http.Request":
					return id.Name + ".Context()", true
				}
			}
		}
		if _, is := e.Parent().Node().(*ast.GoStmt); is {
			return "", false
		}
		if call, is := e.Parent().Node().(*ast.CallExpr); is {
			if _, is := e.Parent().Parent().Node().(*ast.GoStmt); is && call.Fun == e.Node() {
				return "", false // it may be meant to outlive the context
			}
		}
	}
	return "", false
}

// listed joins names for a message.
func listed(names []string) string { return strings.Join(names, ", ") }
