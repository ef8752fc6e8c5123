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

var (
	noBody     = regexp.MustCompile(`^(NoBody|nil)$`)
	keyText    = regexp.MustCompile(`(?i)idempot|request-?id-?key|dedup|client_?(request_?)?token|paypal-request-id`)
	harmless   = regexp.MustCompile(`(?i)search|query|quote|estimate|preview|graphql|token|oauth|login|auth|lookup|find|list|read|metrics|health|_bulk|validate|check|status|ping|verify|rpc`)
	freshNames = regexp.MustCompile(`^(github\.com/google/uuid\.(New|NewString|NewRandom|NewUUID|NewV[67]|Must)|github\.com/gofrs/uuid\.(NewV[14567]|Must)|` +
		`github\.com/gabion-go/gabion\.NewKey|github\.com/oklog/ulid\.(Make|New|MustNew)|github\.com/rs/xid\.New|github\.com/segmentio/ksuid\.New|` +
		`github\.com/satori/go\.uuid\.NewV[14]|crypto/rand\.(Text|Int)|time\.Now|github\.com/lithammer/shortuuid\.New|math/rand\.\w+|github\.com/hashicorp/go-uuid\.GenerateUUID|` +
		`github\.com/matoous/go-nanoid\.(New|Must|Generate))$`)
)

// keyNewOnEachAttempt is G112.
func keyNewOnEachAttempt(c *check) {
	for _, r := range c.repeats {
		checkKeys(c, r, &code{node: r.node, body: r.body}, nil)
		for _, at := range r.runs {
			if t := c.targets[at.call]; t != nil && len(at.path) < farthest && !within(r.node, t.node.Pos()) {
				checkKeys(c, r, t, at.top)
				checkKeyGiven(c, r, at, t)
			}
		}
	}
	c.eachCall(func(_ inspector.Cursor, call *ast.CallExpr) {
		if by, is := c.retrierOf(call); is && by.gabion {
			c.checkKeyOption(call)
		}
	})
}

// checkKeys reports the keys that are given and new in code, which is repeated, or reached by a call
// of what is repeated.
func checkKeys(c *check, r repeated, in *code, by *ast.CallExpr) {
	if mentions(r.node, takenAlready) {
		return // a name that is taken is tried anew
	}
	for _, key := range keysGiven(c.unit, in.body) {
		if c.freshIn(key, in.node, 0) == nil && (r.loop == nil || by != nil || !numbered(c, key, r.loop, 0)) || by != nil && ifMissing(c, key) {
			continue
		}
		where, place := ast.Node(key), ""
		if by != nil {
			where, place = by, " in "+in.name
		}
		c.report(where, nil, "%s makes a new idempotency key on every attempt%s: the server takes the second attempt for another request and does the work twice; "+
			"make the key once, before the first attempt%s", c.loopName(r), place, c.keyAdvice(r))
	}
}

// checkKeyGiven reports a key that a function of the package is given as an argument, and that is new in what is repeated.
func checkKeyGiven(c *check, r repeated, at reached, t *code) {
	for _, key := range keysGiven(c.unit, t.body) {
		node, i, is := parameterOf(c.unit, key)
		if !is || node != t.node || i >= len(at.call.Args) || ifMissing(c, key) {
			continue
		}
		in := r.node
		if n := len(at.path); n > 0 {
			in = at.path[n-1].node
		}
		if c.freshIn(at.call.Args[i], in, 0) != nil {
			c.report(at.call, nil, "%s makes a new idempotency key on every attempt, which %s sends: the server takes the second attempt for another request and does the work twice; "+
				"make the key once, before the first attempt%s", c.loopName(r), t.name, c.keyAdvice(r))
		}
	}
}

var takenAlready = regexp.MustCompile(`(?i)already_?exists|exists$|taken$|collision`)

// ifMissing reports whether a key is given under a condition, as where a request has none yet. What is asked of an error or of the
// request's method says nothing of that.
func ifMissing(c *check, key ast.Expr) bool {
	at, found := c.root.FindNode(key)
	if !found {
		return true
	}
	for e := range at.Enclosing((*ast.IfStmt)(nil)) {
		if cond := e.Node().(*ast.IfStmt).Cond; !mentions(cond, ofCall) || mentions(cond, keyText) || asksEmpty(c, cond) {
			return true
		}
	}
	return false
}

// asksEmpty reports whether a condition asks whether some text is empty.
func asksEmpty(c *check, cond ast.Expr) (asks bool) {
	ast.Inspect(cond, func(n ast.Node) bool {
		e, is := n.(ast.Expr)
		if !is {
			return true
		}
		v := c.info.Types[e].Value
		asks = asks || v != nil && v.Kind() == constant.String && constant.StringVal(v) == ""
		if call, is := n.(*ast.CallExpr); is {
			id := calledName(call)
			asks = asks || id != nil && id.Name == "len"
		}
		return !asks
	})
	return asks
}

var ofCall = regexp.MustCompile(`^(err|[mM]ethod|Method(Post|Put|Patch))$`)

// numbered reports whether a value has the number of the attempt in it.
func numbered(c *check, e ast.Expr, l *retryLoop, depth int) (found bool) {
	ast.Inspect(e, func(n ast.Node) bool {
		id, is := n.(*ast.Ident)
		if !is || found || depth > 2 {
			return !found
		}
		v, is := c.info.Uses[id].(*types.Var)
		if !is || v.IsField() {
			return true
		}
		b, is := v.Type().Underlying().(*types.Basic)
		if found = is && b.Info()&types.IsInteger != 0 && c.changesIn(v, l.code()); found || !declaredIn(v, l.body) {
			return !found
		}
		for _, value := range c.values[v] {
			found = found || value != nil && numbered(c, value, l, depth+1)
		}
		return !found
	})
	return found
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
			if is && c.is(opt, "github.com/gabion-go/gabion.WithKey") && len(opt.Args) == 1 && c.freshIn(opt.Args[0], l.code(), 0) != nil {
				c.report(opt, nil, "this loop makes a new idempotency key each time it calls again: the server takes each call for another request and does the work twice; "+
					"make the key once, before the loop")
			}
		}
	}
}

// keysGiven returns the values that code gives as idempotency keys: as a header, an argument, or a field.
func keysGiven(u *unit, body *ast.BlockStmt) (keys []ast.Expr) {
	pay := slices.ContainsFunc(directCalls(body), func(call *ast.CallExpr) bool { return isNamed(call, pays) })
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			if key := u.keyGiven(n); key != nil {
				keys = append(keys, key)
			}
		case *ast.KeyValueExpr:
			tv := u.info.Types[n.Key]
			if id, is := n.Key.(*ast.Ident); is && (keyText.MatchString(id.Name) || pay && payKey.MatchString(id.Name)) || tv.Value != nil && keyText.MatchString(tv.Value.ExactString()) {
				keys = append(keys, n.Value)
			}
		case *ast.AssignStmt:
			for i, to := range n.Lhs {
				sel, is := to.(*ast.SelectorExpr)
				if len(n.Lhs) == len(n.Rhs) && (holdsKey(u, to) || pay && is && payKey.MatchString(sel.Sel.Name)) {
					keys = append(keys, n.Rhs[i])
				}
			}
		}
		return true
	})
	return keys
}

// payKey are the names of a field by which who is asked to pay knows the second call.
var payKey = regexp.MustCompile(`^(Key|Ref|Reference|Nonce|(Request|Payment|Transfer|Transaction|Order|Charge|Refund|Intent|Booking|Client)(ID|Id|Ref|Reference|Key))$`)

// holdsKey reports whether a field, or an element of a map, is for an idempotency key.
func holdsKey(u *unit, to ast.Expr) bool {
	switch to := to.(type) {
	case *ast.SelectorExpr:
		return keyText.MatchString(to.Sel.Name)
	case *ast.IndexExpr:
		tv := u.info.Types[to.Index]
		return tv.Value != nil && keyText.MatchString(tv.Value.ExactString())
	}
	return false
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
	if sig, is := signature(u.typeOf(call.Fun)); is {
		for i := range min(sig.Params().Len(), len(call.Args)) {
			if p := sig.Params().At(i); isText(p.Type()) && (keyText.MatchString(p.Name()) || bareKey.MatchString(p.Name()) && (pays.MatchString(name.Name) || creates.MatchString(name.Name))) {
				return call.Args[i]
			}
		}
	}
	return nil
}

// bareKey are the names of a parameter by which who is asked to create or to pay knows the second call.
var bareKey = regexp.MustCompile(`(?i)^(key|ref|reference|(order|payment|transfer|charge|refund|booking|transaction|tx)_?(id|ref|reference|key))$`)

func isText(t types.Type) bool {
	b, is := t.Underlying().(*types.Basic)
	return is && b.Info()&types.IsString != 0
}

// freshIn returns the call by which a value is new each time code runs, if there is one: in its own
// expression, in what a variable got, or in what a function of the package returns.
func (u *unit) freshIn(e ast.Expr, code ast.Node, depth int) (found *ast.CallExpr) {
	if e == nil || depth > farthest {
		return nil
	}
	ast.Inspect(e, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			return false
		case *ast.CallExpr:
			switch {
			case found != nil || !within(code, n.Pos()):
			case isFresh(u, n), hasTime(u, n, code):
				found = n
			case u.targets[n] != nil && freshResult(u, u.targets[n], depth+1):
				found = n
			}
		case *ast.Ident:
			v, is := u.info.Uses[n].(*types.Var)
			if !is || v.IsField() || found != nil || !declaredIn(v, code) {
				return true
			}
			for _, value := range u.values[v] {
				if found == nil && value != nil && within(code, value.Pos()) && !mentionsObject(u, value, v) {
					found = u.freshIn(value, code, depth+1)
				}
			}
			if found == nil {
				found = filled(u, v)
			}
		}
		return found == nil
	})
	return found
}

// freshResult reports whether what a function returns first is new each time.
func freshResult(u *unit, t *code, depth int) bool {
	return has(t.body, func(ret *ast.ReturnStmt) bool {
		return len(ret.Results) > 0 && u.freshIn(ret.Results[0], t.node, depth) != nil
	})
}

var generates = regexp.MustCompile(`(?i)^(new|gen|generate|next|make|random)_?(idempotency)?_?(key|id|uuid|token|nonce)$`)

// isFresh reports whether a call returns something else each time. The time does, unless all that
// is taken of it is a day or so.
func isFresh(u *unit, call *ast.CallExpr) bool {
	if id := calledName(call); id != nil && len(call.Args) == 0 && u.targets[call] == nil && generates.MatchString(id.Name) {
		return true
	}
	if !freshNames.MatchString(u.fullName(call)) {
		return false
	}
	if !u.is(call, "time.Now") {
		return true
	}
	at, found := u.root.FindNode(call)
	if !found {
		return false
	}
	for { // time.Now().UTC().UnixNano()
		sel, is := at.Parent().Node().(*ast.SelectorExpr)
		if !is {
			return false
		}
		at = at.Parent().Parent()
		outer, is := at.Node().(*ast.CallExpr)
		if !is {
			return false
		}
		switch sel.Sel.Name {
		case "UTC", "Local", "In", "Add":
		case "Unix", "UnixNano", "UnixMilli", "UnixMicro", "Nanosecond", "String":
			return true
		case "Format":
			tv := u.info.Types[outer.Args[0]]
			return tv.Value != nil && strings.Contains(tv.Value.ExactString(), "05")
		default:
			return false
		}
	}
}

// filled returns the call that fills a variable with random bytes.
func filled(u *unit, v *types.Var) *ast.CallExpr {
	for _, use := range u.uses[v] {
		for e := range use.Enclosing((*ast.CallExpr)(nil)) {
			if call := e.Node().(*ast.CallExpr); u.is(call, "crypto/rand.Read", "math/rand.Read", "io.ReadFull") && mentions(call, randomName) {
				return call
			}
			break
		}
	}
	return nil
}
