package gabionvet

import (
	"go/ast"
	"go/constant"
	"go/types"
	"regexp"
)

// words are what errors say for which there is something better to ask.
var words = []struct {
	says *regexp.Regexp
	ask  string
}{
	{regexp.MustCompile(`(?i)cancell?ed`), "errors.Is(err, context.Canceled)"},
	{regexp.MustCompile(`(?i)deadline|time(d )?-?out`), "errors.Is(err, context.DeadlineExceeded), or errors.As with a net.Error and its Timeout"},
	{regexp.MustCompile(`(?i)refused|reset|broken pipe`), "errors.Is(err, syscall.ECONNREFUSED), ECONNRESET or EPIPE"},
	{regexp.MustCompile(`(?i)closed network`), "errors.Is(err, net.ErrClosed)"},
	{regexp.MustCompile(`(?i)no such host`), "errors.As with a *net.DNSError"},
	{regexp.MustCompile(`(?i)\beof\b`), "errors.Is(err, io.EOF), or io.ErrUnexpectedEOF"},
	{regexp.MustCompile(`(?i)no rows`), "errors.Is(err, sql.ErrNoRows)"},
	{regexp.MustCompile(`(?i)deadlock|serializ|duplicate|unique`), "errors.As with the driver's error, and its code"},
	{regexp.MustCompile(`(?i)^\D*(429|5\d\d)\D*$|too many requests|unavailable|bad gateway|internal server`), "the status of the answer"},
}

// wordsOfError is G148.
func wordsOfError(c *check) {
	seen := map[ast.Node]bool{}
	look := func(n ast.Node) {
		if n == nil || seen[n] {
			return
		}
		seen[n] = true
		own(n, func(n ast.Node) {
			if call, is := n.(*ast.CallExpr); is {
				checkWords(c, call)
			}
		})
	}
	for _, r := range c.repeats {
		if r.loop != nil {
			look(r.loop.code())
		}
		for _, at := range r.runs {
			if t := c.targets[at.call]; t != nil && judgesError(c, t) {
				look(t.body)
			}
		}
	}
	for f, decl := range c.funcs {
		sig, is := f.Type().(*types.Signature)
		if is && decl.Body != nil && judgeName.MatchString(f.Name()) && judges(sig) {
			look(decl.Body)
		}
	}
}

var judgeName = regexp.MustCompile(`(?i)retr(y|ia)|tempora|transient|recoverable|again$`)

func judgesError(c *check, t *code) bool {
	if decl, is := t.node.(*ast.FuncDecl); is {
		f := declared(c.unit, decl)
		return f != nil && judges(f.Type().(*types.Signature))
	}
	sig, is := signature(c.typeOf(t.typ))
	return is && judges(sig)
}

// judges reports whether a function takes an error and says yes or no.
func judges(sig *types.Signature) bool {
	if sig.Results().Len() != 1 || !types.Identical(sig.Results().At(0).Type(), types.Typ[types.Bool]) {
		return false
	}
	for v := range sig.Params().Variables() {
		if isError(v.Type()) {
			return true
		}
	}
	return false
}

// checkWords reports a call that looks for words in the text of an error.
func checkWords(c *check, call *ast.CallExpr) {
	if len(call.Args) != 2 || !c.is(call, "strings.Contains", "strings.HasPrefix", "strings.HasSuffix", "strings.EqualFold") || !ofErrorText(c, call.Args[0], 0) {
		return
	}
	for _, from := range append(sources(c.unit, call.Args[1], nil), call.Args[1]) {
		v := c.info.Types[from].Value
		if v == nil || v.Kind() != constant.String {
			continue
		}
		for _, w := range words {
			if text := constant.StringVal(v); w.says.MatchString(text) {
				c.report(call, nil, "whether to try again is decided by the words of an error: %q may stand in an error of another kind, and the next version of what made it may say it in other words, and then nothing is repeated; "+
					"ask %s", text, w.ask)
				return
			}
		}
	}
}

// ofErrorText reports whether an expression is what an error says, or made of it.
func ofErrorText(c *check, e ast.Expr, depth int) (is bool) {
	if e == nil || depth > 2 {
		return false
	}
	ast.Inspect(e, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			sel, isSel := n.Fun.(*ast.SelectorExpr)
			is = is || isSel && sel.Sel.Name == "Error" && len(n.Args) == 0 && isError(c.typeOf(sel.X))
		case *ast.Ident:
			v, isVar := c.info.Uses[n].(*types.Var)
			if isVar && !v.IsField() && !is && isText(v.Type()) {
				for _, value := range c.values[v] {
					is = is || ofErrorText(c, value, depth+1)
				}
			}
		}
		return !is
	})
	return is
}
