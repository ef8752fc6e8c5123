package gabionvet

import (
	"go/ast"
	"go/token"
	"go/types"
	"regexp"
	"slices"
	"strings"
)

// bodySentTwice is G110.
func bodySentTwice(c *check) {
	for _, r := range c.repeats {
		for _, at := range r.runs {
			c.checkResend(r, at)
		}
	}
}

func (c *check) checkResend(r repeated, at reached) {
	var body ast.Expr
	call := at.call
	switch {
	case c.is(call, "net/http.NewRequest", "net/http.NewRequestWithContext", "net/http.Post") || c.is(call, "(net/http.Client).Post"):
		body = call.Args[len(call.Args)-1]
	case c.is(call, "(net/http.Client).Do", "(net/http.RoundTripper).RoundTrip", "(net/http.Transport).RoundTrip") && len(call.Args) == 1:
		c.checkSameRequest(r, at)
		return
	default:
		checkGivenReader(c, r, at)
		return
	}
	v := given(c.unit, readFrom(c.unit, body), at.path)
	if v == nil || v.IsField() || !r.outside(v, at.path) || !c.isReader(v.Type()) || c.rewinds(r.body, v) || c.isNilAlways(v) {
		return
	}
	where := ast.Node(at.top)
	if len(at.path) == 0 {
		where = body
	}
	c.report(where, nil, "%s sends the same reader on every attempt%s: the first one reads %s to its end, so the second sends an empty body, or fails; "+
		"make a reader of the bytes for each attempt, as bytes.NewReader(data) does", c.loopName(r), through(at), v.Name())
}

// checkGivenReader finds an attempt behind an interface that is given what the attempt before it has read.
func checkGivenReader(c *check, r repeated, at reached) {
	if r.loop == nil || len(at.path) > 0 || !slices.Contains(r.loop.attempts, at.call) || !isDynamic(c.unit, at.call) {
		return
	}
	for _, arg := range at.call.Args {
		v, is := c.object(arg).(*types.Var)
		if !is || v.IsField() || !r.outside(v, nil) || mentions(r.node, rewindName) || c.changesIn(v, r.node) {
			continue
		}
		switch typeName(c.typeOf(arg)) {
		case "io.Reader", "io.ReadCloser", "os.File", "bytes.Buffer", "bufio.Reader":
			c.report(arg, nil, "%s gives the same reader to every attempt: the first one reads %s to its end, so the second has nothing left of it; "+
				"make a reader in each attempt, or seek to its beginning", c.loopName(r), v.Name())
		}
	}
}

// given returns the variable that an expression names, or for a parameter of what is followed, the one that it is given.
func given(u *unit, e ast.Expr, path []step) *types.Var {
	v, _ := u.object(e).(*types.Var)
	for i := len(path) - 1; v != nil && i >= 0; i-- {
		node, at, is := parameterNode(u, v)
		if !is || node != path[i].node || at >= len(path[i].call.Args) {
			break
		}
		v, _ = u.object(readFrom(u, path[i].call.Args[at])).(*types.Var)
	}
	return v
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
			if u.targets[n] != nil && !mentions(u.targets[n].body, rewindName) {
				return !found
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

var rewindName = regexp.MustCompile(`^(Seek|Reset|GetBody|NewReader|NewBuffer|NewBufferString)$`)

// checkSameRequest finds a request with a body that was made outside and is sent again, or that is given to a function
// which sends it again, whatever it has.
func (c *check) checkSameRequest(r repeated, at reached) {
	v := given(c.unit, sameRequest(c, at.call.Args[0]), at.path)
	if v == nil || v.IsField() || !r.outside(v, at.path) || c.touchesBody(r.body, v) {
		return
	}
	has := false
	if node, _, is := parameterNode(c.unit, v); is && len(c.values[v]) == 0 {
		decl, isDecl := node.(*ast.FuncDecl)
		if !isDecl || mentions(decl, askedOfRequest) || c.touchesBody(decl.Body, v) {
			return
		}
		has = decl.Name.Name == "RoundTrip" || decl.Name.IsExported() && len(c.runners[node]) == 0
	} else if len(c.values[v]) != 1 {
		return
	}
	for _, from := range sources(c.unit, ast.Expr(identOf(c, v)), nil) {
		made, is := from.(*ast.CallExpr)
		if !is || !c.is(made, "net/http.NewRequest", "net/http.NewRequestWithContext") {
			continue
		}
		body := made.Args[len(made.Args)-1]
		has = has || !c.isNil(body) && !c.mayBeNil(body) && !mentions(body, noBody)
	}
	if !has {
		return
	}
	c.report(at.top, nil, "%s sends the same request on every attempt, and nothing rewinds its body: the first one reads it to its end, so the second sends an empty body, or fails; "+
		"make the request in each attempt, or set %s.Body from %s.GetBody() before it", c.loopName(r), v.Name(), v.Name())
}

var (
	methodName     = regexp.MustCompile(`^(Method|GetBody|Body|ContentLength)$`)
	askedOfRequest = regexp.MustCompile(`^(Method|GetBody|ContentLength)$`)
)

// sameRequest returns the request that a call sends: req.WithContext(ctx) and req.Clone(ctx) have the body of req.
func sameRequest(c *check, e ast.Expr) ast.Expr {
	if call, is := ast.Unparen(e).(*ast.CallExpr); is && c.is(call, "(net/http.Request).WithContext", "(net/http.Request).Clone") {
		return call.Fun.(*ast.SelectorExpr).X
	}
	return e
}

// identOf returns a use of a variable.
func identOf(c *check, v *types.Var) *ast.Ident {
	for _, use := range c.uses[v] {
		return use.Node().(*ast.Ident)
	}
	return ast.NewIdent(v.Name())
}

func (u *unit) mayBeNil(e ast.Expr) bool {
	return slices.ContainsFunc(u.values[u.object(e)], func(value ast.Expr) bool {
		return value == nil || u.isNil(value)
	})
}

func (u *unit) touchesBody(n ast.Node, req types.Object) (found bool) {
	ast.Inspect(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			if u.object(n.X) == req && (n.Sel.Name == "Body" || n.Sel.Name == "GetBody") {
				found = true
			}
		case *ast.CallExpr:
			if t := u.targets[n]; t != nil && !mentions(t.body, methodName) {
				return !found
			}
			if f := u.callee(n); (f == nil || f.Pkg() == u.pkg || !strings.HasPrefix(f.Pkg().Path(), "net/")) && usesAsArgument(u, n, req) {
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
