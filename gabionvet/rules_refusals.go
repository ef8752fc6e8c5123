package gabionvet

import (
	"go/ast"
	"go/token"
	"regexp"
	"slices"
)

// repeatsRefusals is G126.
func repeatsRefusals(c *check) {
	for _, l := range c.loops {
		if !c.looksAtStatus(l.body) || c.treatsRefusals(l) {
			continue
		}
		notFound := &walk{u: c.unit, errs: l.errs, oks: l.oks, flag: l.statusFlag(c.unit), status: 404}
		down := &walk{u: c.unit, errs: l.errs, oks: l.oks, flag: l.statusFlag(c.unit), status: 503}
		gone, busy := notFound.loop(l.stmt, l.label), down.loop(l.stmt, l.label)
		if notFound.lost || gone.leaveBefore() || !gone.round.has(ok, marked, 0) || !busy.round.has(ok, marked, 0) {
			continue
		}
		c.report(l.attempts[0], nil, "this loop repeats a 404 and a 401 as it repeats a 503: the request stays wrong, so the same answer comes each time, and the server has the load; "+
			"return at once when the status is from 400 to 499, except 408, 425 and 429")
	}
	for _, r := range c.repeats {
		if r.hedge || r.elsewhere() || r.by != nil && r.by.by.gabion || c.tellsApart(r) {
			continue
		}
		for _, at := range r.runs {
			in := r.body
			if n := len(at.path); n > 0 {
				in = at.path[n-1].body
			} else if r.loop != nil {
				continue
			}
			if c.sends(at.call) && refusesAll(c, in) {
				c.report(at.top, nil, "%s repeats a 404 and a 401 as it repeats a 503, for both are errors like any other%s: the request stays wrong, so the same answer comes each time, and the server has the load; "+
					"tell the statuses from 400 to 499 apart, except 408, 425 and 429, and do not repeat them", c.loopName(r), through(at))
			}
		}
	}
}

var givesUp = regexp.MustCompile(`(?i)permanent|unrecoverable|^Stop|retryable|abort|giveup|fatal|terminal`)

// tellsApart reports whether what is repeated asks its error, or says of it whether to go on.
func (c *check) tellsApart(r repeated) bool {
	if mentions(r.body, givesUp) || c.asks(&retryLoop{stmt: r.body}) {
		return true
	}
	switch {
	case r.loop != nil:
		return c.asks(r.loop) || c.looksAtStatus(r.loop.body)
	case r.by == nil:
		return false
	case r.by.own != nil:
		return c.asks(r.by.own)
	}
	return slices.ContainsFunc(r.by.call.Args, func(arg ast.Expr) bool { return mentions(arg, retryIf) })
}

var retryIf = regexp.MustCompile(`(?i)retryif|retryable|onretry|classif`)

// refusesAll reports whether code returns an error for a 404 and for a 503 alike, and says so of no status apart.
func refusesAll(c *check, body *ast.BlockStmt) (all bool) {
	own(body, func(n ast.Node) {
		s, is := n.(*ast.IfStmt)
		if !is || !c.looksAtStatus(s.Cond) {
			return
		}
		holds := func(status int) bool {
			w := &walk{u: c.unit, status: status}
			yes, no := w.cond(s.Cond, state{}.set())
			return yes != 0 && no == 0
		}
		all = holds(404) && holds(401) && holds(503) && !holds(200) && returnsError(c, s.Body) && !mentions(s.Body, givesUp)
	})
	return all && !mentions(body, givesUp)
}

// returnsError reports whether a block ends with the return of a plain error.
func returnsError(c *check, b *ast.BlockStmt) bool {
	if len(b.List) == 0 {
		return false
	}
	ret, is := b.List[len(b.List)-1].(*ast.ReturnStmt)
	if !is || len(ret.Results) == 0 {
		return false
	}
	call, is := ret.Results[len(ret.Results)-1].(*ast.CallExpr)
	return is && c.is(call, "fmt.Errorf", "errors.New")
}

// leaveBefore reports whether an answer leaves the loop on some path, other than by its bound or as the context has ended.
func (e exit) leaveBefore() bool { return e.out.has(ok, 0, waited) }

// statusFlag marks paths that have seen the status, and those on which a context has ended.
func (l *retryLoop) statusFlag(u *unit) func(ast.Node) uint8 {
	return func(n ast.Node) uint8 {
		if e, is := n.(ast.Expr); is && u.isStatus(e) {
			return marked
		}
		if r, is := n.(*ast.UnaryExpr); is && r.Op == token.ARROW && ofContext(u, r.X, "Done") != nil {
			return waited
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
