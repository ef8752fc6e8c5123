package gabionvet

import (
	"go/ast"
	"go/constant"
	"go/types"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/tools/go/ast/inspector"
)

// unsafeWithoutKey is G111.
func unsafeWithoutKey(c *check) {
	for _, r := range c.repeats {
		if r.by != nil && r.by.by.gabion || c.setsKey(r.node) {
			continue
		}
		for _, at := range r.runs {
			what := c.unsafe(r, at)
			if what == "" || !repeatsBlindly(c, r, at) || safeWay(c, at) {
				continue
			}
			c.report(at.top, nil, "%s repeats %s without an idempotency key%s: when only the answer was lost, it is done twice, "+
				"such as charging a card; send the same key with each attempt and only repeat if the other side honours it, or repeat only what was surely not done",
				c.loopName(r), what, through(at))
		}
	}
	c.eachCall(func(at inspector.Cursor, call *ast.CallExpr) { repeatsUnknown(c, at, call) })
}

// through says by which function a call is reached.
func through(at reached) string {
	if len(at.path) == 0 {
		return ""
	}
	return ", in " + at.path[len(at.path)-1].Name.Name
}

// repeatsBlindly reports whether a call is what is repeated, whatever its error is. Of what stands in the
// loop itself the first is enough, for a timeout may be asked for and repeated.
func repeatsBlindly(c *check, r repeated, at reached) bool {
	switch {
	case r.loop != nil && !c.repeatsAnswerless(r.loop, at.top):
		return false
	case r.loop != nil:
		return len(at.path) == 0 && c.sends(at.call) || !c.asks(r.loop)
	case r.by.own != nil:
		return !c.asks(r.by.own)
	}
	return len(at.path) == 0 && c.sends(at.call) || !mentions(r.body, asksError)
}

// safeWay reports whether the functions by which a call is reached, or that it stands in, speak of
// idempotency or of something that may be done twice.
func safeWay(c *check, at reached) bool {
	for _, decl := range append(at.path, c.enclosingDecl(at.top)) {
		if decl == nil || c.setsKey(decl) || harmless.MatchString(decl.Name.Name) {
			return true
		}
	}
	return false
}

// unsafe says what a call does that must not be done twice.
func (c *check) unsafe(r repeated, at reached) string {
	if what := unsafeStatement(c, at.call); what != "" && ownTransaction(c, r, at.call) {
		return what
	}
	if f := c.callee(at.call); f != nil && createsByGRPC(f) {
		return f.Name()
	}
	made := posted(c, at.call)
	if made == nil {
		return ""
	}
	for _, arg := range made.Args {
		if c.saysHarmless(arg) {
			return ""
		}
	}
	return "a POST"
}

// posted returns the call that has the method and the address of what a call posts.
func posted(c *check, call *ast.CallExpr) *ast.CallExpr {
	switch {
	case c.is(call, "net/http.Post", "net/http.PostForm", "(net/http.Client).Post", "(net/http.Client).PostForm"):
		return call
	case !c.is(call, "(net/http.Client).Do") || len(call.Args) != 1:
		return nil
	}
	values := c.values[c.object(call.Args[0])]
	if len(values) != 1 {
		return nil
	}
	made, is := values[0].(*ast.CallExpr)
	if !is {
		return nil
	}
	if decl := c.funcs[c.callee(made)]; decl != nil { // a function of the package makes the request
		if made = onlyRequest(c, decl); made == nil || c.setsKey(decl) {
			return nil
		}
	}
	if !c.is(made, "net/http.NewRequest", "net/http.NewRequestWithContext") {
		return nil
	}
	method := c.info.Types[made.Args[len(made.Args)-3]]
	if method.Value == nil || method.Value.ExactString() != `"POST"` && method.Value.ExactString() != `"PATCH"` {
		return nil
	}
	return made
}

// onlyRequest returns the call by which a function makes a request, if it makes one.
func onlyRequest(c *check, decl *ast.FuncDecl) (found *ast.CallExpr) {
	for _, call := range calls(decl, true) {
		if c.is(call, "net/http.NewRequest", "net/http.NewRequestWithContext") {
			if found != nil {
				return nil
			}
			found = call
		}
	}
	return found
}

var (
	inserts   = regexp.MustCompile(`(?is)^\s*insert\s+into\s`)
	once      = regexp.MustCompile(`(?is)on\s+conflict|on\s+duplicate|not\s+exists`)
	counts    = regexp.MustCompile(`(?is)(\w+)\s*=\s*(?:\w+\.)?(\w+)\s*[-+]\s*[$?:@\d]`)
	updates   = regexp.MustCompile(`(?is)^\s*update\s`)
	statement = regexp.MustCompile(`^(Exec|Query|QueryRow)(Context)?$`)
	creates   = regexp.MustCompile(`^(Create|Insert|Add|Append|Charge|Capture|Pay|Refund|Transfer|Send|Place|Book|Order|Purchase|Deposit|Withdraw|Debit|Credit|Increment)([A-Z]|$)`)
)

// unsafeStatement says what a statement of SQL does that must not be done twice.
func unsafeStatement(c *check, call *ast.CallExpr) string {
	f, name := c.callee(call), c.fullName(call)
	if f == nil || !statement.MatchString(f.Name()) || !strings.HasPrefix(name, "(database/sql.") && !strings.HasPrefix(name, "(github.com/jackc/pgx") && !strings.HasPrefix(name, "(github.com/jmoiron/sqlx.") {
		return ""
	}
	for _, arg := range call.Args {
		text := constantText(c, arg)
		if once.MatchString(text) {
			return ""
		}
		if inserts.MatchString(text) {
			return "an INSERT"
		}
		if m := counts.FindStringSubmatch(text); updates.MatchString(text) && m != nil && strings.EqualFold(m[1], m[2]) {
			return "an UPDATE that counts"
		}
	}
	return ""
}

// ownTransaction reports whether a statement is of no transaction, or of one that is begun anew in what
// is repeated. Others are G123's.
func ownTransaction(c *check, r repeated, call *ast.CallExpr) bool {
	sel, is := ast.Unparen(call.Fun).(*ast.SelectorExpr)
	if !is || !isTransaction(c.typeOf(sel.X)) {
		return is
	}
	return slices.ContainsFunc(r.runs, func(at reached) bool {
		name := calledName(at.call)
		return name != nil && (name.Name == "Begin" || name.Name == "BeginTx" || name.Name == "Beginx" || name.Name == "BeginTxx")
	})
}

// constantText is what a constant string says.
func constantText(c *check, e ast.Expr) string {
	if v := c.info.Types[e].Value; v != nil && v.Kind() == constant.String {
		return constant.StringVal(v)
	}
	return ""
}

// createsByGRPC reports whether a method is one of a gRPC client that creates something, and its
// request has no field for a key.
func createsByGRPC(f *types.Func) bool {
	sig, is := f.Type().(*types.Signature)
	if !is || !sig.Variadic() || sig.Params().Len() != 3 || !creates.MatchString(f.Name()) {
		return false
	}
	opts, is := sig.Params().At(2).Type().(*types.Slice)
	if !is || typeName(opts.Elem()) != "google.golang.org/grpc.CallOption" {
		return false
	}
	in, is := types.Unalias(sig.Params().At(1).Type()).(*types.Pointer)
	if !is {
		return false
	}
	fields, is := in.Elem().Underlying().(*types.Struct)
	if !is {
		return false
	}
	for v := range fields.Fields() {
		if keyField.MatchString(v.Name()) {
			return false
		}
	}
	return true
}

var keyField = regexp.MustCompile(`(?i)idempot|dedup|request_?id|nonce|^key$`)

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
	for _, name := range unknowns {
		if unversioned(obj.Pkg().Path())+"."+obj.Name() == name {
			return true
		}
	}
	return false
}

// repeatsAnswerless reports whether the call is what the loop repeats after an error.
func (c *check) repeatsAnswerless(l *retryLoop, call *ast.CallExpr) bool {
	for _, a := range l.attempts {
		if a == call {
			return true
		}
	}
	return false
}

// saysHarmless reports whether the address or body of a POST speaks of something that may
// be done twice, such as a search.
func (u *unit) saysHarmless(e ast.Expr) (found bool) {
	ast.Inspect(e, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Ident:
			found = found || harmless.MatchString(n.Name) && n.Name != "NewReader"
		case *ast.BasicLit:
			found = found || harmless.MatchString(n.Value) && !strings.HasPrefix(n.Value, `"application/`)
		}
		return !found
	})
	return found
}

// setsKey reports whether code speaks of idempotency at all.
func (u *unit) setsKey(n ast.Node) (found bool) {
	ast.Inspect(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Ident:
			found = found || keyText.MatchString(n.Name)
		case *ast.BasicLit:
			found = found || keyText.MatchString(n.Value)
		}
		return !found
	})
	return found
}
