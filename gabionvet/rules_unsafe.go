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
		if r.elsewhere() || r.by != nil && r.by.by.gabion && !declaresIdempotent(c, r.by.call) || c.setsKey(r.node) {
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
	c.eachCall(func(at inspector.Cursor, call *ast.CallExpr) {
		repeatsUnknown(c, at, call)
		repeatsByClient(c, call)
	})
}

// declaresIdempotent reports whether a call says of its work that it may be done twice.
func declaresIdempotent(c *check, call *ast.CallExpr) bool {
	for _, arg := range call.Args {
		for _, from := range sources(c.unit, arg, nil) {
			if opt, is := from.(*ast.CallExpr); is && c.is(opt, "github.com/gabion-go/gabion.WithIdempotent") {
				return true
			}
		}
	}
	return false
}

// repeatsByClient finds a POST by a client that repeats it by itself.
func repeatsByClient(c *check, call *ast.CallExpr) {
	if !strings.HasPrefix(c.fullName(call), "(github.com/hashicorp/go-retryablehttp.Client).") || c.callee(call).Pkg() == c.pkg ||
		c.allZero("github.com/hashicorp/go-retryablehttp", "RetryMax") || c.sets("github.com/hashicorp/go-retryablehttp", "CheckRetry") {
		return
	}
	at := reached{call: call, top: call}
	if decl := c.enclosingDecl(call); decl != nil && posts(c, at) && !safeWay(c, at) && !c.setsKey(decl) {
		c.report(call, nil, "a retryablehttp.Client repeats a POST without an idempotency key, up to 4 times by default: when only the answer was lost, it is done twice, "+
			"such as charging a card; set a key that the other side honours, or a CheckRetry that says no to a POST")
	}
}

// through says by which function a call is reached.
func through(at reached) string {
	if len(at.path) == 0 {
		return ""
	}
	return ", in " + at.path[len(at.path)-1].name
}

// repeatsBlindly reports whether a call is what is repeated, whatever its error is. Of what stands in the
// loop itself the first is enough, for a timeout may be asked for and repeated.
func repeatsBlindly(c *check, r repeated, at reached) bool {
	switch {
	case r.hedge || r.by != nil && r.by.by.gabion:
		return true
	case r.loop != nil && !c.repeatsAnswerless(r.loop, at.top):
		return false
	case r.loop != nil:
		return len(at.path) == 0 && c.sends(at.call) || !c.asks(r.loop) || asksTimeout(c, r.loop) || asksForAnything(c, r.loop, at)
	case r.by != nil && r.by.own != nil:
		return !c.asks(r.by.own) && !c.asks(&retryLoop{stmt: r.body})
	case r.by == nil: // a function that calls itself
		return !c.asks(&retryLoop{stmt: r.body})
	}
	return len(at.path) == 0 && c.sends(at.call) || !mentions(r.body, asksError)
}

// asksTimeout reports whether a loop repeats what a function of the package says yes to, and that asks for a timeout: it is the
// error after which the work may have been done.
func asksTimeout(c *check, l *retryLoop) bool {
	return slices.ContainsFunc(directCalls(l.code()), func(call *ast.CallExpr) bool {
		t := c.targets[call]
		return t != nil && judgesError(c, t) && judgeName.MatchString(t.name) && mentions(t.body, timeoutName)
	})
}

var timeoutName = regexp.MustCompile(`^(Timeout|DeadlineExceeded|ErrDeadlineExceeded)$`)

// safeWay reports whether the functions by which a call is reached, or that it stands in, speak of
// idempotency or of something that may be done twice.
func safeWay(c *check, at reached) bool {
	for _, s := range at.path {
		if c.setsKey(s.node) || harmless.MatchString(s.name) {
			return true
		}
	}
	decl := c.enclosingDecl(at.top)
	return decl == nil || c.setsKey(decl) || harmless.MatchString(decl.Name.Name)
}

// unsafe says what a call does that must not be done twice.
func (c *check) unsafe(r repeated, at reached) string {
	if what := unsafeStatement(c, at); what != "" && ownTransaction(c, r, at.call) {
		return what
	}
	if f := c.callee(at.call); f != nil && (createsByGRPC(f) || paysByInterface(c, f, at.call)) {
		return f.Name()
	}
	if c.is(at.call, "net/smtp.SendMail") {
		return "a mail"
	}
	if posts(c, at) {
		return "a POST"
	}
	return ""
}

// posts reports whether a call sends a POST that may not be done twice, as far as is known of its request.
func posts(c *check, at reached) bool {
	name := calledName(at.call)
	switch {
	case name == nil:
		return false
	case c.is(at.call, "net/http.Post", "net/http.PostForm") || clientOf(c, at.call) && (name.Name == "Post" || name.Name == "PostForm"):
		return !slices.ContainsFunc(at.call.Args, func(e ast.Expr) bool { return saysHarmless(c, e, at.path) })
	case !clientOf(c, at.call) || len(at.call.Args) != 1 || name.Name != "Do" && name.Name != "RoundTrip":
		return false
	}
	return slices.ContainsFunc(sources(c.unit, at.call.Args[0], at.path), func(e ast.Expr) bool {
		made, is := e.(*ast.CallExpr)
		path := at.path
		if t := c.targets[made]; is && t != nil { // a function of the package makes the request
			path = append(path[:len(path):len(path)], step{t, made})
			made = onlyRequest(c, t.node)
			is = made != nil && !c.setsKey(t.node)
		}
		return is && makesPost(c, made, path)
	})
}

// clientOf reports whether a call is of a method of an HTTP client.
func clientOf(c *check, call *ast.CallExpr) bool {
	name := c.fullName(call)
	return slices.ContainsFunc([]string{"(net/http.Client).", "(net/http.RoundTripper).", "(net/http.Transport).", "(github.com/hashicorp/go-retryablehttp.Client)."}, func(of string) bool {
		return strings.HasPrefix(name, of)
	})
}

// makesPost reports whether a call makes a request that is a POST, which neither its function nor those that give
// it the method call harmless.
func makesPost(c *check, made *ast.CallExpr, path []step) bool {
	if !c.is(made, "net/http.NewRequest", "net/http.NewRequestWithContext", "github.com/hashicorp/go-retryablehttp.NewRequest", "github.com/hashicorp/go-retryablehttp.NewRequestWithContext") || len(made.Args) < 3 {
		return false
	}
	method := made.Args[len(made.Args)-3]
	for _, e := range append(sources(c.unit, method, path), method) {
		text := constantText(c, e)
		if text != "POST" && text != "PATCH" {
			continue
		}
		giver := made
		if at, found := c.root.FindNode(e); found {
			for call := range at.Enclosing((*ast.CallExpr)(nil)) {
				giver = call.Node().(*ast.CallExpr)
				break
			}
		}
		decl := c.enclosingDecl(e)
		if decl != nil && (c.setsKey(decl) || harmless.MatchString(decl.Name.Name)) {
			continue
		}
		says := func(e ast.Expr) bool { return saysHarmless(c, e, path) }
		if !slices.ContainsFunc(made.Args, says) && !slices.ContainsFunc(giver.Args, says) {
			return true
		}
	}
	return false
}

// onlyRequest returns the call by which a function makes a request, if it makes one.
func onlyRequest(c *check, fn ast.Node) (found *ast.CallExpr) {
	for _, call := range calls(fn, true) {
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
func unsafeStatement(c *check, at reached) string {
	f := c.callee(at.call)
	if f == nil || !statement.MatchString(f.Name()) || !canFailLate(f) {
		return ""
	}
	args := at.call.Args
	if sel, is := ast.Unparen(at.call.Fun).(*ast.SelectorExpr); is && typeName(c.typeOf(sel.X)) == "database/sql.Stmt" {
		for _, from := range sources(c.unit, sel.X, at.path) {
			if prepare, is := from.(*ast.CallExpr); is {
				args = append(args[:len(args):len(args)], prepare.Args...)
			}
		}
	}
	var texts []ast.Expr
	for _, arg := range args {
		if b, is := c.typeOf(arg).(*types.Basic); is && b.Info()&types.IsString != 0 {
			texts = append(append(texts, arg), sources(c.unit, arg, at.path)...)
		}
	}
	for _, e := range texts {
		text := constantText(c, e)
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

// canFailLate reports whether a method can fail, or returns a row that can.
func canFailLate(f *types.Func) bool {
	sig := f.Type().(*types.Signature)
	return sig.Recv() != nil && (canFail(sig) || strings.HasPrefix(f.Name(), "QueryRow"))
}

// ownTransaction reports whether a statement is of no transaction, or of one that is begun anew in what
// is repeated. Others are G123's.
func ownTransaction(c *check, r repeated, call *ast.CallExpr) bool {
	sel, is := ast.Unparen(call.Fun).(*ast.SelectorExpr)
	if !is || !isTransaction(c.typeOf(sel.X)) {
		return is
	}
	runs := r.runs
	if r.by != nil && r.by.own != nil { // the helper begins it
		runs = append(runs[:len(runs):len(runs)], reach(c.unit, r.by.own.body)...)
	}
	return slices.ContainsFunc(runs, func(at reached) bool {
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
	return !hasKeyField(fields)
}

var pays = regexp.MustCompile(`^(Charge|Capture|Pay|Payout|Refund|Transfer|Deposit|Withdraw|Debit|Credit|Purchase|Book|TopUp|(Create|Place|Submit|Send)(Order|Payment|Charge|Transfer|Payout|Booking|Refund|Invoice|Mail|Email|SMS))([A-Z]|$)`)

// paysByInterface reports whether a method of an interface of the package moves money or goods, by its name, and takes nothing
// by which the other side would know the second call.
func paysByInterface(c *check, f *types.Func, call *ast.CallExpr) bool {
	sig, is := f.Type().(*types.Signature)
	if !is || sig.Recv() == nil || !types.IsInterface(sig.Recv().Type()) || f.Pkg() != c.pkg || c.targets[call] != nil || !pays.MatchString(f.Name()) || !canFail(sig) {
		return false
	}
	for v := range sig.Params().Variables() {
		t := v.Type()
		if p, is := t.Underlying().(*types.Pointer); is {
			t = p.Elem()
		}
		fields, is := t.Underlying().(*types.Struct)
		if keyParam.MatchString(v.Name()) || is && hasKeyField(fields) {
			return false
		}
	}
	return !slices.ContainsFunc(call.Args, c.setsKeyIn)
}

var keyParam = regexp.MustCompile(`(?i)key|idempot|dedup|request_?id|nonce|ref$|reference|^id$|intent|uuid|tx_?id`)

func hasKeyField(fields *types.Struct) bool {
	for v := range fields.Fields() {
		if keyParam.MatchString(v.Name()) {
			return true
		}
	}
	return false
}

func (c *check) setsKeyIn(e ast.Expr) bool { return c.setsKey(e) }

// repeatsAnswerless reports whether the call is what the loop repeats after an error.
func (c *check) repeatsAnswerless(l *retryLoop, call *ast.CallExpr) bool {
	return slices.Contains(l.attempts, call)
}

// saysHarmless reports whether the address or body of a POST, or what they are made of, speaks of something
// that may be done twice, such as a search.
func saysHarmless(c *check, e ast.Expr, path []step) (found bool) {
	for _, e := range append(sources(c.unit, e, path), e) {
		ast.Inspect(e, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.Ident:
				found = found || harmless.MatchString(n.Name) && n.Name != "NewReader"
			case *ast.BasicLit:
				found = found || harmless.MatchString(n.Value) && !strings.HasPrefix(n.Value, `"application/`)
			}
			return !found
		})
	}
	return found
}

// setsKey reports whether code speaks of idempotency at all.
func (u *unit) setsKey(n ast.Node) bool {
	return has(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Ident:
			return keyText.MatchString(n.Name) && n.Name != "WithIdempotent"
		case *ast.BasicLit:
			return keyText.MatchString(n.Value)
		case *ast.SelectorExpr: // gabionhttp.HeaderKey
			if v := u.info.Types[n].Value; v != nil && v.Kind() == constant.String {
				return keyText.MatchString(constant.StringVal(v))
			}
		}
		return false
	})
}
