package gabionvet

import "go/ast"

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
		if e, is := n.(ast.Expr); is && u.isStatus(e) {
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
