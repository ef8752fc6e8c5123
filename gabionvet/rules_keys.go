package gabionvet

import (
	"go/ast"
	"go/types"
	"regexp"
	"strings"

	"golang.org/x/tools/go/ast/inspector"
)

var (
	noBody     = regexp.MustCompile(`^(NoBody|nil)$`)
	keyText    = regexp.MustCompile(`(?i)idempot|request-?id-?key|dedup`)
	harmless   = regexp.MustCompile(`(?i)search|query|graphql|token|oauth|login|auth|lookup|find|list|read|metrics|health|_bulk|validate|check|status|ping|verify|rpc`)
	freshNames = regexp.MustCompile(`^(github\.com/google/uuid\.(New|NewString|NewRandom|NewUUID|NewV[67]|Must)|github\.com/gofrs/uuid\.(NewV[14567]|Must)|` +
		`github\.com/gabion-go/gabion\.NewKey|github\.com/oklog/ulid\.(Make|New|MustNew)|github\.com/rs/xid\.New|github\.com/segmentio/ksuid\.New|` +
		`github\.com/satori/go\.uuid\.NewV[14]|crypto/rand\.Text|time\.Now|github\.com/lithammer/shortuuid\.New|math/rand\.\w+|github\.com/hashicorp/go-uuid\.GenerateUUID|` +
		`github\.com/matoous/go-nanoid\.(New|Must|Generate))$`)
)

// keyNewOnEachAttempt is G112.
func keyNewOnEachAttempt(c *check) {
	for _, r := range c.repeats() {
		for _, call := range calls(r.body, true) {
			key := c.keyGiven(call)
			if key == nil {
				continue
			}
			if fresh := c.freshIn(key, r.node, 0); fresh != nil {
				c.report(key, nil, "%s makes a new idempotency key on every attempt: the server takes the second attempt for another request and does the work twice; "+
					"make the key once, before the first attempt%s", c.loopName(r), c.keyAdvice(r))
			}
		}
	}
	c.eachCall(func(_ inspector.Cursor, call *ast.CallExpr) {
		if by, is := c.retrierOf(call); is && by.gabion {
			c.checkKeyOption(call)
		}
	})
}

func (c *check) keyAdvice(r repeated) string {
	if r.by != nil && r.by.by.gabion {
		return ", with gabion.WithKey, and send gabion.Key(ctx)"
	}
	return ""
}

// checkKeyOption finds gabion.WithKey(gabion.NewKey()) in a loop that calls again: each
// call would be another intent.
func (c *check) checkKeyOption(call *ast.CallExpr) {
	for _, l := range c.loops {
		if !within(l.body, call.Pos()) {
			continue
		}
		for _, arg := range call.Args {
			opt, is := ast.Unparen(arg).(*ast.CallExpr)
			if is && c.is(opt, "github.com/gabion-go/gabion.WithKey") && len(opt.Args) == 1 && c.freshIn(opt.Args[0], l.stmt, 0) != nil {
				c.report(opt, nil, "this loop makes a new idempotency key each time it calls again: the server takes each call for another request and does the work twice; "+
					"make the key once, before the loop")
			}
		}
	}
}

// keyGiven returns the value that a call sets as an idempotency key.
func (u *unit) keyGiven(call *ast.CallExpr) ast.Expr {
	name := calledName(call)
	if name == nil {
		return nil
	}
	switch {
	case (name.Name == "Set" || name.Name == "Add" || name.Name == "SetHeader") && len(call.Args) == 2:
		if tv := u.info.Types[call.Args[0]]; tv.Value != nil && keyText.MatchString(tv.Value.ExactString()) {
			return call.Args[1]
		}
		if obj := u.object(call.Args[0]); obj != nil && keyText.MatchString(obj.Name()) {
			return call.Args[1]
		}
	case (name.Name == "SetIdempotencyKey" || name.Name == "WithIdempotencyKey") && len(call.Args) == 1:
		return call.Args[0]
	}
	return nil
}

// freshIn returns the call by which a value is new each time code runs, if there is one.
func (u *unit) freshIn(e ast.Expr, code ast.Node, depth int) *ast.CallExpr {
	if depth > 3 {
		return nil
	}
	var found *ast.CallExpr
	ast.Inspect(e, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			if found == nil && freshNames.MatchString(u.fullName(n)) && within(code, n.Pos()) {
				found = n
			}
		case *ast.Ident:
			v, is := u.info.Uses[n].(*types.Var)
			if !is || v.IsField() || found != nil {
				return true
			}
			values := u.values[v]
			if len(values) == 1 && values[0] != nil && within(code, values[0].Pos()) && declaredIn(v, code) {
				found = u.freshIn(values[0], code, depth+1)
			}
		}
		return found == nil
	})
	return found
}

// unsafeWithoutKey is G111.
func unsafeWithoutKey(c *check) {
	for _, r := range c.repeats() {
		if r.by != nil && r.by.by.gabion || c.setsKey(r.node) {
			continue
		}
		for _, call := range calls(r.body, false) {
			c.checkUnsafe(r, call)
		}
	}
}

func (c *check) checkUnsafe(r repeated, call *ast.CallExpr) {
	var made *ast.CallExpr // what has the method and the address in it
	switch {
	case c.is(call, "net/http.Post", "net/http.PostForm", "(net/http.Client).Post", "(net/http.Client).PostForm"):
		made = call
	case c.is(call, "(net/http.Client).Do") && len(call.Args) == 1:
		values := c.values[c.object(call.Args[0])]
		if len(values) != 1 {
			return
		}
		m, is := values[0].(*ast.CallExpr)
		if !is || !c.is(m, "net/http.NewRequest", "net/http.NewRequestWithContext") {
			return
		}
		method := c.info.Types[m.Args[len(m.Args)-3]]
		if method.Value == nil || method.Value.ExactString() != `"POST"` && method.Value.ExactString() != `"PATCH"` {
			return
		}
		made = m
	default:
		return
	}
	decl := c.enclosingDecl(call)
	if decl == nil || c.setsKey(decl) || harmless.MatchString(decl.Name.Name) {
		return
	}
	for _, arg := range made.Args {
		if c.saysHarmless(arg) {
			return
		}
	}
	if r.loop != nil && !c.repeatsAnswerless(r.loop, call) {
		return
	}
	c.report(call, nil, "%s repeats a POST without an idempotency key: when only the answer was lost, the server does the work twice, "+
		"such as charging a card; send the same Idempotency-Key with each attempt, and only repeat if the server honours it", c.loopName(r))
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
