package gabionvet

import (
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"strings"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/ast/inspector"
)

// errorLosesMeaning is G113.
func errorLosesMeaning(c *check) {
	for _, r := range c.regions {
		for _, call := range c.returnedCalls(r) {
			if c.is(call, "fmt.Errorf") {
				c.checkFormat(r, call)
			}
		}
	}
}

// returnedCalls are the calls whose results the work returns, also those of functions of
// this package that it returns the error of.
func (c *check) returnedCalls(r *region) (all []*ast.CallExpr) {
	bodies := []*ast.BlockStmt{r.body}
	for _, call := range calls(r.body, false) {
		if f := c.callee(call); f != nil && f.Pkg() == c.pkg && c.funcs[f] != nil && c.funcs[f].Body != nil && c.isRemote(call) {
			bodies = append(bodies, c.funcs[f].Body)
		}
	}
	for _, body := range bodies {
		ast.Inspect(body, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncLit:
				return false
			case *ast.ReturnStmt:
				if len(n.Results) > 0 {
					if call, is := ast.Unparen(n.Results[len(n.Results)-1]).(*ast.CallExpr); is {
						all = append(all, call)
					}
				}
			}
			return true
		})
	}
	return all
}

func (c *check) checkFormat(r *region, call *ast.CallExpr) {
	if len(call.Args) < 2 {
		return
	}
	tv := c.info.Types[call.Args[0]]
	if tv.Value == nil || tv.Value.Kind() != constant.String {
		return
	}
	format := constant.StringVal(tv.Value)
	verbs, plain := verbsOf(format)
	if !plain || len(verbs) != len(call.Args)-1 || strings.Contains(format, "%w") {
		return
	}
	for i, arg := range call.Args[1:] {
		if (verbs[i] == 'v' || verbs[i] == 's') && isError(c.typeOf(arg)) {
			c.report(call, c.wrapFix(call, format), "%%%c hides what %s was: %s sees only a text, cannot tell a timeout from a refusal, and repeats what it should not, or gives up what it should repeat; "+
				"wrap it with %%w", verbs[i], source(arg), r.short)
			return
		}
	}
}

// verbsOf returns the verbs of a format in order, and whether it has nothing else, such as
// indexes and widths from arguments.
func verbsOf(format string) (verbs []byte, plain bool) {
	for i := 0; i < len(format); i++ {
		if format[i] != '%' {
			continue
		}
		i++
		for i < len(format) && strings.IndexByte("+-# 0123456789.", format[i]) >= 0 {
			i++
		}
		if i >= len(format) || format[i] == '[' || format[i] == '*' {
			return nil, false
		}
		if format[i] != '%' {
			verbs = append(verbs, format[i])
		}
	}
	return verbs, true
}

// wrapFix puts %w where the only error is.
func (c *check) wrapFix(call *ast.CallExpr, format string) []analysis.SuggestedFix {
	lit, is := ast.Unparen(call.Args[0]).(*ast.BasicLit)
	if !is {
		return nil
	}
	errs := 0
	for _, arg := range call.Args[1:] {
		if isError(c.typeOf(arg)) {
			errs++
		}
	}
	last := call.Args[len(call.Args)-1]
	i := strings.LastIndex(lit.Value, "%v")
	if errs != 1 || !isError(c.typeOf(last)) || i < 0 || strings.Contains(lit.Value[i+2:], "%") || !strings.HasSuffix(strings.TrimRight(format, " )]\n."), "%v") {
		return nil
	}
	at := lit.Pos() + token.Pos(i) + 1
	return []analysis.SuggestedFix{{Message: "Wrap the error with %w", TextEdits: []analysis.TextEdit{{Pos: at, End: at + 1, NewText: []byte("w")}}}}
}

// contextErrors are what calls over a network wrap.
var contextErrors = map[string]bool{
	"context.DeadlineExceeded": true, "context.Canceled": true, "os.ErrDeadlineExceeded": true, "net.ErrClosed": true,
}

// errorCompared is G114.
func errorCompared(c *check) {
	c.root.Inspect([]ast.Node{(*ast.BinaryExpr)(nil), (*ast.SwitchStmt)(nil)}, func(at inspector.Cursor) bool {
		switch n := at.Node().(type) {
		case *ast.BinaryExpr:
			if n.Op == token.EQL || n.Op == token.NEQ {
				c.compare(at, n.X, n.Y, n)
				c.compare(at, n.Y, n.X, n)
			}
		case *ast.SwitchStmt:
			for _, s := range n.Body.List {
				if clause, is := s.(*ast.CaseClause); is && n.Tag != nil {
					for _, e := range clause.List {
						c.compare(at, n.Tag, e, nil)
					}
				}
			}
		}
		return true
	})
}

func (c *check) compare(at inspector.Cursor, err, sentinel ast.Expr, whole *ast.BinaryExpr) {
	if !isError(c.typeOf(err)) {
		return
	}
	name, reason := c.sentinel(sentinel)
	if name == "" {
		return
	}
	from := c.wrapper(err)
	if from == nil || !reason && !c.wrapsContextErrors(from) {
		return
	}
	n := ast.Node(sentinel)
	if whole != nil {
		n = whole
	}
	c.report(n, c.isFix(err, sentinel, whole), "%s wraps its errors, so this never finds %s; use errors.Is(%s, %s)", source(from.Fun), name, source(err), name)
}

// sentinel returns the name of an error that calls return wrapped; reason says that it is
// one of gabion's, which are never returned bare.
func (u *unit) sentinel(e ast.Expr) (name string, reason bool) {
	obj := u.object(e)
	if obj == nil || obj.Pkg() == nil {
		return "", false
	}
	path := unversioned(obj.Pkg().Path())
	if contextErrors[path+"."+obj.Name()] {
		return source(e), false
	}
	if path == "github.com/gabion-go/gabion/policy" && typeName(obj.Type()) == path+".Reason" {
		return source(e), true
	}
	if path == "github.com/gabion-go/gabion" && typeName(obj.Type()) == path+".KeyProblem" {
		return source(e), true
	}
	return "", false
}

// wrapper returns the call that an error comes from, if all of its values do.
func (u *unit) wrapper(e ast.Expr) *ast.CallExpr {
	e = ast.Unparen(e)
	if call, is := e.(*ast.CallExpr); is {
		return call
	}
	v, is := u.object(e).(*types.Var)
	if !is || v.IsField() {
		return nil
	}
	var last *ast.CallExpr
	for _, value := range u.values[v] {
		if value == nil {
			return nil
		}
		call, is := ast.Unparen(value).(*ast.CallExpr)
		if !is {
			return nil
		}
		if value.Pos() < e.Pos() && (last == nil || call.Pos() > last.Pos()) {
			last = call
		}
	}
	return last
}

// wrapsContextErrors reports whether a call is known to return no bare context errors.
func (u *unit) wrapsContextErrors(call *ast.CallExpr) bool {
	if u.sends(call) {
		return true // *url.Error, but for a bare RoundTrip
	}
	f := u.callee(call)
	if f == nil || f.Pkg() == nil {
		return false
	}
	switch unversioned(f.Pkg().Path()) {
	case "net":
		return dials.MatchString(f.Name()) // *net.OpError
	case "google.golang.org/grpc":
		return f.Name() == "Invoke" || f.Name() == "NewStream" // a status
	}
	_, retried := u.retrierOf(call)
	return retried && strings.HasPrefix(fullName(f), "github.com/gabion-go/") || strings.HasPrefix(fullName(f), "(github.com/gabion-go/gabion.Dep")
}

func (c *check) isFix(err, sentinel ast.Expr, whole *ast.BinaryExpr) []analysis.SuggestedFix {
	if whole == nil {
		return nil
	}
	name, edits := c.importing(whole, "errors", "errors")
	if name == "" {
		return nil
	}
	text := name + ".Is(" + types.ExprString(err) + ", " + types.ExprString(sentinel) + ")"
	if whole.Op == token.NEQ {
		text = "!" + text
	}
	edits = append(edits, analysis.TextEdit{Pos: whole.Pos(), End: whole.End(), NewText: []byte(text)})
	return []analysis.SuggestedFix{{Message: "Use errors.Is", TextEdits: edits}}
}

// repeatsRefusals is G126.
func repeatsRefusals(c *check) {
	for _, l := range c.loops {
		if !c.looksAtStatus(l.body) || c.treatsRefusals(l) {
			continue
		}
		notFound := &walk{u: c.unit, errs: l.errs, flag: l.statusFlag(c.unit), status: 404}
		down := &walk{u: c.unit, errs: l.errs, flag: l.statusFlag(c.unit), status: 503}
		gone, busy := notFound.loop(l.stmt, l.label), down.loop(l.stmt, l.label)
		if notFound.lost || gone.leaveBefore() || !gone.round.has(ok, marked, 0) || !busy.round.has(ok, marked, 0) {
			continue
		}
		c.report(l.attempts[0], nil, "this loop repeats a 404 and a 401 as it repeats a 503: the request stays wrong, so the same answer comes each time, and the server has the load; "+
			"return at once when the status is from 400 to 499, except 408, 425 and 429")
	}
}

// leaveBefore reports whether an answer leaves the loop on some path, other than by its bound.
func (e exit) leaveBefore() bool { return e.out.has(ok, 0, 0) }

// statusFlag marks paths that have seen the status.
func (l *retryLoop) statusFlag(u *unit) func(ast.Node) uint8 {
	return func(n ast.Node) uint8 {
		if e, is := n.(*ast.SelectorExpr); is && u.isStatus(e) {
			return marked
		}
		return 0
	}
}

// treatsRefusals reports whether a loop hands the answer to something that may judge it.
func (c *check) treatsRefusals(l *retryLoop) (found bool) {
	for _, call := range calls(l.body, false) {
		name := calledName(call)
		if name == nil {
			continue
		}
		for _, arg := range call.Args {
			if isResponse(c.typeOf(arg)) || c.isStatus(arg) && asksError.MatchString(name.Name) {
				found = true
			}
		}
	}
	return found
}
