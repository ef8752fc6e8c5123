package gabionvet

import (
	"go/ast"
	"go/token"
	"go/types"
)

// bodySentTwice is G110.
func bodySentTwice(c *check) {
	for _, r := range c.repeats {
		for _, call := range calls(r.body, false) {
			c.checkResend(r, call)
		}
	}
}

func (c *check) checkResend(r repeated, call *ast.CallExpr) {
	var body ast.Expr
	switch {
	case c.is(call, "net/http.NewRequest", "net/http.NewRequestWithContext"):
		body = call.Args[len(call.Args)-1]
	case c.is(call, "net/http.Post") || c.is(call, "(net/http.Client).Post"):
		body = call.Args[len(call.Args)-1]
	case c.is(call, "(net/http.Client).Do", "(net/http.RoundTripper).RoundTrip", "(net/http.Transport).RoundTrip") && len(call.Args) == 1:
		c.checkSameRequest(r, call)
		return
	default:
		return
	}
	v, is := c.object(readFrom(c.unit, body)).(*types.Var)
	if !is || v.IsField() || declaredIn(v, r.node) || !c.isReader(v.Type()) || c.rewinds(r.body, v) || c.isNilAlways(v) {
		return
	}
	c.report(body, nil, "%s sends the same reader on every attempt: the first one reads %s to its end, so the second sends an empty body, or fails; "+
		"make a reader of the bytes for each attempt, as bytes.NewReader(data) does", c.loopName(r), v.Name())
}

// readFrom returns what a reader reads from in the end: &buf reads buf, io.NopCloser(r) reads r.
func readFrom(u *unit, e ast.Expr) ast.Expr {
	switch e := ast.Unparen(e).(type) {
	case *ast.UnaryExpr:
		if e.Op == token.AND {
			return e.X
		}
	case *ast.CallExpr:
		if u.is(e, "io.NopCloser", "io/ioutil.NopCloser", "io.LimitReader", "io.TeeReader", "bufio.NewReader") {
			return readFrom(u, e.Args[0])
		}
	}
	return e
}

func (c *check) loopName(r repeated) string {
	if r.by == nil {
		return r.what
	}
	return "the work of " + r.what
}

// isReader reports whether a type can be read only once.
func (u *unit) isReader(t types.Type) bool {
	switch typeName(t) {
	case "io.Reader", "io.ReadCloser", "io.ReadSeeker", "bytes.Buffer", "bytes.Reader", "strings.Reader", "os.File", "bufio.Reader":
		return true
	}
	return false
}

// rewinds reports whether code assigns to a reader anew or calls a method that resets it.
func (u *unit) rewinds(body ast.Node, v types.Object) (found bool) {
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			for _, to := range n.Lhs {
				found = found || u.object(to) == v
			}
		case *ast.CallExpr:
			sel, is := n.Fun.(*ast.SelectorExpr)
			if is && u.object(sel.X) == v && (sel.Sel.Name == "Seek" || sel.Sel.Name == "Reset") {
				found = true
			}
			if readFrom(u, n) == n && (!is || !u.sends(n) && !u.is(n, "net/http.NewRequest", "net/http.NewRequestWithContext")) {
				found = found || usesAsArgument(u, n, v) // a function of the program's own may rewind it
			}
		case *ast.TypeAssertExpr:
			found = found || u.object(n.X) == v
		}
		return !found
	})
	return found
}

func (u *unit) isNilAlways(v types.Object) bool {
	for _, value := range u.values[v] {
		if value == nil || !u.isNil(value) {
			return false
		}
	}
	return len(u.values[v]) > 0
}

// checkSameRequest finds a request with a body that was made outside and is sent again.
func (c *check) checkSameRequest(r repeated, call *ast.CallExpr) {
	v, is := c.object(call.Args[0]).(*types.Var)
	if !is || v.IsField() || declaredIn(v, r.node) || len(c.values[v]) != 1 || c.touchesBody(r.body, v) {
		return
	}
	made, is := c.values[v][0].(*ast.CallExpr)
	if !is || !c.is(made, "net/http.NewRequest", "net/http.NewRequestWithContext") {
		return
	}
	body := made.Args[len(made.Args)-1]
	if c.isNil(body) || c.mayBeNil(body) || mentions(body, noBody) {
		return
	}
	c.report(call, nil, "%s sends the same request on every attempt, and nothing rewinds its body: the first one reads it to its end, so the second sends an empty body, or fails; "+
		"make the request in each attempt, or set %s.Body from %s.GetBody() before it", c.loopName(r), v.Name(), v.Name())
}

func (u *unit) mayBeNil(e ast.Expr) bool {
	for _, value := range u.values[u.object(e)] {
		if value == nil || u.isNil(value) {
			return true
		}
	}
	return false
}

func (u *unit) touchesBody(n ast.Node, req types.Object) (found bool) {
	ast.Inspect(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			if u.object(n.X) == req && (n.Sel.Name == "Body" || n.Sel.Name == "GetBody" || n.Sel.Name == "Clone") {
				found = true
			}
		case *ast.CallExpr:
			if f := u.callee(n); (f == nil || f.Pkg() == u.pkg) && usesAsArgument(u, n, req) {
				found = true // the callee may rewind it
			}
		case *ast.AssignStmt:
			for _, to := range n.Lhs {
				found = found || u.object(to) == req
			}
		}
		return !found
	})
	return found
}

func usesAsArgument(u *unit, call *ast.CallExpr, obj types.Object) bool {
	for _, arg := range call.Args {
		if un, is := arg.(*ast.UnaryExpr); is && un.Op == token.AND {
			arg = un.X
		}
		if u.object(arg) == obj {
			return true
		}
	}
	return false
}
