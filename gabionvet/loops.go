package gabionvet

import (
	"go/ast"
	"go/token"
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
	oks      map[types.Object]bool // true after a success, by which the loop ends
	waits    []wait                // in its own body, not in function literals
	exit     exit
	others   bool // each attempt is for another thing of a list, as one server after the other
}

// A wait is where a loop waits before it comes round.
type wait struct {
	node  ast.Node
	d     ast.Expr // how long, or a call of what waits
	sleep bool     // nothing ends it
}

func (u *unit) findLoops() {
	u.root.Inspect([]ast.Node{(*ast.ForStmt)(nil), (*ast.RangeStmt)(nil), (*ast.LabeledStmt)(nil)}, func(c inspector.Cursor) bool {
		switch l := u.readLoop(c); {
		case l == nil:
		case l.others:
			u.failovers = append(u.failovers, l)
		default:
			u.loops = append(u.loops, l)
		}
		return true
	})
}

func (u *unit) readLoop(c inspector.Cursor) *retryLoop {
	l := &retryLoop{stmt: c.Node().(ast.Stmt), cursor: c, errs: map[types.Object]bool{}, oks: map[types.Object]bool{}}
	if !u.looksAt(l.stmt.Pos()) {
		return nil
	}
	switch s := l.stmt.(type) {
	case *ast.ForStmt:
		if l.others = countsThings(s.Cond); l.others && !mentions(s.Cond, lenName) {
			return nil
		}
		l.body = s.Body
	case *ast.RangeStmt:
		if l.others = !u.countsTimes(s.X); l.others && !isList(u.typeOf(s.X)) {
			return nil
		}
		l.body = s.Body
	case *ast.LabeledStmt:
		if l.label, l.body = s.Label.Name, rounds(u, c, s); l.body == nil {
			return nil
		}
	}
	if p, is := c.Parent().Node().(*ast.LabeledStmt); is {
		l.label = p.Label.Name
	}
	for e := range c.Enclosing((*ast.FuncDecl)(nil), (*ast.FuncLit)(nil)) {
		l.fn = e.Node()
		break
	}
	u.findWaits(l)
	u.findAttempts(l)
	findOKs(u, l)
	if l.fn == nil || len(l.attempts) == 0 {
		return nil
	}
	return u.judgeLoop(l)
}

// rounds returns the code that a goto repeats: from its label to the end of the block that it stands in.
func rounds(u *unit, c inspector.Cursor, s *ast.LabeledStmt) *ast.BlockStmt {
	block, is := c.Parent().Node().(*ast.BlockStmt)
	switch s.Stmt.(type) {
	case *ast.ForStmt, *ast.RangeStmt, *ast.SwitchStmt, *ast.SelectStmt, *ast.TypeSwitchStmt:
		return nil
	}
	if !is {
		return nil
	}
	for i, stmt := range block.List {
		if stmt != ast.Stmt(s) {
			continue
		}
		body := &ast.BlockStmt{Lbrace: s.Pos(), List: append([]ast.Stmt{s.Stmt}, block.List[i+1:]...), Rbrace: block.Rbrace}
		if has(body, func(b *ast.BranchStmt) bool {
			return b.Tok == token.GOTO && b.Label != nil && b.Label.Name == s.Label.Name
		}) {
			return body
		}
	}
	return nil
}

// code is the whole loop.
func (l *retryLoop) code() ast.Node {
	if _, is := l.stmt.(*ast.LabeledStmt); is {
		return l.body
	}
	return l.stmt
}

// countsThings reports whether a loop goes over the elements of something, by its
// condition: it tries one after the other.
func countsThings(cond ast.Expr) bool {
	return cond != nil && has(cond, func(call *ast.CallExpr) bool {
		switch f := call.Fun.(type) {
		case *ast.Ident:
			return f.Name == "len"
		case *ast.SelectorExpr:
			return f.Sel.Name == "Next" && !mentions(f.X, retryName) || f.Sel.Name == "Scan" || f.Sel.Name == "HasMorePages" || f.Sel.Name == "Len"
		}
		return false
	})
}

var lenName = regexp.MustCompile(`^len$`)

func isList(t types.Type) bool {
	if t == nil {
		return false
	}
	switch t.Underlying().(type) {
	case *types.Slice, *types.Array:
		return true
	}
	return false
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
	case *types.Chan:
		return typeName(t.Elem()) == "time.Time"
	}
	return false
}

// findAttempts finds the calls over a network that the loop looks at the error of.
func (u *unit) findAttempts(l *retryLoop) {
	note := func(e ast.Expr) bool {
		call, is := ast.Unparen(e).(*ast.CallExpr)
		if !is || !u.isRemote(call) && (len(l.waits) == 0 || !isDynamic(u, call) && !worksOut(u, call)) {
			return false
		}
		l.attempts = append(l.attempts, call)
		return true
	}
	ast.Inspect(l.code(), func(n ast.Node) bool {
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

// waitFlag marks the nodes that are a loop's waits.
func (l *retryLoop) waitFlag(n ast.Node) uint8 {
	for _, w := range l.waits {
		if w.node == n {
			return waited
		}
	}
	return 0
}

// judgeLoop returns the loop if it tries again after a failure, or after an answer that says 503, and ends after
// a success. A success that comes round makes it a loop that waits for a state, or that consumes.
func (u *unit) judgeLoop(l *retryLoop) *retryLoop {
	w := &walk{u: u, errs: l.errs, oks: l.oks, flag: l.waitFlag}
	l.exit = w.loop(l.stmt, l.label)
	if w.lost || !l.exit.leave.has(ok, 0, 0) {
		return nil
	}
	var must uint8
	if len(l.waits) > 0 && !within(l.body, l.waits[0].node.Pos()) {
		must = 0 // it goes over the ticks
	} else if len(l.waits) > 0 {
		must = waited // or it waits for something else
	}
	if !u.looksAtStatus(l.body) {
		if l.exit.round.has(ok, 0, 0) || !l.exit.round.has(failed, must, 0) {
			return nil
		}
		return l
	}
	round := func(status int) set {
		w := &walk{u: u, errs: l.errs, oks: l.oks, flag: l.waitFlag, status: status}
		return w.loop(l.stmt, l.label).round
	}
	if round(200).has(ok, 0, 0) {
		return nil
	}
	if l.exit.round.has(failed, must, 0) {
		return l
	}
	if !l.exit.round.has(failed, 0, 0) && !round(202).has(ok, 0, 0) && (round(503).has(ok, must, 0) || round(429).has(ok, must, 0)) {
		return l
	}
	return nil
}

func (u *unit) looksAtStatus(n ast.Node) bool {
	return has(n, func(e ast.Expr) bool { return u.isStatus(e) })
}

// bounded reports whether anything but a success can leave the loop: a failure, or what
// comes before the next attempt, such as a channel that says that the program ends.
func (l *retryLoop) bounded() bool {
	return l.exit.leave.has(failed, 0, 0) || l.exit.leave.has(none, 0, 0)
}

// mentions reports whether a node names something that matches.
func mentions(n ast.Node, name *regexp.Regexp) bool {
	return n != nil && has(n, func(id *ast.Ident) bool { return name.MatchString(id.Name) })
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
