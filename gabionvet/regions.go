package gabionvet

import (
	"go/ast"
	"go/token"
	"go/types"
	"strings"
)

// A retrier is a function that runs work again.
type retrier struct {
	name   string
	gabion bool // it repeats unsafe work only with a key, and ends an attempt by its context
	tx     bool // the work is a transaction
}

// retriers by their full names. A name that ends in * is a prefix.
var retriers = []retrier{
	{name: "github.com/gabion-go/gabion.Do", gabion: true},
	{name: "github.com/gabion-go/gabion.DoOr", gabion: true},
	{name: "github.com/gabion-go/gabion.Open", gabion: true},
	{name: "(github.com/gabion-go/gabion.Dependency).Run", gabion: true},
	{name: "github.com/gabion-go/gabion/gabionsql.RunTx", gabion: true, tx: true},
	{name: "github.com/cenkalti/backoff.Retry*"},
	{name: "github.com/avast/retry-go.Do*"},
	{name: "github.com/sethvargo/go-retry.Do*"},
	{name: "github.com/sethvargo/go-retry.Constant"},
	{name: "github.com/sethvargo/go-retry.Exponential"},
	{name: "github.com/sethvargo/go-retry.Fibonacci"},
	{name: "k8s.io/client-go/util/retry.OnError"},
	{name: "k8s.io/client-go/util/retry.RetryOnConflict"},
	{name: "(github.com/eapache/go-resiliency/retrier.Retrier).Run*"},
	{name: "github.com/matryer/try.Do"},
	{name: "github.com/rafaeljusto/redigomock.Retry"},
}

// transactions run their work in a transaction, and again after a conflict.
var transactions = []string{
	"github.com/gabion-go/gabion/gabionsql.RunTx",
	"(github.com/gabion-go/gabion/idempotency/sqlstore.Store).Do",
	"(github.com/gabion-go/gabion/idempotency/sqlstore.Store).Tx",
	"(github.com/gabion-go/gabion/idempotency.TxStore).Tx",
	"(github.com/gabion-go/gabion/contrib/gabionpgx/pgxstore.Store).Do",
	"(github.com/gabion-go/gabion/contrib/gabionpgx/pgxstore.Store).Tx",
	"(github.com/gabion-go/gabion/contrib/mysqlstore.Store).Tx",
	"(github.com/gabion-go/gabion/contrib/sqlitestore.Store).Tx",
	"github.com/gabion-go/gabion/contrib/gabionpgx.RunTx",
}

// A region is work that a function runs again.
type region struct {
	call  *ast.CallExpr // the retrier's
	own   *retryLoop    // the loop, if this package has the retrier
	by    retrier
	short string       // gabion.Do, as a reader would say it
	lit   *ast.FuncLit // the work; nil if it is a function with a name
	typ   *ast.FuncType
	body  *ast.BlockStmt
}

func (u *unit) retrierOf(call *ast.CallExpr) (retrier, bool) {
	name := u.fullName(call)
	if name == "" {
		return retrier{}, false
	}
	for _, r := range retriers {
		if prefix, more := strings.CutSuffix(r.name, "*"); name == r.name || more && strings.HasPrefix(name, prefix) {
			return r, true
		}
	}
	for _, t := range transactions {
		if name == t {
			return retrier{name: t, gabion: true, tx: true}, true
		}
	}
	return retrier{}, false
}

func (u *unit) findRegions() {
	for c := range u.root.Preorder((*ast.CallExpr)(nil)) {
		call := c.Node().(*ast.CallExpr)
		by, is := u.retrierOf(call)
		if !is {
			continue
		}
		for _, arg := range call.Args {
			if r := u.work(arg); r != nil {
				r.call, r.by, r.short = call, by, shortName(u.callee(call))
				u.regions = append(u.regions, r)
				break
			}
		}
	}
}

// work returns the function that an argument is, if its body is in this package.
func (u *unit) work(arg ast.Expr) *region {
	switch arg := ast.Unparen(arg).(type) {
	case *ast.FuncLit:
		return &region{lit: arg, typ: arg.Type, body: arg.Body}
	case *ast.CallExpr: // backoff.Operation(func() error {…})
		if len(arg.Args) == 1 && u.info.Types[arg.Fun].IsType() {
			return u.work(arg.Args[0])
		}
	case *ast.Ident, *ast.SelectorExpr:
		switch obj := u.object(arg).(type) {
		case *types.Func:
			if decl := u.funcs[obj.Origin()]; decl != nil && decl.Body != nil {
				return &region{typ: decl.Type, body: decl.Body}
			}
		case *types.Var:
			if values := u.values[obj]; len(values) == 1 {
				if lit, is := values[0].(*ast.FuncLit); is {
					return &region{lit: lit, typ: lit.Type, body: lit.Body}
				}
			}
		}
	}
	return nil
}

// shortName is how a program calls a function: gabion.Do, client.Do.
func shortName(f *types.Func) string {
	if f == nil {
		return "it"
	}
	if sig, is := f.Type().(*types.Signature); is && sig.Recv() != nil {
		t := typeName(sig.Recv().Type())
		return t[strings.LastIndex(t, "/")+1:] + "." + f.Name()
	}
	if f.Pkg() == nil {
		return f.Name()
	}
	return f.Pkg().Name() + "." + f.Name()
}

// within reports whether a node stands in another.
func within(n ast.Node, pos token.Pos) bool { return n != nil && n.Pos() <= pos && pos < n.End() }

// declaredIn reports whether an object is declared in a node.
func declaredIn(obj types.Object, n ast.Node) bool { return obj != nil && within(n, obj.Pos()) }

// calls are the calls in a piece of code. With deep, also those in function literals.
func calls(n ast.Node, deep bool) (all []*ast.CallExpr) {
	if n == nil {
		return nil
	}
	ast.Inspect(n, func(m ast.Node) bool {
		switch m := m.(type) {
		case *ast.FuncLit:
			return deep || ast.Node(m) == n
		case *ast.CallExpr:
			all = append(all, m)
		}
		return true
	})
	return all
}

// source writes an expression as in the code, cut if it is long.
func source(e ast.Expr) string {
	s := types.ExprString(e)
	if len(s) > 40 {
		return s[:37] + "..."
	}
	return s
}
