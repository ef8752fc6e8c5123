package gabionvet

import (
	"go/ast"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/ast/inspector"
)

// shortcuts are the functions of net/http that use http.DefaultClient.
var shortcuts = []string{"net/http.Get", "net/http.Head", "net/http.Post", "net/http.PostForm"}

// clientShortcuts are the same as methods of a client.
var clientShortcuts = []string{"(net/http.Client).Get", "(net/http.Client).Head", "(net/http.Client).Post", "(net/http.Client).PostForm"}

// eachCall visits the calls of what the rules look at.
func (u *unit) eachCall(visit func(inspector.Cursor, *ast.CallExpr)) {
	for at, call := range every[*ast.CallExpr](u) {
		visit(at, call)
	}
}

// clientWithoutTimeout is G107.
func clientWithoutTimeout(c *check) {
	readsWithoutDeadline(c)
	c.eachCall(func(_ inspector.Cursor, call *ast.CallExpr) {
		sel, is := ast.Unparen(call.Fun).(*ast.SelectorExpr)
		if !is {
			return
		}
		lacking := ""
		switch {
		case c.is(call, clientShortcuts...):
			lacking = "the request has no context"
		case c.is(call, "(net/http.Client).Do") && len(call.Args) == 1 && c.requestLimit(call.Args[0], 0) == endless:
			lacking = "the request's context has no deadline"
		default:
			return
		}
		if c.clientLimit(sel.X, 0) != endless {
			return
		}
		c.report(call, nil, "%s has no Timeout and %s: if the server accepts and says nothing, this never returns and holds all it has; "+
			"set http.Client's Timeout, or send with a context of context.WithTimeout", source(sel.X), lacking)
	})
}

// serverWithoutTimeouts is G125.
func serverWithoutTimeouts(c *check) {
	c.root.Inspect([]ast.Node{(*ast.CompositeLit)(nil), (*ast.CallExpr)(nil)}, func(at inspector.Cursor) bool {
		switch n := at.Node().(type) {
		case *ast.CallExpr:
			if c.is(n, "net/http.ListenAndServe", "net/http.ListenAndServeTLS", "net/http.Serve", "net/http.ServeTLS") {
				c.report(n, nil, "%s has no timeouts: a client that sends its header a byte at a time holds a connection and a goroutine for ever; "+
					"use an http.Server with ReadHeaderTimeout", source(n.Fun))
			}
		case *ast.CompositeLit:
			if typeName(c.typeOf(n)) == "net/http.Server" {
				c.checkServer(n)
			}
		}
		return true
	})
}

func (c *check) checkServer(lit *ast.CompositeLit) {
	if c.sets("net/http", "ReadHeaderTimeout") || c.sets("net/http", "ReadTimeout") {
		return
	}
	for _, elt := range lit.Elts {
		kv, is := elt.(*ast.KeyValueExpr)
		if !is {
			return
		}
		if id, is := kv.Key.(*ast.Ident); is && (id.Name == "ReadHeaderTimeout" || id.Name == "ReadTimeout") {
			return
		}
	}
	c.report(lit, c.headerTimeoutFix(lit), "this http.Server has neither ReadHeaderTimeout nor ReadTimeout: a client that sends its header a byte at a time "+
		"holds a connection and a goroutine for ever; set ReadHeaderTimeout")
}

func (c *check) headerTimeoutFix(lit *ast.CompositeLit) []analysis.SuggestedFix {
	name, edits := c.importing(lit, "time", "time")
	if name == "" || len(lit.Elts) == 0 {
		return nil
	}
	edits = append(edits, analysis.TextEdit{Pos: lit.Elts[0].Pos(), End: lit.Elts[0].Pos(), NewText: []byte("ReadHeaderTimeout: 10 * " + name + ".Second,\n")})
	return []analysis.SuggestedFix{{Message: "Set ReadHeaderTimeout to 10 s", TextEdits: edits}}
}
