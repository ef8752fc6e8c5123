package gabionvet

import (
	"go/ast"
	"go/types"
	"regexp"
	"slices"
)

// secondConnection is the part of G124 that finds a statement which runs by the pool while a transaction of that pool is open.
func secondConnection(c *check, body *ast.BlockStmt, tx span) {
	for _, at := range reach(c.unit, body) {
		pool := poolOf(c, at)
		if pool == nil || at.top.Pos() < tx.from || tx.to < at.top.Pos() || deferred(c, at.top) || !begunFrom(c, tx, pool) {
			continue
		}
		if in, found := c.root.FindNode(at.top); !found || afterFailure(c, in) || writesLog(c, at) {
			continue
		}
		c.report(at.top, nil, "this takes a second connection of the pool%s while %s is open: when as many calls as there are connections stand here, each waits for one that none gives back; "+
			"what it writes a rollback does not undo, and what it reads is not what the transaction sees; run the statement by %s", through(at), tx.name, tx.name)
	}
}

// poolOf returns the sql.DB by which a call runs a statement.
func poolOf(c *check, at reached) *types.Var {
	id := calledName(at.call)
	sel, is := ast.Unparen(at.call.Fun).(*ast.SelectorExpr)
	if id == nil || !is || !statement.MatchString(id.Name) {
		return nil
	}
	if v := given(c.unit, sel.X, at.path); v != nil && typeName(v.Type()) == "database/sql.DB" {
		return v
	}
	return nil
}

// begunFrom reports whether a transaction was begun from a pool: itself, or since the package begins some from it, and none from another pool
// beside it.
func begunFrom(c *check, tx span, pool *types.Var) bool {
	if tx.pool != nil {
		return tx.pool == types.Object(pool)
	}
	begun := false
	for call := range c.callees {
		sel, is := ast.Unparen(call.Fun).(*ast.SelectorExpr)
		if !is || !c.is(call, "(database/sql.DB).BeginTx", "(database/sql.DB).Begin") {
			continue
		}
		other, _ := c.object(sel.X).(*types.Var)
		if other != pool && (other == nil || !other.IsField() || !pool.IsField() || beside(c, other, pool)) {
			return false
		}
		begun = begun || other == pool
	}
	return begun
}

// beside reports whether two fields are of one struct.
func beside(c *check, a, b *types.Var) bool {
	at, found := c.root.FindByPos(a.Pos(), a.Pos())
	if !found {
		return true
	}
	for e := range at.Enclosing((*ast.StructType)(nil)) {
		return within(e.Node(), b.Pos())
	}
	return true
}

var ofTrial = regexp.MustCompile(`(?is)^\s*(insert\s+into|update|delete\s+from)\s+\S*(audit|log|history|attempt|metric)`)

// writesLog reports whether a statement writes what is meant to stay after a rollback.
func writesLog(c *check, at reached) bool {
	return slices.ContainsFunc(statementTexts(c, at), ofTrial.MatchString)
}

// statementTexts are the constant texts that a call is given.
func statementTexts(c *check, at reached) (all []string) {
	for _, arg := range at.call.Args {
		for _, from := range append(sources(c.unit, arg, at.path), arg) {
			if text := constantText(c, from); text != "" {
				all = append(all, text)
			}
		}
	}
	return all
}

var (
	sessionLock = regexp.MustCompile(`(?is)pg_(try_)?advisory_lock(_shared)?\s*\(|^\s*select\s+get_lock\s*\(|^\s*(listen\s+\w+|set\s+(session\s+)?(role|search_path|statement_timeout|lock_timeout)\b)`)
	rowLock     = regexp.MustCompile(`(?is)^\s*select\s.*\sfor\s+(no\s+key\s+)?(update|share)(\s+of\s+\w+)?(\s+(skip\s+locked|nowait))?\s*;?\s*$`)
)

// lockThroughPool is G150.
func lockThroughPool(c *check) {
	for call := range c.callees {
		at := reached{call: call, top: call}
		if !c.looksAt(call.Pos()) || poolOf(c, at) == nil {
			continue
		}
		texts := statementTexts(c, at)
		switch {
		case slices.ContainsFunc(texts, sessionLock.MatchString):
			c.report(call, nil, "what this sets belongs to one connection, and a sql.DB takes any of its connections for each statement: the next one runs without it, an unlock comes to another connection, and the lock stays for good with one that is idle; "+
				"take a connection with Conn, and run all of them by it, or use what ends with a transaction, as pg_advisory_xact_lock")
		case slices.ContainsFunc(texts, rowLock.MatchString):
			c.report(call, nil, "this locks rows until its transaction ends, and by a sql.DB that is the statement itself: the lock is over before anything is done with the rows, and two processes get the same ones; "+
				"select and change them in one transaction, or claim them by one UPDATE with RETURNING")
		}
	}
}
