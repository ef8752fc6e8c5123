package gabionvet

import (
	"go/ast"
	"go/types"
	"regexp"
	"slices"
)

var ackName = regexp.MustCompile(`^(Ack|AckSync|DoubleAck|Acknowledge|MarkMessage|MarkOffset|CommitMessages?|CommitRecords)$`)

// ackedFirst is G140.
func ackedFirst(c *check) {
	markedFirst(c)
	for _, block := range every[*ast.BlockStmt](c.unit) {
		ackedAnyway(c, block.List)
		for i, s := range block.List {
			ack, msg := ackIn(c, s)
			if msg == nil || workOn(c, block.List[:i], msg) != nil { // it was stored, or the work is done
				continue
			}
			if work := workOn(c, block.List[i+1:], msg); work != nil {
				c.report(ack, nil, "%s is acknowledged before %s has done its work: when that fails, or the process ends between the two, the message is gone and nothing was done; "+
					"acknowledge it after the work has succeeded", msg.Name(), source(work.Fun))
			}
		}
	}
}

// ackIn returns a call with which a statement begins that acknowledges a message, and the message.
func ackIn(c *check, s ast.Stmt) (*ast.CallExpr, types.Object) {
	var e ast.Node = s
	switch s := s.(type) {
	case *ast.IfStmt:
		if e = s.Cond; s.Init != nil {
			e = s.Init
		}
	case *ast.DeferStmt: // whatever becomes of the work
		e = ast.Expr(s.Call)
	case *ast.ReturnStmt:
		if len(s.Results) == 1 {
			e = s.Results[0]
		}
	}
	switch e.(type) {
	case *ast.ExprStmt, *ast.AssignStmt, ast.Expr:
	default:
		return nil, nil
	}
	for _, call := range directCalls(e) {
		sel, is := call.Fun.(*ast.SelectorExpr)
		if !is || !ackName.MatchString(sel.Sel.Name) {
			continue
		}
		of := append(call.Args[:len(call.Args):len(call.Args)], sel.X)
		for _, e := range of {
			v, is := c.object(e).(*types.Var)
			if _, isIdent := e.(*ast.Ident); is && isIdent && !isContext(v.Type()) && !isBasic(v.Type()) {
				return call, v
			}
		}
	}
	return nil, nil
}

func isBasic(t types.Type) bool {
	_, is := t.Underlying().(*types.Basic)
	return is
}

// workOn returns a call of statements that can fail, goes out, and is given a message or something of it.
func workOn(c *check, list []ast.Stmt, msg types.Object) *ast.CallExpr {
	for _, s := range list {
		for _, call := range directCalls(s) {
			if !c.isRemote(call) && !isDynamic(c.unit, call) && !callsOn(c, call) || isNamed(call, ackName) {
				continue
			}
			for _, arg := range call.Args {
				if ofMessage(c, arg, msg, 0) {
					return call
				}
			}
		}
	}
	return nil
}

// callsOn reports whether a function of the package makes a call that goes out, as far as is seen.
func callsOn(c *check, call *ast.CallExpr) bool {
	t := c.targets[call]
	return t != nil && slices.ContainsFunc(directCalls(t.body), func(inner *ast.CallExpr) bool { return c.isRemote(inner) || isDynamic(c.unit, inner) })
}

func isNamed(call *ast.CallExpr, name *regexp.Regexp) bool {
	id := calledName(call)
	return id != nil && name.MatchString(id.Name)
}

// ofMessage reports whether an expression has a message, or a variable that was made of it.
func ofMessage(c *check, e ast.Expr, msg types.Object, depth int) (has bool) {
	ast.Inspect(e, func(n ast.Node) bool {
		id, is := n.(*ast.Ident)
		if !is || has {
			return !has
		}
		v, is := c.info.Uses[id].(*types.Var)
		switch {
		case !is || isContext(v.Type()) || isError(v.Type()):
		case types.Object(v) == msg:
			has = true
		case !v.IsField() && depth < farthest:
			for _, value := range c.values[v] {
				has = has || value != nil && ofMessage(c, value, msg, depth+1)
			}
		}
		return !has
	})
	return has
}
