package gabionvet

import (
	"go/ast"
	"go/token"
	"go/types"
	"regexp"
)

var (
	storeName = regexp.MustCompile(`^(?i:put|set|store|add|save|cache|insert|remember)([A-Z]|$)`)
	cacheName = regexp.MustCompile(`(?i)cache|memo|lru`)
)

// standInKept is the part of G135 for a value that stands in for a call that failed, and is kept in a cache as what the call returns is.
func standInKept(c *check) {
	for at, branch := range every[*ast.IfStmt](c.unit) {
		block, isBlock := at.Parent().Node().(*ast.BlockStmt)
		if !isBlock || failedIn(c, branch) == nil || branch.Else != nil || leaves(branch.Body.List) {
			continue
		}
		call := assignedBefore(at, branch)
		if call == nil || !c.isRemote(call) && !isDynamic(c.unit, call) {
			continue
		}
		stand := replaced(c, call, branch)
		for _, s := range block.List {
			e, is := s.(*ast.ExprStmt)
			if s.Pos() < branch.End() || !is || stand == nil {
				continue
			}
			keeps, is := e.X.(*ast.CallExpr)
			if !is || !isNamed(keeps, storeName) || !mentions(keeps.Fun, cacheName) || !usesAsArgument(c.unit, keeps, stand) {
				continue
			}
			c.report(keeps, nil, "when %s has failed, what stands in for its answer is kept here as the answer is: a failure of a second stays for as long as an answer is kept; "+
				"keep what was answered, and of a failure nothing, or for a short time", source(call.Fun))
		}
	}
}

// replaced returns the variable that has what a call returned, and to which the branch after its failure gives another value.
func replaced(c *check, call *ast.CallExpr, branch *ast.IfStmt) types.Object {
	for _, s := range branch.Body.List {
		as, is := s.(*ast.AssignStmt)
		if !is || as.Tok != token.ASSIGN || len(as.Lhs) != 1 {
			continue
		}
		v := c.object(as.Lhs[0])
		for _, from := range c.values[v] {
			if from == ast.Expr(call) && !isError(v.Type()) {
				return v
			}
		}
	}
	return nil
}
