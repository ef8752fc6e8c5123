package gabionvet

import (
	"go/ast"
	"regexp"

	"golang.org/x/tools/go/ast/inspector"
)

var undoName = regexp.MustCompile(`(?i)^(undo|release|unreserve|compensate|refund|void|revert|restore|unlock|rollback|(cancel|delete|remove)(order|booking|hold|reservation|charge|payment|shipment|label|transfer|job|lock))`)

// undoneWithDead is the part of G132 for what undoes a step after a failure, with the context of the call that has failed: most often it failed
// since that has ended.
func undoneWithDead(c *check) {
	c.eachCall(func(at inspector.Cursor, call *ast.CallExpr) {
		if len(call.Args) == 0 || !isNamed(call, undoName) || !isContext(c.typeOf(call.Args[0])) || !callsOut(c, call) {
			return
		}
		ctx := c.object(call.Args[0])
		for e := range at.Enclosing((*ast.IfStmt)(nil), (*ast.FuncLit)(nil)) {
			branch, is := e.Node().(*ast.IfStmt)
			if !is || ctx == nil {
				return
			}
			first := assignedBefore(e, branch)
			if !within(branch.Body, call.Pos()) || first == nil || !afterFailure(c, at) || len(first.Args) == 0 || c.object(first.Args[0]) != ctx || !callsOut(c, first) {
				continue
			}
			c.report(call, nil, "%s undoes what was done, with %s: when %s has failed since that ended, as after a timeout, this fails at once too, and what was done stays; "+
				"give it context.WithoutCancel(%s), with a timeout of its own", source(call.Fun), ctx.Name(), source(first.Fun), ctx.Name())
			return
		}
	})
}
