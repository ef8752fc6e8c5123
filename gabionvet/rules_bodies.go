package gabionvet

import (
	"go/ast"
	"go/token"
	"go/types"
	"regexp"
	"strings"

	"golang.org/x/tools/go/ast/inspector"
)

// An answer is a variable that holds a *http.Response of a call.
type answer struct {
	obj  types.Object
	call *ast.CallExpr
	stmt *ast.AssignStmt
	body *ast.BlockStmt // of the function
	at   inspector.Cursor
}

// answers are the responses that functions of the package get from calls of some kind.
func (u *unit) answers(of func(*ast.CallExpr) bool) (all []answer) {
	for c, s := range every[*ast.AssignStmt](u) {
		if len(s.Rhs) != 1 || len(s.Lhs) != 2 || !isError(u.typeOf(s.Lhs[1])) {
			continue
		}
		call, is := ast.Unparen(s.Rhs[0]).(*ast.CallExpr)
		obj, isVar := u.object(s.Lhs[0]).(*types.Var)
		if !is || !isVar || obj.IsField() || !isResponse(obj.Type()) || !of(call) {
			continue
		}
		if _, _, body := enclosing(c); body != nil && declaredIn(obj, body) {
			all = append(all, answer{obj, call, s, body, c})
		}
	}
	return all
}

func isResponse(t types.Type) bool { return isPointer(t) && typeName(t) == "net/http.Response" }

// sends reports whether a call sends a request of net/http.
func (u *unit) sends(call *ast.CallExpr) bool {
	return u.is(call, shortcuts...) || u.is(call, clientShortcuts...) ||
		u.is(call, "(net/http.Client).Do", "(net/http.Transport).RoundTrip", "(net/http.RoundTripper).RoundTrip")
}

// uses says what a function does with an answer.
type uses struct {
	escapes bool // it, or its body, goes elsewhere
	closes  bool
	reads   bool
}

func (u *unit) usesOf(a answer) (all uses) {
	for _, id := range u.uses[a.obj] {
		u.use(id, a, &all)
	}
	return all
}

func (u *unit) use(id inspector.Cursor, a answer, all *uses) {
	parent := id.Parent()
	sel, isField := parent.Node().(*ast.SelectorExpr)
	switch p := parent.Node().(type) {
	case *ast.AssignStmt:
		if p != a.stmt {
			for _, to := range p.Lhs {
				if to == id.Node() {
					return // it is assigned to
				}
			}
			all.escapes = true
		}
		return
	case *ast.BinaryExpr:
		return // compared with nil
	}
	if !isField {
		all.escapes = true
		return
	}
	if sel.Sel.Name != "Body" {
		if f, is := u.info.Uses[sel.Sel].(*types.Func); is && f.Name() == "Write" {
			all.reads, all.closes = true, true
		}
		return
	}
	switch p := parent.Parent().Node().(type) {
	case *ast.SelectorExpr: // resp.Body.Close
		if p.Sel.Name == "Close" {
			all.closes = true
			if _, is := parent.Parent().Parent().Node().(*ast.CallExpr); !is {
				all.escapes = true // the method as a value
			}
		} else {
			all.reads = true
		}
	case *ast.CallExpr:
		all.reads = true
		if !u.onlyReads(p) {
			all.closes = true // by another function, perhaps
			all.escapes = true
		}
	case *ast.BinaryExpr:
	default:
		all.escapes = true
	}
}

// onlyReads reports whether a call reads a body and surely doesn't close it.
func (u *unit) onlyReads(call *ast.CallExpr) bool {
	return u.is(call, "io.ReadAll", "io.Copy", "io.CopyN", "io.CopyBuffer", "io/ioutil.ReadAll", "io.LimitReader", "bufio.NewScanner",
		"bufio.NewReader", "encoding/json.NewDecoder", "encoding/xml.NewDecoder", "io.ReadFull", "io.TeeReader")
}

// bodyNotClosed is G108.
func bodyNotClosed(c *check) {
	for _, a := range c.answers(func(call *ast.CallExpr) bool { return opens(c, call) }) {
		c.checkRounds(a)
	}
}

// opens reports whether a call returns an answer whose body is open: it sends, or it calls what is
// there to send. A function of the package that reads or replaces the body does not.
func opens(c *check, call *ast.CallExpr) bool {
	if c.sends(call) {
		return true
	}
	if _, _, isParam := parameterOf(c.unit, call.Fun); isParam {
		return true
	}
	t := c.targets[call]
	return t != nil && c.isRemote(call) && !mentions(t.body, bodyName)
}

var bodyName = regexp.MustCompile(`^(Body|Close)$`)

// checkRounds finds the paths on which a loop tries again and leaves the answer open.
func (c *check) checkRounds(a answer) {
	for _, l := range c.loops {
		if !within(l.body, a.call.Pos()) || !within(a.body, l.stmt.Pos()) || !declaredIn(a.obj, l.body) {
			continue
		}
		touches := func(n ast.Node) uint8 {
			switch n := n.(type) {
			case *ast.CallExpr:
				if n == a.call {
					return opened
				}
			case *ast.SelectorExpr:
				if n.Sel.Name == "Body" && c.object(n.X) == a.obj {
					return closed
				}
			case *ast.Ident:
				if c.info.Uses[n] == a.obj && !c.isFieldOf(n) {
					return closed // handed on
				}
			}
			return 0
		}
		w := &walk{u: c.unit, errs: l.errs, oks: l.oks, flag: touches, status: 503}
		if e := w.loop(l.stmt, l.label); !w.lost && e.round.has(ok, opened, closed) {
			c.report(a.call, nil, "when this loop tries again after an answer, such as a 503, it leaves that answer's body open: each try loses a connection; "+
				"read it to the end and close %s.Body before the next try", a.obj.Name())
		}
	}
}

func (u *unit) isFieldOf(id *ast.Ident) bool {
	c, found := u.root.FindNode(id)
	if !found {
		return false
	}
	switch p := c.Parent().Node().(type) {
	case *ast.SelectorExpr:
		return p.X == ast.Expr(id)
	case *ast.BinaryExpr:
		return true
	}
	return false
}

// bodyNotDrained is G109.
func bodyNotDrained(c *check) {
	given := map[*ast.BlockStmt]bool{}
	for _, a := range c.answers(c.sends) {
		used := c.usesOf(a)
		if used.escapes || !used.closes || used.reads || c.isHead(a) || c.inMain(a) || c.ownClient(a) {
			continue
		}
		if _, known := given[a.body]; !known {
			given[a.body] = c.giveBack(a)
		}
		if given[a.body] {
			continue
		}
		c.report(a.call, nil, "the body of this answer is closed and never read: up to Go 1.26 its connection is closed with it, so every call dials again, and shakes hands for TLS; "+
			"before Close write io.Copy(io.Discard, io.LimitReader(%s.Body, 64<<10))", a.obj.Name())
	}
}

// inMain reports whether an answer is one of main's own, which runs once.
func (c *check) inMain(a answer) bool {
	decl := c.enclosingDecl(a.call)
	return decl != nil && decl.Recv == nil && decl.Name.Name == "main" && decl.Body == a.body
}

// ownClient reports whether the client is made in the function itself: its connections may
// be for this one answer alone.
func (c *check) ownClient(a answer) bool {
	sel, is := ast.Unparen(a.call.Fun).(*ast.SelectorExpr)
	if !is {
		return false
	}
	obj := c.object(sel.X)
	return declaredIn(obj, a.body) && len(c.values[obj]) > 0
}

// isHead reports whether the request has no body in its answer.
func (u *unit) isHead(a answer) bool {
	name := calledName(a.call)
	if name != nil && name.Name == "Head" {
		return true
	}
	for _, arg := range a.call.Args {
		for _, value := range u.values[u.object(arg)] {
			call, is := value.(*ast.CallExpr)
			if !is || !u.is(call, "net/http.NewRequest", "net/http.NewRequestWithContext") {
				return true // not seen
			}
			method := call.Args[len(call.Args)-3]
			if tv := u.info.Types[method]; tv.Value == nil || strings.Contains(tv.Value.ExactString(), "HEAD") {
				return true
			}
		}
		if len(u.values[u.object(arg)]) == 0 && isRequest(u.typeOf(arg)) {
			return true
		}
	}
	return false
}

func isRequest(t types.Type) bool { return typeName(t) == "net/http.Request" }

// giveBack reports whether the function ends connections on purpose, or reads nothing because the
// server answers with no more than a status.
func (u *unit) giveBack(a answer) bool {
	return has(a.body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Ident:
			return n.Name == "DisableKeepAlives" || n.Name == "CloseIdleConnections" || n.Name == "StatusNoContent" || n.Name == "StatusSwitchingProtocols"
		case *ast.BasicLit:
			return n.Kind == token.INT && (n.Value == "204" || n.Value == "101")
		}
		return false
	})
}
