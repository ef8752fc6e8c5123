package gabionvet

import (
	"go/ast"
	"regexp"
	"slices"

	"golang.org/x/tools/go/ast/inspector"
)

// unknowns are the errors that say that work may have been done.
var unknowns = []string{
	"github.com/gabion-go/gabion/policy.OutcomeUnknown", "github.com/gabion-go/gabion.KeyOutcomeUnknown",
	"github.com/gabion-go/gabion/gabionsql.ErrCommitUnknown", "github.com/gabion-go/gabion/idempotency.ErrUnknown",
}

// repeatsUnknown finds the same call after an error that says that it may have been done.
func repeatsUnknown(c *check, at inspector.Cursor, call *ast.CallExpr) {
	branch, is := at.Parent().Node().(*ast.IfStmt)
	if !is || branch.Cond != ast.Expr(call) || !c.is(call, "errors.Is") || len(call.Args) != 2 || !isUnknown(c, call.Args[1]) {
		return
	}
	fn, _, _ := enclosing(at)
	if c.setsKey(fn) || mentions(fn, withKey) {
		return
	}
	for _, again := range directCalls(branch.Body) {
		f := c.callee(again)
		for _, first := range c.values[c.object(call.Args[0])] {
			if first, is := first.(*ast.CallExpr); is && first != again && f != nil && f == c.callee(first) && first.Pos() < branch.Pos() {
				c.report(again, nil, "this repeats %s after an error that says that it may have been done, without an idempotency key: it is done twice, such as charging a card; "+
					"give gabion.Do a key with gabion.WithKey, or find out first what became of it", source(again.Fun))
			}
		}
	}
}

var withKey = regexp.MustCompile(`^(WithKey|DeriveKey|NewKey|KeyFor)$`)

func isUnknown(c *check, e ast.Expr) bool {
	obj := c.object(e)
	if obj == nil || obj.Pkg() == nil {
		return false
	}
	return slices.ContainsFunc(unknowns, func(name string) bool {
		return unversioned(obj.Pkg().Path())+"."+obj.Name() == name
	})
}
