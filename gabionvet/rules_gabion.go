package gabionvet

import (
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"regexp"
	"strings"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/ast/inspector"
)

// workIgnoresContext is G115.
func workIgnoresContext(c *check) {
	for _, r := range c.regions {
		if r.lit == nil || r.own != nil || len(r.typ.Params.List) == 0 || !isContext(c.typeOf(r.typ.Params.List[0].Type)) {
			continue
		}
		own := types.Object(nil)
		if names := r.typ.Params.List[0].Names; len(names) > 0 && names[0].Name != "_" {
			own = c.info.Defs[names[0]]
		}
		if outer := c.outerContext(r.lit); outer != nil {
			c.report(outer, renameFix(outer, own), "this work uses %s from outside instead of the context that %s gives it: the attempt's timeout does not end it, "+
				"and neither does a hedge that won; use the work's own context", outer.Name, r.short)
			continue
		}
		if (own == nil || !c.usesObject(r.lit.Body, own)) && c.takesTime(r.lit.Body) {
			c.report(r.lit, nil, "this work ignores the context that %s gives it: when the attempt's time is over it goes on, and %s waits for it; "+
				"hand the context to what the work calls", r.short, r.short)
		}
	}
}

// outerContext returns where a function uses a context of a function around it.
func (u *unit) outerContext(lit *ast.FuncLit) (found *ast.Ident) {
	ast.Inspect(lit.Body, func(n ast.Node) bool {
		if call, is := n.(*ast.CallExpr); is && u.is(call, "context.WithoutCancel") {
			return false
		}
		if sel, is := n.(*ast.SelectorExpr); is && (sel.Sel.Name == "Err" || sel.Sel.Name == "Done" || sel.Sel.Name == "Value" || sel.Sel.Name == "Deadline") {
			return false // asked, not used
		}
		id, is := n.(*ast.Ident)
		if !is || found != nil {
			return true
		}
		v, is := u.info.Uses[id].(*types.Var)
		if is && !v.IsField() && v.Parent() != u.pkg.Scope() && isContext(v.Type()) && !declaredIn(v, lit) {
			found = id
		}
		return true
	})
	return found
}

func (u *unit) usesObject(n ast.Node, obj types.Object) (found bool) {
	ast.Inspect(n, func(n ast.Node) bool {
		if id, is := n.(*ast.Ident); is && u.info.Uses[id] == obj {
			found = true
		}
		return !found
	})
	return found
}

// takesTime reports whether code calls something over a network, or sleeps.
func (u *unit) takesTime(n ast.Node) bool {
	for _, call := range calls(n, true) {
		if u.leaves(call) || u.is(call, "time.Sleep") || u.remote[u.callee(call)] {
			return true
		}
	}
	return false
}

func renameFix(id *ast.Ident, own types.Object) []analysis.SuggestedFix {
	if own == nil || own.Name() == id.Name {
		return nil
	}
	return []analysis.SuggestedFix{{Message: "Use the work's own context", TextEdits: []analysis.TextEdit{{Pos: id.Pos(), End: id.End(), NewText: []byte(own.Name())}}}}
}

// twoLayers is G116.
func twoLayers(c *check) {
	for _, r := range c.regions {
		for _, call := range calls(r.body, true) {
			checkLayers(c, r, reached{call: call, top: call})
		}
		for _, at := range reach(c.unit, r.body) {
			checkLayers(c, r, at)
		}
	}
	for _, l := range c.loops {
		for _, a := range l.attempts {
			why := loopsWithin(c, a)
			if by, is := retries(c.unit, a); is && !by.tx {
				why = shortName(c.callee(a)) + " retries by itself"
			}
			if why != "" {
				c.report(a, nil, "two layers retry here: %s, and this loop repeats all of that: in an outage the attempts multiply, past any budget; "+
					"call it once and let its policy say how often", why)
			}
		}
	}
}

func checkLayers(c *check, r *region, at reached) {
	why := c.retriesItself(r, at.call)
	if why == "" && !r.by.tx {
		why = loopsWithin(c, at.call)
	}
	if why != "" {
		c.report(at.top, nil, "two layers retry here: %s%s, and %s repeats all of that: in an outage the attempts multiply, past any budget; "+
			"leave the retries to one of the two", why, through(at), r.short)
	}
}

// loopsWithin says which loop that retries is in a function of the package that is called.
func loopsWithin(c *check, call *ast.CallExpr) string {
	t := c.targets[call]
	for _, l := range c.loops {
		if t != nil && l.fn == t.node {
			if _, is := c.helpers[t.node]; !is {
				return t.name + " has a loop that retries " + called(l.attempts)
			}
		}
	}
	return ""
}

// retriesItself says how a call inside of a retrier's work retries by itself.
func (c *check) retriesItself(r *region, call *ast.CallExpr) string {
	f := c.callee(call)
	name := fullName(f)
	switch {
	case name == "":
		return ""
	case strings.HasPrefix(name, "(github.com/hashicorp/go-retryablehttp.Client)."):
		if c.allZero("github.com/hashicorp/go-retryablehttp", "RetryMax") {
			return ""
		}
		return "a retryablehttp.Client tries 5 times by default"
	case strings.HasPrefix(name, "(github.com/redis/go-redis.Client).") || strings.HasPrefix(name, "(github.com/redis/go-redis.cmdable)."):
		if c.redisRetries(call) {
			return "go-redis tries 4 times by default (set MaxRetries: -1)"
		}
	case strings.HasPrefix(name, "(github.com/aws/aws-sdk-go-v2/service/"):
		if takesContext(f.Type().(*types.Signature)) && c.makesHere("github.com/aws/aws-sdk-go-v2/") && !c.says(awsSettings) {
			return "the AWS SDK tries 3 times by default (set aws.NopRetryer, or use gabionaws)"
		}
	case strings.HasPrefix(name, "github.com/stripe/stripe-go/"):
		if takesParams(f) && c.sets(f.Pkg().Path()[:strings.LastIndex(f.Pkg().Path(), "/")], "Key") && !c.says(stripeSettings) {
			return "stripe-go tries 3 times by default (set MaxNetworkRetries to 0)"
		}
	case strings.HasPrefix(name, "(github.com/go-resty/resty.Request)."):
		if c.says(restySettings) && canFail(f.Type().(*types.Signature)) {
			return "this resty client has a SetRetryCount"
		}
	}
	if by, is := retries(c.unit, call); is && !(by.gabion && r.by.gabion) {
		return shortName(f) + " retries by itself"
	}
	return ""
}

var (
	awsSettings    = regexp.MustCompile(`^(NopRetryer|RetryMaxAttempts|WithRetryMaxAttempts|WithRetryer|Retryer|gabionaws)$`)
	stripeSettings = regexp.MustCompile(`^(MaxNetworkRetries|SetHTTPClient)$`)
	restySettings  = regexp.MustCompile(`^SetRetryCount$`)
)

func takesParams(f *types.Func) bool { return canFail(f.Type().(*types.Signature)) }

// says reports whether any file of the package has a name that matches.
func (u *unit) says(re *regexp.Regexp) bool {
	for _, f := range u.files {
		if mentions(f, re) {
			return true
		}
	}
	return false
}

// makesHere reports whether the package calls a New function of packages with that prefix.
func (u *unit) makesHere(prefix string) (found bool) {
	u.eachCall(func(_ inspector.Cursor, call *ast.CallExpr) {
		f := u.callee(call)
		if f != nil && f.Pkg() != nil && strings.HasPrefix(f.Pkg().Path(), prefix) && (f.Name() == "New" || f.Name() == "NewFromConfig") {
			found = true
		}
	})
	return found
}

// allZero reports whether all that the package gives to a field is zero.
func (u *unit) allZero(path, name string) bool {
	seen := false
	for v, values := range u.values {
		if v.Name() != name || v.Pkg() == nil || v.Pkg().Path() != path {
			continue
		}
		for _, value := range values {
			tv := u.info.Types[value]
			if tv.Value == nil || constant.Sign(constant.ToInt(tv.Value)) != 0 {
				return false
			}
			seen = true
		}
	}
	return seen
}

// redisRetries reports whether the client of a call is made in this package and retries.
func (u *unit) redisRetries(call *ast.CallExpr) bool {
	sel, is := ast.Unparen(call.Fun).(*ast.SelectorExpr)
	if !is {
		return false
	}
	values := u.values[u.object(sel.X)]
	if len(values) != 1 {
		return false
	}
	made, is := values[0].(*ast.CallExpr)
	if !is || !u.is(made, "github.com/redis/go-redis.NewClient") || len(made.Args) != 1 {
		return false
	}
	un, is := made.Args[0].(*ast.UnaryExpr)
	if !is || un.Op != token.AND {
		return false
	}
	lit, is := un.X.(*ast.CompositeLit)
	return is && !mentions(lit, regexp.MustCompile(`^MaxRetries$`))
}

// dependencyPerRequest is G120.
func dependencyPerRequest(c *check) {
	tell := func(call *ast.CallExpr, what, where string) {
		if what == "pool" {
			c.report(call, nil, "this pool of connections is made anew %s: each call dials, and a crowd of calls opens a crowd of connections, past any limit of the pool; "+
				"make it once, where the program starts", where)
			return
		}
		c.report(call, nil, "this %s is made anew %s: it never sees more than one call, so it can neither count failures nor limit anything; "+
			"make it once, where the program starts", what, where)
	}
	c.eachCall(func(at inspector.Cursor, call *ast.CallExpr) {
		what := longLived(c, call)
		if what == "" {
			return
		}
		if where := c.perRequest(at, what == "limiter" || what == "pool"); where != "" && !c.escapes(at, 0) {
			tell(call, what, where)
		}
	})
	madeByCall(c, func(_ inspector.Cursor, call *ast.CallExpr, _ *code, made ast.Expr, where string) {
		if inner, is := made.(*ast.CallExpr); is {
			if what := longLived(c, inner); what != "" && what != "limiter" && what != "pool" {
				tell(call, what, where)
			}
		}
	})
}

// longLived says what a call makes that is there for many calls.
func longLived(c *check, call *ast.CallExpr) string {
	switch c.fullName(call) {
	case "github.com/gabion-go/gabion.New", "github.com/gabion-go/gabion.Make":
		return "dependency, with its breaker, budget and bulkhead,"
	case "github.com/sony/gobreaker.NewCircuitBreaker", "github.com/sony/gobreaker.NewTwoStepCircuitBreaker", "github.com/eapache/go-resiliency/breaker.New":
		return "breaker"
	case "golang.org/x/time/rate.NewLimiter":
		return "limiter"
	case "database/sql.Open", "github.com/jackc/pgx/pgxpool.New", "github.com/redis/go-redis.NewClient", "google.golang.org/grpc.NewClient", "google.golang.org/grpc.Dial":
		return "pool"
	}
	return ""
}

var startNames = regexp.MustCompile(`(?i)^(main|run|start|serve|init|new|setup|open|build|make|execute|test|benchmark|example|listen|loop|boot)`)

// perRequest says for what a place runs again: a request, a call, an iteration.
func (c *check) perRequest(at inspector.Cursor, onlyHandlers bool) string {
	return c.perRequestWithin(at, onlyHandlers, 0)
}

func (c *check) perRequestWithin(at inspector.Cursor, onlyHandlers bool, depth int) string {
	for e := range at.Enclosing((*ast.FuncDecl)(nil), (*ast.FuncLit)(nil)) {
		var typ *ast.FuncType
		name := ""
		switch f := e.Node().(type) {
		case *ast.FuncDecl:
			typ, name = f.Type, f.Name.Name
		case *ast.FuncLit:
			typ = f.Type
		}
		if c.isHandlerType(typ) {
			return "for each request"
		}
		if decl, is := e.Node().(*ast.FuncDecl); is && depth < 2 && !onlyHandlers && !decl.Name.IsExported() && len(c.runners[decl]) > 0 && !c.asValue[declared(c.unit, decl)] {
			for _, call := range c.runners[decl] {
				caller, found := c.root.FindNode(call)
				if !found {
					return ""
				}
				if name = c.perRequestWithin(caller, onlyHandlers, depth+1); name == "" {
					break
				}
			}
			if name != "" {
				return name
			}
			name = decl.Name.Name
		}
		if onlyHandlers || name == "" || startNames.MatchString(name) || len(typ.Params.List) == 0 || !isContext(c.typeOf(typ.Params.List[0].Type)) {
			return ""
		}
		return "for each call of " + name
	}
	return ""
}

// escapes reports whether what an expression makes lives longer than the function, as far
// as one can see: it is returned, stored, or given to others.
func (u *unit) escapes(at inspector.Cursor, depth int) bool {
	if depth > 4 {
		return true
	}
	parent := at.Parent()
	switch p := parent.Node().(type) {
	case *ast.ParenExpr, *ast.UnaryExpr, *ast.TypeAssertExpr:
		return u.escapes(parent, depth)
	case *ast.SelectorExpr:
		return false // used at once
	case *ast.CallExpr:
		f := u.callee(p)
		return f == nil || f.Pkg() == nil || !ownWork(f.Pkg().Path())
	case *ast.KeyValueExpr:
		lit := parent.Parent()
		if typeName(u.typeOf(lit.Node().(*ast.CompositeLit))) == "net/http.Client" {
			return u.escapes(lit, depth)
		}
		return true
	case *ast.AssignStmt:
		for i, from := range p.Rhs {
			if from == at.Node() && i < len(p.Lhs) {
				return u.variableEscapes(p.Lhs[i], parent, depth)
			}
		}
	case *ast.ValueSpec:
		if len(p.Names) > 0 && len(p.Values) == 1 {
			return u.variableEscapes(p.Names[0], parent, depth)
		}
	}
	return true
}

// ownWork are packages whose functions don't keep what they are given.
func ownWork(path string) bool {
	path = unversioned(path)
	return path == "github.com/gabion-go/gabion" || path == "github.com/sony/gobreaker"
}

func (u *unit) variableEscapes(to ast.Expr, at inspector.Cursor, depth int) bool {
	id, is := to.(*ast.Ident)
	fn, _, body := enclosing(at)
	if !is || body == nil {
		return true
	}
	obj := u.object(id)
	if !declaredIn(obj, body) {
		return true
	}
	for _, use := range u.uses[obj] {
		if user, _, _ := enclosing(use); user != fn && !u.isWork(user) {
			return true
		}
		if u.isTarget(use) {
			continue
		}
		if u.escapes(use, depth+1) {
			return true
		}
	}
	return false
}

func (u *unit) isTarget(id inspector.Cursor) bool {
	as, is := id.Parent().Node().(*ast.AssignStmt)
	if !is {
		return false
	}
	for _, to := range as.Lhs {
		if to == id.Node() {
			return true
		}
	}
	return false
}

func (u *unit) isWork(fn ast.Node) bool {
	for _, r := range u.regions {
		if r.lit != nil && ast.Node(r.lit) == fn {
			return true
		}
	}
	return false
}
