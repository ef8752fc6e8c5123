package gabionvet

import (
	"go/ast"
	"go/token"
	"go/types"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/tools/go/ast/inspector"
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
		if r.by != nil && r.by.by.tx || r.elsewhere() || c.saves(r.body) {
			continue
		}
		for _, at := range r.runs {
			if tx := c.transactionOf(r, at); tx != nil && (r.loop == nil || c.repeatsAnswerless(r.loop, at.top)) {
				c.report(at.top, nil, "%s repeats a statement inside the transaction %s: after an error PostgreSQL refuses every further statement of it, and MySQL may have rolled it back already; "+
					"repeat the whole transaction, as gabionsql.RunTx does", c.loopName(r), tx.Name())
				break
			}
		}
	}
}

// transactionOf returns the transaction that a call runs a statement in, if it was begun
// outside of what is repeated.
func (c *check) transactionOf(r repeated, at reached) types.Object {
	sel, is := ast.Unparen(at.call.Fun).(*ast.SelectorExpr)
	if !is || !isTransaction(c.typeOf(sel.X)) || !strings.HasPrefix(sel.Sel.Name, "Exec") && !strings.HasPrefix(sel.Sel.Name, "Query") {
		return nil
	}
	obj := given(c.unit, sel.X, at.path)
	if obj == nil || !r.outside(obj, at.path) {
		return nil
	}
	return obj
}

func (c *check) saves(n ast.Node) bool {
	return has(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BasicLit:
			return savepoint.MatchString(n.Value)
		case *ast.Ident:
			return savepoint.MatchString(n.Name) || n.Name == "Begin"
		}
		return false
	})
}

// callInTransaction is G124.
func callInTransaction(c *check) {
	sending := c.reaching(c.sends)
	tell := func(call *ast.CallExpr, of string) {
		by, retried := c.retrierOf(call)
		if callsService(c, call) || sending[c.callee(call)] || retried && !by.tx {
			c.report(call, nil, "%s calls another service inside the transaction of %s: a rollback does not undo the call, a retry repeats it, and the transaction holds its locks while it waits; "+
				"call before or after it, or write the call into an outbox", source(call.Fun), of)
		}
	}
	for _, r := range c.regions {
		if r.by.tx {
			for _, call := range calls(r.body, true) {
				tell(call, r.short)
			}
		}
	}
	c.root.Inspect([]ast.Node{(*ast.FuncDecl)(nil), (*ast.FuncLit)(nil)}, func(at inspector.Cursor) bool {
		typ, _, body := functionOf(at.Node())
		if body == nil || !c.looksAt(body.Pos()) {
			return true
		}
		for _, tx := range transactionsOf(c, typ, body) {
			for _, call := range directCalls(body) {
				if tx.from < call.Pos() && call.Pos() < tx.to && !deferred(c, call) {
					tell(call, tx.name)
				}
			}
			secondConnection(c, body, tx)
		}
		return true
	})
}

// A span is the code in which a transaction is open.
type span struct {
	name     string
	from, to token.Pos
	pool     types.Object // what it was begun from; nil if that is not seen
}

// transactionsOf are the transactions of a function: that which it is given, and those that it begins, until the last Commit.
func transactionsOf(c *check, typ *ast.FuncType, body *ast.BlockStmt) (all []span) {
	for _, field := range typ.Params.List {
		for _, id := range field.Names {
			if isTransaction(c.typeOf(field.Type)) {
				all = append(all, span{name: id.Name, from: body.Pos(), to: body.End()})
			}
		}
	}
	own(body, func(n ast.Node) {
		as, is := n.(*ast.AssignStmt)
		if !is {
			return
		}
		tx := begins(c, as)
		if tx == nil {
			return
		}
		s := span{name: tx.Name(), from: as.End(), to: as.End()}
		if sel, is := as.Rhs[0].(*ast.CallExpr).Fun.(*ast.SelectorExpr); is {
			s.pool = c.object(sel.X)
		}
		for _, use := range c.uses[tx] {
			if sel, is := use.Parent().Node().(*ast.SelectorExpr); is && sel.Sel.Name == "Commit" && within(body, sel.Pos()) {
				s.to = max(s.to, sel.Pos())
			}
		}
		all = append(all, s)
	})
	return all
}

func deferred(c *check, call *ast.CallExpr) bool {
	at, found := c.root.FindNode(call)
	if !found {
		return true
	}
	for range at.Enclosing((*ast.DeferStmt)(nil)) {
		return true
	}
	return false
}

// callsService reports whether a call is for another service than the database.
func callsService(c *check, call *ast.CallExpr) bool {
	f := c.callee(call)
	if c.sends(call) || f == nil {
		return f != nil
	}
	sig, is := f.Type().(*types.Signature)
	if !is || sig.Recv() == nil {
		return c.is(call, "net/smtp.SendMail")
	}
	if sig.Variadic() {
		opts, is := sig.Params().At(sig.Params().Len() - 1).Type().(*types.Slice)
		if is && typeName(opts.Elem()) == "google.golang.org/grpc.CallOption" {
			return true
		}
	}
	return types.IsInterface(sig.Recv().Type()) && f.Pkg() == c.pkg && canFail(sig) && services.MatchString(f.Name()) &&
		!slices.ContainsFunc(call.Args, func(e ast.Expr) bool { return isTransaction(c.typeOf(e)) })
}

var services = regexp.MustCompile(`^(Charge|Capture|Pay|Payout|Refund|Publish|Notify|Send|Email|Mail|Ship)([A-Z]|$)`)

// transactionLeftOpen is G129.
func transactionLeftOpen(c *check) {
	for at, as := range every[*ast.AssignStmt](c.unit) {
		block, is := at.Parent().Node().(*ast.BlockStmt)
		tx, rest := begins(c, as), []ast.Stmt(nil)
		if !is || tx == nil {
			continue
		}
		for i, s := range block.List {
			if s == ast.Stmt(as) {
				rest = block.List[i+1:]
			}
		}
		if len(rest) == 0 || inLiteral(c, tx) {
			continue
		}
		check, is := rest[0].(*ast.IfStmt) // the error of Begin itself
		if !is || !returns(check.Body.List) || !c.usesObject(check.Cond, c.object(as.Lhs[1])) {
			continue
		}
		rest = rest[1:]
		w := &walk{u: c.unit, flag: func(n ast.Node) uint8 { return endsTransaction(c, tx, n) }}
		ret := &frame{}
		w.block(rest, state{}.set(), ret)
		if !w.lost && ret.brk.has(none, 0, closed) {
			c.report(as, nil, "a path returns and neither commits %s nor rolls it back: its connection never goes back to the pool, and its locks stay; a few such errors and every call waits for a connection; "+
				"write defer %s.Rollback() after the error of Begin", tx.Name(), tx.Name())
		}
	}
}

// inLiteral reports whether a function literal uses a transaction: it may end it.
func inLiteral(c *check, tx *types.Var) bool {
	for _, use := range c.uses[tx] {
		for e := range use.Enclosing((*ast.FuncLit)(nil)) {
			if !declaredIn(tx, e.Node()) {
				return true
			}
		}
	}
	return false
}

// begins returns the variable for the transaction that a statement begins.
func begins(c *check, as *ast.AssignStmt) *types.Var {
	if len(as.Rhs) != 1 || len(as.Lhs) != 2 {
		return nil
	}
	call, is := as.Rhs[0].(*ast.CallExpr)
	v, isVar := c.object(as.Lhs[0]).(*types.Var)
	if !is || !isVar || v.IsField() || v.Parent() == c.pkg.Scope() || !isTransaction(v.Type()) || !begin.MatchString(c.fullName(call)) {
		return nil
	}
	return v
}

var begin = regexp.MustCompile(`\.Begin(Tx|x|Txx)?$`)

// endsTransaction marks where a transaction ends, or goes where it may end.
func endsTransaction(c *check, tx *types.Var, n ast.Node) uint8 {
	switch n := n.(type) {
	case *ast.DeferStmt:
		if c.usesObject(n, tx) {
			return closed
		}
	case *ast.CallExpr:
		if c.neverReturns(n) {
			return closed
		}
		if sel, is := n.Fun.(*ast.SelectorExpr); is && c.object(sel.X) == tx && (sel.Sel.Name == "Commit" || sel.Sel.Name == "Rollback") {
			return closed
		}
		for _, arg := range n.Args {
			if c.usesObject(arg, tx) {
				if t := c.targets[n]; t == nil && !isDynamic(c.unit, n) || t != nil && mentions(t.body, txEnd) {
					return closed
				}
			}
		}
	case *ast.ReturnStmt, *ast.KeyValueExpr, *ast.SendStmt, *ast.FuncLit, *ast.UnaryExpr:
		if r, is := n.(*ast.ReturnStmt); is {
			for _, e := range r.Results {
				if c.object(e) == types.Object(tx) {
					return closed
				}
			}
			return 0
		}
		if c.usesObject(n, tx) {
			return closed
		}
	case *ast.AssignStmt:
		for i, e := range n.Rhs {
			if c.object(e) == types.Object(tx) && i < len(n.Lhs) {
				return closed
			}
		}
	}
	return 0
}

var txEnd = regexp.MustCompile(`^(Commit|Rollback)$`)
