package gabionvet

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"
)

// failureOnlySaid is the part of G130 that finds a COMMIT, or work with money or goods, whose failure is only logged, in a function that returns no
// error after it.
func failureOnlySaid(c *check) {
	pageLost(c)
	for at, branch := range every[*ast.IfStmt](c.unit) {
		failed := failedIn(c, branch)
		_, typ, body := enclosing(at)
		if failed == nil || branch.Else != nil ||
			typ == nil || typ.Results == nil || !onlySays(c, branch.Body) {
			continue
		}
		call := assignedBefore(at, branch)
		i := slices.Index(body.List, ast.Stmt(branch))
		if call == nil || i < 0 || !mustBeDone(c, call) {
			continue
		}
		ret, is := body.List[len(body.List)-1].(*ast.ReturnStmt)
		if !is || len(ret.Results) == 0 || !isErrorResult(c, typ) || !c.isNil(ret.Results[len(ret.Results)-1]) || c.usesObject(&ast.BlockStmt{List: body.List[i+1:]}, failed) {
			continue
		}
		c.report(branch, nil, "a failure of %s is only logged here, and no error is returned: the caller goes on as if it had been done; return the error", source(call.Fun))
	}
}

func isErrorResult(c *check, typ *ast.FuncType) bool {
	return isError(c.typeOf(typ.Results.List[len(typ.Results.List)-1].Type))
}

// mustBeDone reports whether a call is a COMMIT, or moves money or goods by its name.
func mustBeDone(c *check, call *ast.CallExpr) bool {
	if sel, is := call.Fun.(*ast.SelectorExpr); is && sel.Sel.Name == "Commit" && isTransaction(c.typeOf(sel.X)) {
		return true
	}
	return isNamed(call, pays) && c.callee(call) != nil && (c.isRemote(call) || isDynamic(c.unit, call))
}

// pageLost is the part of G130 for an iterator that ends when a call has failed, as it ends after the last element, and can say nothing of it.
func pageLost(c *check) {
	for at, branch := range every[*ast.IfStmt](c.unit) {
		fn, typ, _ := enclosing(at)
		lit, isLit := fn.(*ast.FuncLit)
		if failed := failedIn(c, branch); failed == nil || !isLit || !yieldsOnly(c, typ) || !returns(branch.Body.List) || !declaredIn(failed, lit) {
			continue
		}
		rest := &ast.BlockStmt{List: branch.Body.List[:len(branch.Body.List)-1]}
		call := assignedBefore(at, branch)
		if call == nil || !c.isRemote(call) && !isDynamic(c.unit, call) || len(rest.List) > 0 && !onlySays(c, rest) {
			continue
		}
		c.report(branch, nil, "when %s fails this ends as after the last element: who goes over it takes what came for all that there is, and may remove the rest; "+
			"yield the error, as iter.Seq2 of values and errors does, or keep it where it is asked for", source(call.Fun))
	}
}

// failedIn returns the error that is not nil in a branch, if that is all that its condition asks.
func failedIn(c *check, branch *ast.IfStmt) types.Object {
	cond, is := branch.Cond.(*ast.BinaryExpr)
	if !is || cond.Op != token.NEQ || !c.isNil(cond.Y) || !isError(c.typeOf(cond.X)) {
		return nil
	}
	return c.object(cond.X)
}

// yieldsOnly reports whether a function is an iterator over values that are no errors.
func yieldsOnly(c *check, typ *ast.FuncType) bool {
	if typ.Results != nil || len(typ.Params.List) != 1 || len(typ.Params.List[0].Names) != 1 {
		return false
	}
	sig, is := signature(c.typeOf(typ.Params.List[0].Type))
	if !is || typ.Params.List[0].Names[0].Name != "yield" || sig.Params().Len() == 0 || sig.Results().Len() != 1 {
		return false
	}
	for v := range sig.Params().Variables() {
		if isError(v.Type()) {
			return false
		}
	}
	return true
}
