package gabionvet

import (
	"go/ast"
	"go/types"
	"regexp"
	"slices"

	"golang.org/x/tools/go/ast/inspector"
)

var (
	batchName = regexp.MustCompile(`(?i)batch|bulk|^Put(Events|Records)$`)
	partName  = regexp.MustCompile(`^(Failed|Failures|FailedEntries|FailedEntryCount|FailedRecordCount|FailedPutCount|Unprocessed(Items|Keys)|RejectedRecords|Errors|HasErrors)$`)
)

// partNotRead is G154.
func partNotRead(c *check) {
	for _, as := range every[*ast.AssignStmt](c.unit) {
		call, is := as.Rhs[0].(*ast.CallExpr)
		if !is || len(as.Rhs) != 1 || len(as.Lhs) != 2 || source(as.Lhs[0]) != "_" || !isNamed(call, batchName) {
			continue
		}
		sig, isSig := signature(c.typeOf(call.Fun))
		if !isSig || sig.Results().Len() != 2 || !canFail(sig) {
			continue
		}
		if field := partOf(sig.Results().At(0).Type()); field != "" {
			c.report(call, nil, "%s returns no error when it took some of the batch and refused others, as it does when it is busy, and nothing reads which: those are taken for done, and lost; "+
				"read %s of what it returns, and send those again", source(call.Fun), field)
		}
	}
}

// partOf returns the field of an answer that says which part of a batch has failed.
func partOf(t types.Type) string {
	if p, is := types.Unalias(t).(*types.Pointer); is {
		t = p.Elem()
	}
	fields, is := t.Underlying().(*types.Struct)
	if !is {
		return ""
	}
	for v := range fields.Fields() {
		if partName.MatchString(v.Name()) {
			return v.Name()
		}
	}
	return ""
}

var (
	livePath = regexp.MustCompile(`(?i)/(livez?|liveness|alive)/?$`)
	pingName = regexp.MustCompile(`(?i)^ping`)
)

// livesByOthers is G155.
func livesByOthers(c *check) {
	c.eachCall(func(_ inspector.Cursor, call *ast.CallExpr) {
		if len(call.Args) < 2 || !livePath.MatchString(constantText(c, call.Args[0])) {
			return
		}
		work := c.work(call.Args[1])
		if work == nil {
			return
		}
		for _, asks := range allCalls(c, work.body) {
			sig, is := signature(c.typeOf(asks.Fun))
			if !is || !canFail(sig) || !c.leaves(asks) && !(takesContext(sig) && isNamed(asks, pingName)) {
				continue
			}
			c.report(call, nil, "whether this process lives is made to depend on another one, by %s: when that is down for half a minute every process is killed and comes up cold, all at once, and the outage is longer; "+
				"ask here only whether the process itself goes on, and say in a readiness probe what it needs", source(asks.Fun))
			return
		}
	})
}

// allCalls are the calls that happen when code runs, with those of function literals that it makes.
func allCalls(c *check, code ast.Node) (all []*ast.CallExpr) {
	seen := map[ast.Node]bool{}
	var in func(n ast.Node, depth int)
	in = func(n ast.Node, depth int) {
		for _, call := range calls(n, true) {
			all = append(all, call)
			if t := c.targets[call]; t != nil && !seen[t.node] && depth < farthest {
				seen[t.node] = true
				in(t.body, depth+1)
			}
		}
	}
	in(code, 0)
	return all
}

var (
	marksSeen = regexp.MustCompile(`(?is)^\s*insert\s+(?:ignore\s+)?into\s+\S*(seen|processed|handled|dedup|idempot|inbox|consumed|received)`)
	unmarks   = regexp.MustCompile(`(?is)^\s*(delete\s+from|update)\s+\S*(seen|processed|handled|dedup|idempot|inbox|consumed|received)`)
)

// markedFirst is the part of G140 for a message or event that is written down as seen, by a statement of its own, before its work is done.
func markedFirst(c *check) {
	for _, decl := range c.funcs {
		if decl.Body == nil || !c.looksAt(decl.Pos()) {
			continue
		}
		var mark, work *ast.CallExpr
		for _, at := range reach(c.unit, decl.Body) {
			switch {
			case mark == nil && poolOf(c, at) != nil && marks(c, at, marksSeen):
				mark = at.top
			case mark != nil && work == nil && len(at.path) == 0 && at.top.Pos() > mark.End() && (c.isRemote(at.call) || worksOut(c.unit, at.call)):
				work = at.call
			}
		}
		if mark != nil && work != nil && !takesBack(c, decl) {
			c.report(mark, nil, "this is written down as seen before %s has done its work: when that fails, or the process ends between the two, it comes again and is left out as one that was done; "+
				"write it down in the transaction of the work", source(work.Fun))
		}
	}
}

func marks(c *check, at reached, how *regexp.Regexp) bool {
	return slices.ContainsFunc(statementTexts(c, at), how.MatchString)
}

// takesBack reports whether a function takes the mark back anywhere, also in what it defers.
func takesBack(c *check, decl *ast.FuncDecl) bool {
	return slices.ContainsFunc(allCalls(c, decl.Body), func(call *ast.CallExpr) bool {
		return marks(c, reached{call: call, top: call}, unmarks)
	})
}
