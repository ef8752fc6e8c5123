package gabionvet

import (
	"go/ast"
	"go/token"
	"go/types"
	"regexp"
	"slices"

	"golang.org/x/tools/go/ast/inspector"
)

var (
	limitsCrowd = regexp.MustCompile(`(?i)sem(aphore)?$|^sem|limit|acquire|slot|token|pool|worker|concurren|throttle|bulkhead|gate|parallel|batch|chunk`)
	ofServers   = regexp.MustCompile(`(?i)host|addr|url|endpoint|server|node|peer|replica|shard|region|zone|backend|target|client|provider|source|upstream|mirror|broker|listener|conn|cluster|check|probe|dep(s|endenc)`)
)

// allAtOnce is G149.
func allAtOnce(c *check) {
	c.root.Inspect([]ast.Node{(*ast.GoStmt)(nil), (*ast.CallExpr)(nil)}, func(at inspector.Cursor) bool {
		var work ast.Node
		switch n := at.Node().(type) {
		case *ast.GoStmt:
			work = n.Call
		case *ast.CallExpr:
			if !c.is(n, "(golang.org/x/sync/errgroup.Group).Go", "(sync.WaitGroup).Go") || len(n.Args) != 1 {
				return true
			}
			work = n.Args[0]
		}
		fn, _, body := enclosing(at)
		loop := innermostRange(at)
		if loop == nil || body == nil || !within(body, loop.Pos()) || !c.looksAt(loop.Pos()) || !ofCaller(c, fn, loop.X) || mentions(body, limitsCrowd) || waitsInLoop(c, loop) {
			return true
		}
		if call := callFor(c, work, loop); call != nil {
			c.report(at.Node(), nil, "each element of %s has a goroutine here that calls %s, all at the same time: what was a crowd of elements becomes a crowd of calls, which the dependency refuses or goes down under, and here each holds its memory and its connection; "+
				"let a fixed number of them run at a time", source(loop.X), source(call.Fun))
		}
		return true
	})
}

// innermostRange returns the loop over things in whose body a place stands, if that is the innermost one of its function.
func innermostRange(at inspector.Cursor) *ast.RangeStmt {
	for e := range at.Enclosing((*ast.ForStmt)(nil), (*ast.RangeStmt)(nil), (*ast.FuncLit)(nil), (*ast.FuncDecl)(nil)) {
		loop, is := e.Node().(*ast.RangeStmt)
		if is && within(loop.Body, at.Node().Pos()) {
			return loop
		}
		return nil
	}
	return nil
}

// ofCaller reports whether how many things there are is not known where the loop is written: a caller gives them, or a call returned them, or
// they come from a channel. Servers are few.
func ofCaller(c *check, fn ast.Node, x ast.Expr) bool {
	v, is := c.object(x).(*types.Var)
	t := c.typeOf(x)
	if !is || t == nil || v.IsField() || v.Parent() == c.pkg.Scope() || ofServers.MatchString(v.Name()) {
		return false
	}
	switch t := t.Underlying().(type) {
	case *types.Chan:
		return true
	case *types.Slice:
		if ofServers.MatchString(typeName(t.Elem())) {
			return false
		}
	case *types.Map:
	default:
		return false
	}
	if node, _, is := parameterNode(c.unit, v); is {
		return node == fn && len(c.values[v]) == 0
	}
	return len(c.values[v]) == 1 && slices.ContainsFunc(c.values[v], func(e ast.Expr) bool {
		call, is := e.(*ast.CallExpr)
		return is && c.isRemote(call)
	})
}

// waitsInLoop reports whether a loop itself sends, receives or waits, which may limit it.
func waitsInLoop(c *check, loop *ast.RangeStmt) (waits bool) {
	for _, s := range loop.Body.List {
		own(s, func(n ast.Node) {
			switch n := n.(type) {
			case *ast.SendStmt, *ast.SelectStmt:
				waits = true
			case *ast.UnaryExpr:
				waits = waits || n.Op == token.ARROW
			case *ast.CallExpr:
				waits = waits || isNamed(n, maybeWaits)
			}
		})
	}
	return waits
}

// callFor returns the call to a dependency that a goroutine makes for the element of a loop, on what all of them share.
func callFor(c *check, work ast.Node, loop *ast.RangeStmt) *ast.CallExpr {
	elements := map[types.Object]bool{}
	for _, e := range []ast.Expr{loop.Key, loop.Value} {
		if id, is := e.(*ast.Ident); is && c.object(id) != nil {
			if ofServers.MatchString(id.Name) {
				return nil
			}
			elements[c.object(id)] = true
		}
	}
	var in ast.Node = work
	if call, is := work.(*ast.CallExpr); is {
		if lit, is := call.Fun.(*ast.FuncLit); is {
			in = lit.Body
			if lit.Type.Params != nil && len(call.Args) > 0 {
				elementsOf(c, lit, call, elements)
			}
		}
	}
	if lit, is := in.(*ast.FuncLit); is {
		in = lit.Body
	}
	for _, call := range calls(in, true) {
		sig, is := signature(c.typeOf(call.Fun))
		if !is || !takesContext(sig) && !c.leaves(call) || !callsOut(c, call) || mentionsAny(c, call.Fun, elements) {
			continue
		}
		if slices.ContainsFunc(call.Args, func(e ast.Expr) bool { return mentionsAny(c, e, elements) }) {
			return call
		}
	}
	return nil
}

// elementsOf adds the parameters of a function literal that are given an element.
func elementsOf(c *check, lit *ast.FuncLit, call *ast.CallExpr, elements map[types.Object]bool) {
	at := 0
	for _, field := range lit.Type.Params.List {
		for _, id := range field.Names {
			if at < len(call.Args) && mentionsAny(c, call.Args[at], elements) {
				elements[c.info.Defs[id]] = true
			}
			at++
		}
	}
}
