package gabionvet

import (
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"regexp"
	"slices"

	"golang.org/x/tools/go/ast/inspector"
)

// failureKept is G135.
func failureKept(c *check) {
	standInKept(c)
	if c.pkg.Name() == "main" {
		return // a command asks once, and ends
	}
	c.eachCall(func(at inspector.Cursor, call *ast.CallExpr) {
		if len(call.Args) != 1 || !c.is(call, "(sync.Once).Do", "sync.OnceValue", "sync.OnceValues") {
			return
		}
		r := c.work(call.Args[0])
		if r == nil || !keepsError(c, call, r) || resetsOnce(c, call) || endsThings(at) {
			return
		}
		for _, at := range reach(c.unit, r.body) {
			if name := calledName(at.top); name != nil && outlives.MatchString(name.Name) {
				continue // it ends something, which is done once
			}
			if c.leaves(at.call) && !c.is(at.call, lazy...) {
				c.report(call, nil, "this keeps the error of the first call for good: when %s fails once, as in an outage of a second, every later call fails until the process starts anew; "+
					"keep the result only after a success, and try again after a failure", source(at.top.Fun))
				return
			}
		}
	})
}

// endsThings reports whether code stands in a function that ends something: that it does so once is meant.
func endsThings(at inspector.Cursor) bool {
	for e := range at.Enclosing((*ast.FuncDecl)(nil)) {
		return outlives.MatchString(e.Node().(*ast.FuncDecl).Name.Name)
	}
	return false
}

// lazy are the functions that open something and call nothing yet.
var lazy = []string{"database/sql.Open", "google.golang.org/grpc.NewClient", "google.golang.org/grpc.Dial", "net/http.NewRequest", "github.com/jackc/pgx/pgxpool.New"}

// keepsError reports whether work that runs once leaves its error where it is read later.
func keepsError(c *check, call *ast.CallExpr, r *region) (keeps bool) {
	if !c.is(call, "(sync.Once).Do") {
		results := r.typ.Results
		return results != nil && isError(c.typeOf(results.List[len(results.List)-1].Type))
	}
	own(r.body, func(n ast.Node) {
		as, is := n.(*ast.AssignStmt)
		if !is {
			return
		}
		for i, to := range as.Lhs {
			obj := c.object(to)
			if obj == nil || !isError(obj.Type()) || declaredIn(obj, r.body) || len(as.Lhs) == len(as.Rhs) && c.isNil(as.Rhs[i]) {
				continue
			}
			v, is := obj.(*types.Var)
			keeps = keeps || is && (v.IsField() || v.Parent() == c.pkg.Scope())
		}
	})
	return keeps
}

// resetsOnce reports whether the package gives a sync.Once a new value, so that it runs again.
func resetsOnce(c *check, call *ast.CallExpr) bool {
	sel, is := ast.Unparen(call.Fun).(*ast.SelectorExpr)
	return is && len(c.values[c.object(sel.X)]) > 0
}

// oneTimeoutForAll is G138.
func oneTimeoutForAll(c *check) {
	oneTimeoutForWork(c)
	for _, l := range c.loops {
		_, _, body := enclosing(l.cursor)
		if body == nil {
			continue
		}
		own(body, func(n ast.Node) {
			as, is := n.(*ast.AssignStmt)
			if !is || len(as.Rhs) != 1 || len(as.Lhs) != 2 || as.Pos() > l.stmt.Pos() || within(l.code(), as.Pos()) {
				return
			}
			call, is := as.Rhs[0].(*ast.CallExpr)
			if !is || len(call.Args) < 2 || !c.is(call, "context.WithTimeout", "context.WithTimeoutCause") {
				return
			}
			name, v := source(as.Lhs[0]), c.object(as.Lhs[0])
			if inner := noShorter(c, l, v, call); inner != nil {
				c.report(inner, nil, "this timeout of an attempt is no shorter than the one on line %d that all attempts share: an attempt that hangs uses up all of the time, and none follows it; "+
					"give an attempt a part of it", c.fset.Position(call.Pos()).Line)
				return
			}
			if !attemptUses(c, l, v) || !forOneAttempt.MatchString(source(call.Args[1])+" "+name) && !waitsForParent(c, l, call.Args[0], v) {
				return
			}
			c.report(call, nil, "this timeout begins before the loop on line %d and spans all its attempts: when the first one uses it up, those after it fail at once, and nothing was gained by them; "+
				"make the context of an attempt in the loop", c.fset.Position(l.stmt.Pos()).Line)
		})
	}
}

// noShorter returns the call by which an attempt of a loop makes its timeout, if that is as long as the one of all attempts.
func noShorter(c *check, l *retryLoop, whole types.Object, of *ast.CallExpr) *ast.CallExpr {
	total := c.info.Types[of.Args[1]].Value
	if total == nil || whole == nil {
		return nil
	}
	for _, at := range reach(c.unit, l.body) {
		if !c.is(at.call, "context.WithTimeout", "context.WithTimeoutCause") || len(at.call.Args) < 2 || !slices.Contains(l.attempts, at.top) && len(at.path) > 0 {
			continue
		}
		own := c.info.Types[at.call.Args[1]].Value
		if own == nil || !constant.Compare(own, token.GEQ, total) {
			continue
		}
		for _, from := range append(sources(c.unit, at.call.Args[0], at.path), at.call.Args[0]) {
			if from == ast.Expr(of) || c.object(from) == whole {
				return at.call
			}
		}
	}
	return nil
}

// oneTimeoutForWork is the part of G138 for work that a function repeats: its name says that the timeout is for one attempt, and
// the function that repeats it has it.
func oneTimeoutForWork(c *check) {
	for _, r := range c.regions {
		at, found := c.root.FindNode(r.call)
		_, _, body := enclosing(at)
		if !found || body == nil {
			continue
		}
		own(body, func(n ast.Node) {
			as, is := n.(*ast.AssignStmt)
			if !is || len(as.Rhs) != 1 || len(as.Lhs) != 2 || as.Pos() > r.call.Pos() {
				return
			}
			call, is := as.Rhs[0].(*ast.CallExpr)
			given := slices.ContainsFunc(r.call.Args, func(e ast.Expr) bool { return c.object(e) != nil && c.object(e) == c.object(as.Lhs[0]) })
			if is && len(call.Args) > 1 && given && c.is(call, "context.WithTimeout", "context.WithTimeoutCause") && forOneAttempt.MatchString(source(call.Args[1])+" "+source(as.Lhs[0])) {
				c.report(call, nil, "this timeout is for one attempt by its name, and spans all that %s makes: when the first one uses it up, no other is made; "+
					"make the context of an attempt in the work", r.short)
			}
		})
	}
}

// forOneAttempt are the names of a timeout that is meant for one attempt.
var forOneAttempt = regexp.MustCompile(`(?i)attempt(ctx|context|timeout|limit)|per_?(try|attempt|call|request)|(ctx|timeout)(per|each|one)|^try(ctx|timeout)`)

// attemptUses reports whether an attempt of a loop is given a context.
func attemptUses(c *check, l *retryLoop, ctx types.Object) bool {
	for _, a := range l.attempts {
		for _, arg := range a.Args {
			if c.object(arg) == ctx && ctx != nil {
				return true
			}
		}
	}
	return false
}

// waitsForParent reports whether a loop hears when the context ends from which its attempts' was made, and does not
// hear when that one does: so one of them is for the call, and the other for an attempt.
func waitsForParent(c *check, l *retryLoop, parent ast.Expr, ctx types.Object) bool {
	hears := func(obj types.Object) (found bool) {
		own(l.body, func(n ast.Node) {
			sel, is := n.(*ast.SelectorExpr)
			found = found || is && contextEnd.MatchString(sel.Sel.Name) && c.object(sel.X) == obj
		})
		return found
	}
	of := c.object(parent)
	return of != nil && of != ctx && hears(of) && !hears(ctx)
}
