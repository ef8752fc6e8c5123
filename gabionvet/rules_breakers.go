package gabionvet

import (
	"go/ast"
	"go/types"
	"regexp"
	"strings"
)

var (
	breakerType = regexp.MustCompile(`(?i)breaker$`)
	breakerRun  = regexp.MustCompile(`^(Execute|Do|Run|Call)(Context|Ctx|WithContext)?$`)
	openName    = regexp.MustCompile(`(?i)^(Err)?(Too|Circuit|Breaker|State)?_?(Is)?(Open|ManyRequests)(State|Err|Error|Circuit|Breaker)?$|rejected`)
)

// throughBreaker reports whether a call runs what it is given through a breaker.
func throughBreaker(c *check, call *ast.CallExpr) bool {
	f := c.callee(call)
	if f == nil {
		return false
	}
	sig, is := f.Type().(*types.Signature)
	if !is || !canFail(sig) || !breakerRun.MatchString(f.Name()) {
		return false
	}
	if sig.Recv() == nil {
		return f.Pkg() != nil && strings.HasSuffix(unversioned(f.Pkg().Path()), "hystrix-go/hystrix")
	}
	name := typeName(sig.Recv().Type())
	return breakerType.MatchString(name) || strings.HasPrefix(name, "github.com/sony/gobreaker.")
}

// triesOpenBreaker is G143.
func triesOpenBreaker(c *check) {
	for _, r := range c.repeats {
		if r.by != nil && r.by.by.gabion || r.hedge || r.elsewhere() || mentions(r.node, openName) {
			continue
		}
		for _, at := range r.runs {
			if !throughBreaker(c, at.call) || !repeatsWhatever(c, r) {
				continue
			}
			c.report(at.top, nil, "%s goes through a breaker%s and repeats its refusals too: while it is open no attempt can succeed, the caller waits for nothing, and the probes of the half-open breaker are used up at once; "+
				"stop when the error says that the breaker is open", c.loopName(r), through(at))
			break
		}
	}
}

// repeatsWhatever reports whether what is repeated is so after every error.
func repeatsWhatever(c *check, r repeated) bool {
	switch {
	case r.loop != nil:
		return !c.asks(r.loop)
	case r.by != nil && r.by.own != nil:
		return !c.asks(r.by.own) && !c.asks(&retryLoop{stmt: r.body})
	case r.by != nil:
		return !mentions(r.by.call, asksError)
	}
	return !c.asks(&retryLoop{stmt: r.body})
}

// breakerSeesNothing is G144.
func breakerSeesNothing(c *check) {
	for call := range c.callees {
		if !throughBreaker(c, call) || !c.looksAt(call.Pos()) {
			continue
		}
		for _, arg := range call.Args {
			work := c.work(arg)
			if work == nil || c.looksAtStatus(work.body) {
				continue
			}
			if at := answersUnread(c, work); at != nil {
				c.report(at, nil, "an answer of 503 is no error here, so the breaker counts it as a success and never opens while the server refuses everything; "+
					"return an error for a status of 500 and above, from inside of what the breaker runs")
			}
		}
	}
}

// answersUnread returns the call by which work gets an answer that it returns and whose status nothing has read.
func answersUnread(c *check, work *region) *ast.CallExpr {
	for _, at := range reach(c.unit, work.body) {
		for _, s := range at.path {
			if c.looksAtStatus(s.body) {
				return nil
			}
		}
	}
	var found *ast.CallExpr
	own(work.body, func(n ast.Node) {
		ret, is := n.(*ast.ReturnStmt)
		if !is || len(ret.Results) == 0 {
			return
		}
		of := ret.Results[0]
		call, is := ast.Unparen(of).(*ast.CallExpr)
		if v := c.object(of); v != nil && isResponse(v.Type()) && len(c.values[v]) == 1 {
			call, is = c.values[v][0].(*ast.CallExpr)
		}
		if is && call != nil && c.sends(call) && streamed(c, call) != "" {
			found = call
		}
	})
	return found
}
