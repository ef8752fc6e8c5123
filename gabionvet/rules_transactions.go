package gabionvet

import (
	"go/ast"
	"go/types"
	"regexp"
	"strings"
)

// isTransaction reports whether a type is an open transaction.
func isTransaction(t types.Type) bool {
	switch typeName(t) {
	case "database/sql.Tx", "github.com/jackc/pgx.Tx", "github.com/jmoiron/sqlx.Tx":
		return true
	}
	return false
}

var savepoint = regexp.MustCompile(`(?i)savepoint`)

// retryInTransaction is G123.
func retryInTransaction(c *check) {
	for _, r := range c.repeats {
		if r.by != nil && r.by.by.tx || c.saves(r.body) {
			continue
		}
		for _, call := range calls(r.body, false) {
			if tx := c.transactionOf(r, call); tx != nil && (r.loop == nil || c.repeatsAnswerless(r.loop, call)) {
				c.report(call, nil, "%s repeats a statement inside the transaction %s: after an error PostgreSQL refuses every further statement of it, and MySQL may have rolled it back already; "+
					"repeat the whole transaction, as gabionsql.RunTx does", c.loopName(r), tx.Name())
				break
			}
		}
	}
}

// transactionOf returns the transaction that a call runs a statement in, if it was begun
// outside of what is repeated.
func (c *check) transactionOf(r repeated, call *ast.CallExpr) types.Object {
	sel, is := ast.Unparen(call.Fun).(*ast.SelectorExpr)
	if !is || !isTransaction(c.typeOf(sel.X)) || !strings.HasPrefix(sel.Sel.Name, "Exec") && !strings.HasPrefix(sel.Sel.Name, "Query") {
		return nil
	}
	if obj := c.object(sel.X); obj != nil && !declaredIn(obj, r.node) {
		return obj
	}
	return nil
}

func (c *check) saves(n ast.Node) (found bool) {
	ast.Inspect(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BasicLit:
			found = found || savepoint.MatchString(n.Value)
		case *ast.Ident:
			found = found || savepoint.MatchString(n.Name) || n.Name == "Begin"
		}
		return !found
	})
	return found
}

// callInTransaction is G124.
func callInTransaction(c *check) {
	sending := c.reaching(c.sends)
	for _, r := range c.regions {
		if !r.by.tx {
			continue
		}
		for _, call := range calls(r.body, true) {
			by, retried := c.retrierOf(call)
			if c.sends(call) || sending[c.callee(call)] || retried && !by.tx {
				c.report(call, nil, "%s calls another service inside the transaction of %s: a rollback does not undo the call, a retry repeats it, and the transaction holds its locks while it waits; "+
					"call before or after it, or write the call into an outbox", source(call.Fun), r.short)
			}
		}
	}
}
