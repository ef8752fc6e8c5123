package gabionvet

import (
	"go/ast"
	"go/constant"
	"go/types"

	"golang.org/x/tools/go/ast/inspector"
)

// A limit is what is known of the time that something may take.
type limit int

const (
	unknown limit = iota
	endless       // no deadline
	bounded       // a deadline
)

// both joins what two ways into the same place say.
func both(a, b limit) limit {
	if a == b {
		return a
	}
	return unknown
}

// contextLimit says whether a context has a deadline, as far as this package shows.
func (u *unit) contextLimit(e ast.Expr, depth int) limit {
	if e == nil || depth > 6 {
		return unknown
	}
	switch e := ast.Unparen(e).(type) {
	case *ast.CallExpr:
		switch {
		case u.is(e, "context.Background", "context.TODO"):
			return endless
		case u.is(e, "context.WithTimeout", "context.WithDeadline", "context.WithTimeoutCause", "context.WithDeadlineCause"):
			return bounded
		case u.is(e, "context.WithCancel", "context.WithCancelCause", "context.WithValue", "os/signal.NotifyContext") && len(e.Args) > 0:
			return u.contextLimit(e.Args[0], depth+1)
		case u.is(e, "context.WithoutCancel"):
			return endless
		case u.is(e, "(net/http.Request).Context"):
			return u.requestContext(e)
		}
	case *ast.Ident:
		v, is := u.info.Uses[e].(*types.Var)
		if !is || v.IsField() || v.Parent() == u.pkg.Scope() {
			return unknown
		}
		return u.variableLimit(v, depth+1)
	}
	return unknown
}

// requestContext is that of a handler's request: net/http gives it no deadline.
func (u *unit) requestContext(e *ast.CallExpr) limit {
	sel, is := ast.Unparen(e.Fun).(*ast.SelectorExpr)
	if !is {
		return unknown
	}
	if v, is := u.object(sel.X).(*types.Var); is && len(u.values[v]) == 0 && u.isHandlers(v) {
		return endless
	}
	return unknown
}

// isHandlers reports whether a variable is the request of a function with the signature of
// a handler.
func (u *unit) isHandlers(v *types.Var) bool {
	c, found := u.root.FindByPos(v.Pos(), v.Pos())
	if !found {
		return false
	}
	for e := range c.Enclosing((*ast.FuncType)(nil)) {
		return u.isHandlerType(e.Node().(*ast.FuncType))
	}
	return false
}

// isHandlerType reports whether a function takes a ResponseWriter and a request.
func (u *unit) isHandlerType(t *ast.FuncType) bool {
	if t == nil || t.Params == nil || len(t.Params.List) < 2 {
		return false
	}
	return typeName(u.typeOf(t.Params.List[0].Type)) == "net/http.ResponseWriter" &&
		typeName(u.typeOf(t.Params.List[1].Type)) == "net/http.Request"
}

func (u *unit) variableLimit(v *types.Var, depth int) limit {
	values := u.values[v]
	f, at, isParam := u.parameter(v)
	if len(values) == 0 && !isParam {
		return unknown
	}
	var all []limit
	for _, value := range values {
		if value == nil || mentionsObject(u, value, v) && !isParam {
			return unknown
		}
		all = append(all, u.contextLimit(value, depth+1))
	}
	if isParam {
		if len(values) > 0 {
			return unknown // ctx = something of ctx: which one holds depends on where
		}
		all = append(all, u.argumentLimit(f, at, depth))
	}
	found := all[0]
	for _, l := range all {
		found = both(found, l)
	}
	return found
}

func mentionsObject(u *unit, n ast.Node, obj types.Object) bool {
	return has(n, func(id *ast.Ident) bool { return u.info.Uses[id] == obj || u.info.Defs[id] == obj })
}

// argumentLimit looks at what the callers in this package give, which are all callers if no other
// package can call it.
func (u *unit) argumentLimit(f *types.Func, at, depth int) limit {
	if f == nil || f.Exported() && u.pkg.Name() != "main" || u.asValue[f] || len(u.callers[f]) == 0 {
		return unknown
	}
	found, first := unknown, true
	for _, call := range u.callers[f] {
		if at >= len(call.Args) {
			return unknown
		}
		l := u.contextLimit(call.Args[at], depth+1)
		if first {
			found, first = l, false
		}
		found = both(found, l)
	}
	return found
}

// parameter returns the function and the place of a variable that is a parameter of a
// declared function; f is nil if it is one of a function literal.
func (u *unit) parameter(v *types.Var) (f *types.Func, at int, is bool) {
	if v.Kind() != types.ParamVar {
		return nil, 0, false
	}
	c, found := u.root.FindByPos(v.Pos(), v.Pos())
	if !found {
		return nil, 0, true
	}
	var typ *ast.FuncType
	for e := range c.Enclosing((*ast.FuncType)(nil)) {
		typ = e.Node().(*ast.FuncType)
		decl, isDecl := e.Parent().Node().(*ast.FuncDecl)
		if !isDecl {
			return nil, 0, true
		}
		f, _ = u.info.Defs[decl.Name].(*types.Func)
		break
	}
	if typ == nil || f == nil {
		return nil, 0, true
	}
	for _, field := range typ.Params.List {
		for _, id := range field.Names {
			if u.info.Defs[id] == v {
				return f, at, true
			}
			at++
		}
		if len(field.Names) == 0 {
			at++
		}
	}
	return nil, 0, true
}

// requestLimit says whether a request has a deadline.
func (u *unit) requestLimit(e ast.Expr, depth int) limit {
	if e == nil || depth > 4 {
		return unknown
	}
	switch e := ast.Unparen(e).(type) {
	case *ast.CallExpr:
		switch {
		case u.is(e, "net/http.NewRequest"):
			return endless
		case u.is(e, "net/http.NewRequestWithContext", "(net/http.Request).WithContext", "(net/http.Request).Clone") && len(e.Args) > 0:
			return u.contextLimit(e.Args[0], depth)
		}
	case *ast.Ident:
		v, is := u.info.Uses[e].(*types.Var)
		if !is || len(u.values[v]) == 0 || v.IsField() {
			return unknown
		}
		found := u.requestLimit(u.values[v][0], depth+1)
		for _, value := range u.values[v] {
			if l := u.requestLimit(value, depth+1); l == bounded {
				return unknown // now and then
			} else if l != found {
				found = unknown
			}
		}
		return found
	}
	return unknown
}

// clientLimit says whether an http.Client has a timeout.
func (u *unit) clientLimit(e ast.Expr, depth int) limit {
	if e == nil || depth > 4 || u.sets("net/http", "Timeout") {
		return unknown
	}
	switch e := ast.Unparen(e).(type) {
	case *ast.UnaryExpr:
		return u.clientLimit(e.X, depth+1)
	case *ast.CompositeLit:
		if typeName(u.typeOf(e)) == "net/http.Client" {
			return u.literalLimit(e)
		}
	case *ast.CallExpr:
		if id, is := e.Fun.(*ast.Ident); is && id.Name == "new" && len(e.Args) == 1 && typeName(u.typeOf(e.Args[0])) == "net/http.Client" {
			return endless
		}
	case *ast.Ident, *ast.SelectorExpr:
		v, is := u.object(e).(*types.Var)
		if !is {
			return unknown
		}
		if v.Pkg() != nil && v.Pkg().Path() == "net/http" && v.Name() == "DefaultClient" {
			return endless
		}
		return u.clientVariable(v, depth)
	}
	return unknown
}

func (u *unit) clientVariable(v *types.Var, depth int) limit {
	values := u.values[v]
	local := v.Parent() != u.pkg.Scope() && !v.IsField()
	if v.Exported() && !local || v.Pkg() != u.pkg {
		return unknown
	}
	if v.Kind() == types.ParamVar {
		node, at, _ := parameterNode(u, v)
		if decl, is := node.(*ast.FuncDecl); !is || decl.Name.IsExported() || len(values) > 0 || len(u.runners[node]) == 0 || u.asValue[declared(u, decl)] {
			return unknown
		}
		for _, call := range u.runners[node] {
			if at >= len(call.Args) || u.clientLimit(call.Args[at], depth+1) != endless {
				return unknown
			}
		}
		return endless
	}
	if len(values) == 0 {
		if typeName(v.Type()) == "net/http.Client" && !isPointer(v.Type()) && local {
			return endless // var client http.Client
		}
		return unknown
	}
	for _, value := range values {
		if value == nil || u.clientLimit(value, depth+1) != endless {
			return unknown
		}
	}
	return endless
}

func declared(u *unit, decl *ast.FuncDecl) *types.Func {
	f, _ := u.info.Defs[decl.Name].(*types.Func)
	return f
}

// literalLimit looks at the fields of an http.Client. A transport may have a limit of its own.
func (u *unit) literalLimit(lit *ast.CompositeLit) limit {
	for _, elt := range lit.Elts {
		kv, is := elt.(*ast.KeyValueExpr)
		if !is {
			return unknown
		}
		switch id, _ := kv.Key.(*ast.Ident); {
		case id == nil:
			return unknown
		case id.Name == "Timeout":
			if tv := u.info.Types[kv.Value]; tv.Value == nil || constant.Sign(tv.Value) != 0 {
				return bounded
			}
		case id.Name == "Transport" && !u.plainTransport(kv.Value):
			return unknown
		}
	}
	return endless
}

// plainTransport reports whether a value is an http.Transport that waits for ever.
func (u *unit) plainTransport(e ast.Expr) bool {
	if un, is := e.(*ast.UnaryExpr); is {
		e = un.X
	}
	lit, is := e.(*ast.CompositeLit)
	if !is || typeName(u.typeOf(lit)) != "net/http.Transport" {
		return false
	}
	for _, elt := range lit.Elts {
		if kv, is := elt.(*ast.KeyValueExpr); is {
			if id, is := kv.Key.(*ast.Ident); is && id.Name == "ResponseHeaderTimeout" {
				return false
			}
		}
	}
	return true
}

// enclosing returns the function around a cursor.
func enclosing(c inspector.Cursor) (fn ast.Node, typ *ast.FuncType, body *ast.BlockStmt) {
	for e := range c.Enclosing((*ast.FuncDecl)(nil), (*ast.FuncLit)(nil)) {
		switch f := e.Node().(type) {
		case *ast.FuncDecl:
			return f, f.Type, f.Body
		case *ast.FuncLit:
			return f, f.Type, f.Body
		}
	}
	return nil, nil, nil
}
