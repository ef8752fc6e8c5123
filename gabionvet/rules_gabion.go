package gabionvet

import (
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"regexp"
	"slices"
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

func (u *unit) usesObject(n ast.Node, obj types.Object) bool {
	return has(n, func(id *ast.Ident) bool { return u.info.Uses[id] == obj })
}

// takesTime reports whether code calls something over a network, or sleeps.
func (u *unit) takesTime(n ast.Node) bool {
	return slices.ContainsFunc(calls(n, true), func(call *ast.CallExpr) bool {
		return u.leaves(call) || u.is(call, "time.Sleep") || u.remote[u.callee(call)]
	})
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
	if t == nil {
		return ""
	}
	loops := func(t *code) *retryLoop {
		for _, l := range c.loops {
			if _, is := c.helpers[t.node]; !is && l.fn == t.node {
				return l
			}
		}
		return nil
	}
	if l := loops(t); l != nil {
		return t.name + " has a loop that retries " + called(l.attempts)
	}
	for _, at := range reach(c.unit, t.body) { // as for each of several things
		if inner := c.targets[at.call]; inner != nil && len(at.path) < 2 {
			if l := loops(inner); l != nil && len(l.waits) > 0 {
				return inner.name + ", which " + t.name + " calls, has a loop that retries " + called(l.attempts)
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
	return slices.ContainsFunc(u.files, func(f *ast.File) bool { return mentions(f, re) })
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
		if where := c.perRequest(at, what == "limiter" || what == "pool", 0); where != "" && !c.escapes(at, 0) {
			tell(call, what, where)
		}
	})
	madeByCall(c, func(call *ast.CallExpr, _ *code, made ast.Expr, where string) {
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
