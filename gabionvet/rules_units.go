package gabionvet

import (
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/tools/go/ast/inspector"
)

// wrongUnit is G137.
func wrongUnit(c *check) {
	c.eachCall(func(at inspector.Cursor, call *ast.CallExpr) {
		if len(call.Args) != 1 || !c.info.Types[call.Fun].IsType() || typeName(c.typeOf(call.Fun)) != "time.Duration" || !isInteger(c.typeOf(call.Args[0])) {
			return
		}
		name, unit := unitIn(c, call.Args[0])
		if unit == "" || unit == "nanosecond" || typeName(c.typeOf(call.Args[0])) == "time.Duration" || !takenAsItIs(c, at) {
			return
		}
		c.report(call, nil, "a time.Duration counts nanoseconds, and %s counts %ss: a timeout ends every call at once, and a wait is over at once; write %s * time.%s",
			name, unit, source(call), unitName(unit))
	})
	c.root.Inspect([]ast.Node{(*ast.BinaryExpr)(nil), (*ast.BasicLit)(nil)}, func(at inspector.Cursor) bool {
		switch n := at.Node().(type) {
		case *ast.BinaryExpr:
			otherUnit(c, n)
		case *ast.BasicLit:
			bareNumber(c, at, n)
		}
		return true
	})
}

func unitName(unit string) string { return strings.ToUpper(unit[:1]) + unit[1:] }

// unitIn is the name of the number that an expression is, and its unit: by the end of its name, or since it is what Retry-After says.
func unitIn(c *check, e ast.Expr) (name, unit string) {
	of := ast.Unparen(e)
	if call, is := of.(*ast.CallExpr); is && len(call.Args) == 1 && c.info.Types[call.Fun].IsType() {
		return unitIn(c, call.Args[0]) // time.Duration(n), int64(n)
	} else if is && len(call.Args) == 0 {
		of = call.Fun
	}
	switch e := of.(type) {
	case *ast.Ident:
		name = e.Name
	case *ast.SelectorExpr:
		name = e.Sel.Name
	}
	if unit = unitOf(name); unit != "" || name == "" {
		return name, unit
	}
	for _, from := range sources(c.unit, of, nil) {
		if call, is := from.(*ast.CallExpr); is && parsesRetryAfter(c, call) {
			return name, "second"
		}
	}
	return name, ""
}

// otherUnit finds a number of one unit that is multiplied by another.
func otherUnit(c *check, b *ast.BinaryExpr) {
	if b.Op != token.MUL {
		return
	}
	for _, e := range [][2]ast.Expr{{b.X, b.Y}, {b.Y, b.X}} {
		by := c.object(e[1])
		if by == nil || by.Pkg() == nil || by.Pkg().Path() != "time" || unitOf(strings.ToLower(by.Name())) == "" {
			continue
		}
		name, unit := unitIn(c, e[0])
		if unit != "" && unit != strings.ToLower(by.Name()) {
			c.report(b, nil, "%s counts %ss, and is multiplied by time.%s here: the time is another than what was meant, by a factor that is hard to see; write time.%s",
				name, unit, by.Name(), unitName(unit))
		}
	}
}

var timeName = regexp.MustCompile(`(?i)time_?out|interval|delay|backoff|wait|ttl|expir|deadline|period|keep_?alive`)

// bareNumber finds a number without a unit that is given as a timeout or a wait.
func bareNumber(c *check, at inspector.Cursor, lit *ast.BasicLit) {
	v := c.info.Types[lit].Value
	if lit.Kind != token.INT || v == nil || typeName(c.typeOf(lit)) != "time.Duration" {
		return
	}
	if n, exact := constant.Int64Val(v); !exact || n < 2 || n >= 10_000 {
		return
	}
	named := false
	switch p := at.Parent().Node().(type) {
	case *ast.KeyValueExpr:
		named = p.Value == ast.Expr(lit) && timeName.MatchString(source(p.Key))
	case *ast.AssignStmt:
		named = len(p.Lhs) == 1 && (p.Tok == token.ASSIGN || p.Tok == token.DEFINE) && timeName.MatchString(source(p.Lhs[0]))
	case *ast.ValueSpec:
		named = len(p.Names) == 1 && timeName.MatchString(p.Names[0].Name)
	case *ast.CallExpr:
		named = c.is(p, "context.WithTimeout", "context.WithTimeoutCause", "time.After", "time.NewTimer", "time.NewTicker", "time.Tick", "time.AfterFunc") || isNamed(p, timeName)
	}
	if named {
		c.report(lit, nil, "a time.Duration counts nanoseconds, so this is %s ns: a timeout ends every call at once, and a wait is over at once; write a unit, as %s * time.Millisecond", lit.Value, lit.Value)
	}
}

var units = []struct {
	of   string
	name *regexp.Regexp
}{
	{"nanosecond", regexp.MustCompile(`(?i)nano_?s(ec|ecs|econd|econds)?$`)},
	{"microsecond", regexp.MustCompile(`(?i)micro_?s(ec|ecs|econd|econds)?$`)},
	{"millisecond", regexp.MustCompile(`(?i)milli_?s(ec|ecs|econd|econds)$`)},
	{"millisecond", regexp.MustCompile(`^(ms|millis)$|[a-z0-9](MS|Ms)$|_ms$|(^m|_m|M)illi(s|sec|secs|second|seconds)$`)},
	{"second", regexp.MustCompile(`^(secs?|seconds?)$|[a-z0-9](Secs?|Seconds?)$|_(secs?|seconds?)$`)},
	{"minute", regexp.MustCompile(`^(mins|minutes?)$|[a-z0-9](Mins|Minutes?)$|_(mins|minutes?)$`)},
	{"hour", regexp.MustCompile(`^hours$|[a-z0-9]Hours$|_hours$`)},
}

// unitOf is the unit that the name of a number ends in.
func unitOf(name string) string {
	for _, u := range units {
		if u.name.MatchString(name) {
			return u.of
		}
	}
	return ""
}

// multipliedByCaller reports whether what a function returns may be multiplied where it is called.
func multipliedByCaller(c *check, at inspector.Cursor) bool {
	fn, _, _ := enclosing(at)
	decl, is := fn.(*ast.FuncDecl)
	if !is || decl.Name.IsExported() {
		return true
	}
	return slices.ContainsFunc(c.runners[fn], func(call *ast.CallExpr) bool {
		caller, found := c.root.FindNode(call)
		_, computes := caller.Parent().Node().(*ast.BinaryExpr)
		return !found || computes
	})
}

// takenAsItIs reports whether a duration is used as it is, and not multiplied first.
func takenAsItIs(c *check, at inspector.Cursor) bool {
	parent := at.Parent()
	for {
		if _, is := parent.Node().(*ast.ParenExpr); !is {
			break
		}
		at, parent = parent, parent.Parent()
	}
	var to ast.Expr
	switch p := parent.Node().(type) {
	case *ast.KeyValueExpr:
		return p.Value == at.Node()
	case *ast.ReturnStmt:
		return !multipliedByCaller(c, parent)
	case *ast.CallExpr:
		f := c.callee(p)
		return f != nil && f.Pkg() != nil && (f.Pkg().Path() == "time" && f.Name() != "Duration" || f.Pkg().Path() == "context")
	case *ast.AssignStmt:
		for i, e := range p.Rhs {
			if e == at.Node() && len(p.Lhs) == len(p.Rhs) && (p.Tok == token.ASSIGN || p.Tok == token.DEFINE) {
				to = p.Lhs[i]
			}
		}
	}
	v, is := c.object(to).(*types.Var)
	if to == nil || !is {
		return false
	}
	for _, use := range c.uses[v] {
		switch p := use.Parent().Node().(type) {
		case *ast.BinaryExpr:
			if p.Op == token.MUL {
				return false
			}
		case *ast.AssignStmt:
			if p.Tok == token.MUL_ASSIGN {
				return false
			}
		}
	}
	return true
}
