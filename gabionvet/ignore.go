package gabionvet

import (
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis"
)

// ignorePrefix begins a comment that says that a finding is no mistake.
const ignorePrefix = "//gabion:ignore"

// An ignore is one such comment.
type ignore struct {
	comment *ast.Comment
	ids     []string
	reason  string
	file    string
	line    int
}

var ruleID = regexp.MustCompile(`^G[0-9]{3}$`)

// readIgnores reads the comments of one file.
func readIgnores(fset *token.FileSet, file *ast.File) (all []*ignore) {
	for _, group := range file.Comments {
		for _, c := range group.List {
			if i := parseIgnore(c); i != nil {
				at := fset.PositionFor(c.Pos(), false)
				i.file, i.line = at.Filename, at.Line
				all = append(all, i)
			}
		}
	}
	return all
}

func parseIgnore(c *ast.Comment) *ignore {
	text, ok := strings.CutPrefix(c.Text, ignorePrefix)
	if !ok || text != "" && text[0] != ' ' && text[0] != '\t' {
		return nil
	}
	words := strings.Fields(text)
	i := &ignore{comment: c}
	if len(words) > 0 {
		i.ids = strings.Split(words[0], ",")
		i.reason = strings.Join(words[1:], " ")
	}
	return i
}

// wrong says what keeps an ignore from counting; "" is nothing.
func (i *ignore) wrong() string {
	switch {
	case len(i.ids) == 0:
		return "names no rule"
	case slices.ContainsFunc(i.ids, func(id string) bool { return !ruleID.MatchString(id) }):
		return "names no rule: " + strings.Join(i.ids, ",") + " is not an id such as G101"
	case i.reason == "" || strings.HasPrefix(i.reason, "//"):
		return "has no reason"
	}
	return ""
}

// ignored returns the comment that answers for a finding: on its line, or alone on the
// line above.
func (u *unit) ignored(id string, at token.Pos) *ignore {
	p := u.fset.PositionFor(at, false)
	for _, i := range u.ignores {
		if i.file == p.Filename && (i.line == p.Line || i.line == p.Line-1) && slices.Contains(i.ids, id) && i.wrong() == "" {
			return i
		}
	}
	return nil
}

func checkIgnores(c *check) {
	for _, i := range c.ignores {
		if why := i.wrong(); why != "" {
			c.report(i.comment, nil, "this comment ignores nothing, since it %s; write %s G101 and why the finding is no mistake here", why, ignorePrefix)
		}
	}
}

// staleIgnores finds the comments that kept no rule from reporting. It judges only
// rules that have run, so ids of gabion lint (G001 to G099) are not its business.
func staleIgnores(pass *analysis.Pass, c *check, rules []rule, analyzers []*analysis.Analyzer) {
	matched := map[*ignore]map[string]bool{}
	for n, a := range analyzers {
		result, _ := pass.ResultOf[a].(*used)
		if result == nil {
			continue
		}
		for _, i := range result.ignores {
			if matched[i] == nil {
				matched[i] = map[string]bool{}
			}
			matched[i][rules[n].id] = true
		}
	}
	for _, i := range c.ignores {
		if i.wrong() != "" {
			continue
		}
		for _, id := range i.ids {
			ran := slices.ContainsFunc(rules, func(r rule) bool { return r.id == id })
			switch {
			case ran && !matched[i][id]:
				c.reportAt(i.comment, "%s finds nothing here any more: remove this ignore", id)
			case !ran && id > "G100":
				c.reportAt(i.comment, "there is no rule %s: remove it from this ignore", id)
			}
		}
	}
}

// reportAt reports what no comment can ignore.
func (c *check) reportAt(n ast.Node, format string, args ...any) {
	if c.looksAt(n.Pos()) {
		c.pass.Report(diagnostic(c.rule.id, n, format, args...))
	}
}
