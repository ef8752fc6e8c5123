package gabionvet

import (
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"regexp"
)

// cond follows a condition: the paths on which it holds, and those on which it does not.
func (w *walk) cond(e ast.Expr, in set) (yes, no set) {
	switch e := e.(type) {
	case *ast.ParenExpr:
		return w.cond(e.X, in)
	case *ast.UnaryExpr:
		if e.Op == token.NOT {
			no, yes = w.cond(e.X, in)
			return yes, no
		}
	case *ast.BinaryExpr:
		switch e.Op {
		case token.LAND:
			yes, no = w.cond(e.X, in)
			y, n := w.cond(e.Y, yes)
			return y, no | n
		case token.LOR:
			yes, no = w.cond(e.X, in)
			y, n := w.cond(e.Y, no)
			return yes | y, n
		}
		return w.comparison(e, in)
	case *ast.CallExpr:
		in = w.node(e, in)
		if w.u.is(e, "errors.Is", "errors.As") && len(e.Args) == 2 && w.tracks(e.Args[0]) {
			return in.without(ok), in
		}
		if id := calledName(e); id != nil && judgeName.MatchString(id.Name) && len(e.Args) == 1 && w.tracks(e.Args[0]) {
			return in.without(ok), in // temporary(err)
		}
		return in, in
	}
	in = w.node(e, in)
	if w.oks[w.u.object(e)] { // true if the error is nil
		return in.without(none).without(failed), in.without(ok)
	}
	return in, in
}

func (w *walk) comparison(e *ast.BinaryExpr, in set) (yes, no set) {
	in = w.node(e, in)
	if e.Op == token.EQL || e.Op == token.NEQ {
		x := ast.Unparen(e.X)
		call, isCall := x.(*ast.CallExpr)
		switch {
		case !w.u.isNil(e.Y):
			if w.tracks(x) && e.Op == token.EQL { // err == something
				return in.without(ok), in
			}
		case w.tracks(x):
			yes, no = in.without(failed), in.without(ok)
		case isCall && isError(w.u.typeOf(call)) && (w.u.isRemote(call) || isDynamic(w.u, call)):
			yes, no = in.now(ok), in.now(failed)
		}
		if yes|no != 0 {
			if e.Op == token.NEQ {
				yes, no = no, yes
			}
			return yes, no
		}
	}
	x, known := w.integer(e.X)
	y, also := w.integer(e.Y)
	if known && also && w.status != 0 {
		if constant.Compare(constant.MakeInt64(int64(x)), e.Op, constant.MakeInt64(int64(y))) {
			return in, 0
		}
		return 0, in
	}
	return in, in
}

// now is s after an attempt that ended so.
func (s set) now(err int) set {
	return s.each(func(st state) set { st.err = err; return st.set() })
}

// attempted is s after an attempt.
func (w *walk) attempted(s set) set {
	if w.status != 0 {
		return s.now(ok) // it has an answer
	}
	return s.now(ok) | s.now(failed)
}

func (w *walk) tracks(e ast.Expr) bool {
	obj := w.u.object(e)
	return obj != nil && w.errs[obj]
}

func (u *unit) isNil(e ast.Expr) bool {
	id, is := ast.Unparen(e).(*ast.Ident)
	if !is {
		return false
	}
	_, is = u.info.Uses[id].(*types.Nil)
	return is
}

// expr and node follow the calls in something that has no paths of its own. What stands in
// function literals, or after go, does not happen here.
func (w *walk) expr(e ast.Expr, in set) set {
	if e == nil {
		return in
	}
	return w.node(e, in)
}

func (w *walk) node(n ast.Node, in set) set {
	if n == nil || w.flag == nil || in == 0 {
		return in
	}
	var flags uint8
	ast.Inspect(n, func(n ast.Node) bool {
		switch n.(type) {
		case *ast.FuncLit, *ast.GoStmt:
			flags |= w.flag(n)
			return false
		case nil:
			return false
		}
		flags |= w.flag(n)
		return true
	})
	return in.with(flags)
}

func (w *walk) assign(s *ast.AssignStmt, in set) set {
	in = w.node(s, in)
	for i, to := range s.Lhs {
		if w.oks[w.u.object(to)] && len(s.Rhs) == len(s.Lhs) {
			if v := w.u.info.Types[s.Rhs[i]].Value; v != nil && v.Kind() == constant.Bool && constant.BoolVal(v) {
				in = in.now(ok)
			}
		}
		if !w.tracks(to) {
			continue
		}
		from := s.Rhs[0]
		if len(s.Rhs) == len(s.Lhs) {
			from = s.Rhs[i]
		}
		switch call, isCall := ast.Unparen(from).(*ast.CallExpr); {
		case w.u.isNil(from):
			in = in.now(ok)
		case isCall && w.u.is(call, "errors.New", "fmt.Errorf", "errors.Join"):
			in = in.now(failed)
		case isCall:
			in = w.attempted(in)
		default:
			in = in.now(ok) | in.now(failed)
		}
	}
	return in
}

// neverReturns reports whether a call ends the program or the goroutine.
func (u *unit) neverReturns(call *ast.CallExpr) bool {
	if id, is := ast.Unparen(call.Fun).(*ast.Ident); is {
		b, is := u.info.Uses[id].(*types.Builtin)
		if is {
			return b.Name() == "panic"
		}
	}
	f := u.callee(call)
	if f == nil || f.Pkg() == nil {
		return false
	}
	switch f.Name() {
	case "Fatal", "Fatalf", "Fatalln", "Exit", "Goexit", "FailNow", "Panic", "Panicf", "Panicln":
		return true
	}
	return false
}

var statusName = regexp.MustCompile(`(?i)^(http)?(status|code|statuscode)$`)

func isInteger(t types.Type) bool {
	b, is := t.Underlying().(*types.Basic)
	return is && b.Info()&types.IsInteger != 0
}

// isStatus reports whether an expression is the status of an answer.
func (u *unit) isStatus(e ast.Expr) bool {
	switch e := ast.Unparen(e).(type) {
	case *ast.SelectorExpr:
		return e.Sel.Name == "StatusCode" && typeName(u.typeOf(e.X)) == "net/http.Response"
	case *ast.Ident:
		values := u.values[u.object(e)]
		for _, v := range values {
			switch v := v.(type) {
			case *ast.SelectorExpr:
				if !u.isStatus(v) {
					return false
				}
			case *ast.CallExpr: // b, status, err := get(url)
				if u.funcs[u.callee(v)] == nil || !statusName.MatchString(e.Name) || !isInteger(u.typeOf(e)) {
					return false
				}
			default:
				return false
			}
		}
		return len(values) > 0
	}
	return false
}

// integer evaluates an expression about the status of an answer.
func (w *walk) integer(e ast.Expr) (int, bool) {
	if tv, is := w.u.info.Types[e]; is && tv.Value != nil {
		n, exact := constant.Int64Val(constant.ToInt(tv.Value))
		return int(n), exact
	}
	switch e := ast.Unparen(e).(type) {
	case *ast.BinaryExpr:
		x, known := w.integer(e.X)
		y, also := w.integer(e.Y)
		if !known || !also || y == 0 {
			return 0, false
		}
		switch e.Op {
		case token.QUO:
			return x / y, true
		case token.REM:
			return x % y, true
		}
	case *ast.SelectorExpr, *ast.Ident:
		if w.status != 0 && w.u.isStatus(e) {
			return w.status, true
		}
	}
	return 0, false
}
