package gabionvet

import (
	"go/ast"
	"go/token"
	"go/types"
	"regexp"
)

// statusNotRead is G136.
func statusNotRead(c *check) {
	for at, as := range every[*ast.AssignStmt](c.unit) {
		if len(as.Rhs) != 1 || len(as.Lhs) != 2 {
			continue
		}
		call, is := as.Rhs[0].(*ast.CallExpr)
		v, isVar := c.object(as.Lhs[0]).(*types.Var)
		_, _, body := enclosing(at)
		if !is || !isVar || body == nil || !c.is(call, shortcuts...) && !c.is(call, clientShortcuts...) && !c.is(call, "(net/http.Client).Do") ||
			v.IsField() || !declaredIn(v, body) || len(c.values[v]) != 1 {
			continue
		}
		if to := decodedUnseen(c, v, body); to != nil && !tellsFailure(c.typeOf(to), 0) {
			c.report(call, nil, "the answer is decoded and its status never read: a 503 with a body in JSON becomes an empty %s and no error, so the caller goes on with zeros, and what counts failures sees none; "+
				"return an error unless %s.StatusCode is what is expected", source(to), v.Name())
		}
	}
}

// decodedUnseen returns where a body of JSON is put, if nothing else is done with its answer.
func decodedUnseen(c *check, resp *types.Var, body *ast.BlockStmt) (to ast.Expr) {
	read := false
	for _, use := range c.uses[resp] {
		if c.isTarget(use) {
			continue
		}
		sel, is := use.Parent().Node().(*ast.SelectorExpr)
		switch {
		case !is || sel.Sel.Name != "Body" && sel.Sel.Name != "Header":
			return nil // its status is read, or other code has it
		case sel.Sel.Name == "Header":
			continue
		}
		switch p := use.Parent().Parent().Node().(type) {
		case *ast.SelectorExpr: // resp.Body.Close
		case *ast.CallExpr:
			if !c.is(p, "encoding/json.NewDecoder", "io.ReadAll", "io.LimitReader", "io.Copy") {
				return nil
			}
			read = read || !c.is(p, "io.Copy")
		default:
			return nil
		}
	}
	if !read {
		return nil // what is decoded is something else
	}
	for _, call := range calls(body, false) {
		if n := len(call.Args); n > 0 && c.is(call, "encoding/json.Unmarshal", "(encoding/json.Decoder).Decode") {
			if to != nil {
				return nil // one for answers and one for errors, perhaps
			}
			to = call.Args[n-1]
		}
	}
	if un, is := to.(*ast.UnaryExpr); is && un.Op == token.AND {
		to = un.X
	}
	return to
}

var failureName = regexp.MustCompile(`(?i)err|^ok$|succe|status|code|message|fail|problem|fault`)

// tellsFailure reports whether a value that is decoded can say of itself that it is a failure: it has a field for
// it, or its fields are not seen.
func tellsFailure(t types.Type, depth int) bool {
	if t == nil || depth > 2 {
		return true
	}
	switch t := t.Underlying().(type) {
	case *types.Pointer:
		return tellsFailure(t.Elem(), depth+1)
	case *types.Struct:
		for i := range t.NumFields() {
			f := t.Field(i)
			if failureName.MatchString(f.Name()) || f.Embedded() && tellsFailure(f.Type(), depth+1) {
				return true
			}
		}
		return false
	case *types.Slice:
		return false // an object is no list: decoding fails
	case *types.Basic:
		return false
	}
	return true
}
