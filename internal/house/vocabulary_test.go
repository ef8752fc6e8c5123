package house

import (
	"fmt"
	"go/ast"
	"go/token"
	"io/fs"
	"regexp"
	"strconv"
	"testing"
)

// A vocabulary is a closed set of words that metrics, logs, the page and the
// documents share: the constants of one type in package policy.
type vocabulary struct {
	of   string // the type
	page string // the document with a heading for each word; empty means none
}

// A word is one constant of a vocabulary.
type word struct {
	name string
	text string
	pos  token.Pos
}

var snakeCase = regexp.MustCompile(`^[a-z][a-z0-9]*(_[a-z0-9]+)*$`)

// unwired finds words that are not wired everywhere.
func (v vocabulary) unwired(fsys fs.FS) (found []string, err error) {
	t, err := parse(fsys)
	if err != nil {
		return nil, err
	}
	words := v.words(t)
	if len(words) == 0 {
		return []string{"policy: no constants of type " + v.of + ": has it moved?"}, nil
	}
	seen := map[string]string{}
	for _, w := range words {
		switch {
		case w.text == "":
			found = append(found, t.at(w.pos, "%s has no text", w.name))
			continue
		case !snakeCase.MatchString(w.text):
			found = append(found, t.at(w.pos, "%s: %q is not snake_case", w.name, w.text))
		case seen[w.text] != "":
			found = append(found, t.at(w.pos, "%s and %s are both %q", w.name, seen[w.text], w.text))
		}
		seen[w.text] = w.name
	}
	found = append(found, v.copied(t, words)...)
	missing, err := v.undescribed(fsys, t, words)
	return append(found, missing...), err
}

// words finds the constants by their declaration and their texts in the table
// (a composite literal with the constants as keys) or the switch that names
// them.
func (v vocabulary) words(t *tree) (all []word) {
	texts := map[string]string{}
	for _, p := range t.packs {
		if p.dir != "policy" {
			continue
		}
		for _, file := range p.code() {
			all = append(all, constants(file, v.of)...)
			collectTexts(file, texts)
		}
	}
	for i := range all {
		all[i].text = texts[all[i].name]
	}
	return all
}

func constants(file source, of string) (all []word) {
	for _, decl := range file.ast.Decls {
		d, ok := decl.(*ast.GenDecl)
		if !ok || d.Tok != token.CONST {
			continue
		}
		for _, v := range values(d) {
			if id, ok := v.of.(*ast.Ident); ok && id.Name == of && ast.IsExported(v.name) {
				all = append(all, word{name: v.name, pos: v.pos})
			}
		}
	}
	return all
}

func collectTexts(file source, texts map[string]string) {
	ast.Inspect(file.ast, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.KeyValueExpr:
			if text, ok := literal(n.Value); ok {
				note(texts, n.Key, text)
			}
		case *ast.CaseClause:
			if text, ok := returned(n); ok && len(n.List) == 1 {
				note(texts, n.List[0], text)
			}
		}
		return true
	})
}

func note(texts map[string]string, key ast.Expr, text string) {
	if id, ok := key.(*ast.Ident); ok {
		texts[id.Name] = text
	}
}

func returned(c *ast.CaseClause) (string, bool) {
	if len(c.Body) != 1 {
		return "", false
	}
	ret, ok := c.Body[0].(*ast.ReturnStmt)
	if !ok || len(ret.Results) != 1 {
		return "", false
	}
	return literal(ret.Results[0])
}

func literal(expr ast.Expr) (string, bool) {
	lit, ok := expr.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return "", false
	}
	text, err := strconv.Unquote(lit.Value)
	return text, err == nil
}

// copied finds words that another package declares once more as constants of its own:
// each has one name, in policy.
func (v vocabulary) copied(t *tree, words []word) (found []string) {
	for _, p := range t.packs {
		if p.dir == "policy" || p.internal() {
			continue
		}
		for _, file := range p.code() {
			for _, decl := range file.ast.Decls {
				if d, ok := decl.(*ast.GenDecl); ok && d.Tok == token.CONST {
					found = append(found, copies(t, d, words)...)
				}
			}
		}
	}
	return found
}

func copies(t *tree, d *ast.GenDecl, words []word) (found []string) {
	for _, c := range values(d) {
		for _, w := range words {
			if c.value == "policy."+w.name && ast.IsExported(c.name) {
				found = append(found, t.at(c.pos, "%s is a copy of policy.%s", c.name, w.name))
			}
		}
	}
	return found
}

// undescribed finds words without a heading on their page. The zero word is
// free.
func (v vocabulary) undescribed(fsys fs.FS, t *tree, words []word) (found []string, err error) {
	if v.page == "" || missing(fsys, "docs") {
		return nil, nil
	}
	text, err := fs.ReadFile(fsys, v.page)
	if err != nil {
		return []string{fmt.Sprintf("%s is missing", v.page)}, nil //nolint:nilerr // that is the finding
	}
	anchors := parseMarkdown(string(text)).anchors
	for _, w := range words[1:] {
		if !anchors[w.text] {
			found = append(found, t.at(w.pos, "%s: %s has no heading %q", w.name, v.page, w.text))
		}
	}
	return found, nil
}

func TestReasonsAreWiredEverywhere(t *testing.T) {
	reasons := vocabulary{"Reason", "docs/reasons.md"}
	keep(t, reasons.unwired, `A Reason is one word everywhere: give it a text in policy/reason.go, and a heading with that text in docs/reasons.md (what
it means, whether the work may have happened, what to do). Its one name is the constant in policy.`)

	const code = "package policy\ntype Reason uint8\nconst (\n\tNone Reason = iota\n\tOpen\n\tFull\n\tend\n)\n"
	const table = "var texts = [...]string{None: \"ok\", Open: \"open\", Full: \"bulkhead_full\"}\n"
	const page = "# Reasons\n\n## open\n\n### bulkhead_full\n"
	prove(t, reasons.unwired, []specimen{
		{"text and heading is fine", map[string]string{"policy/reason.go": code + table, "docs/reasons.md": page}, nil},
		{"no documents yet", map[string]string{"policy/reason.go": code + table}, nil},
		{"texts by switch", map[string]string{
			"policy/reason.go": code + "func (r Reason) String() string {\nswitch r {\ncase Open: return \"open\"\ncase Full: return \"full\"\n}\nreturn \"\"\n}",
		}, []string{"None has no text"}},
		{"no text, a text twice, a text with blanks", map[string]string{
			"policy/reason.go": code + "var texts = [...]string{None: \"ok\", Open: \"ok\"}",
		}, []string{"Open and None are both", "Full has no text"}},
		{"a text that no metric can carry", map[string]string{
			"policy/reason.go": code + "var texts = [...]string{None: \"ok\", Open: \"Open\", Full: \"bulkhead full\"}",
		}, []string{`"Open" is not`, `"bulkhead full" is not`}},
		{"a heading is missing", map[string]string{
			"policy/reason.go": code + table, "docs/reasons.md": "## open\n\nbulkhead_full\n\n```\n## bulkhead_full\n```\n",
		}, []string{`policy/reason.go:6: Full: docs/reasons.md has no heading "bulkhead_full"`}},
		{"the page is missing", map[string]string{"policy/reason.go": code + table, "docs/other.md": ""}, []string{"docs/reasons.md is missing"}},
		{"a second name for one", map[string]string{
			"policy/reason.go": code + table, "gabion.go": "package gabion\nconst Refused = policy.Open",
		}, []string{"gabion.go:2: Refused is a copy of policy.Open"}},
		{"the type is gone", map[string]string{"policy/reason.go": "package policy"}, []string{"no constants of type Reason"}},
	})
}

func TestEventKindsAreWiredEverywhere(t *testing.T) {
	kinds := vocabulary{of: "Kind"}
	if !missing(home(), "docs/events.md") {
		kinds.page = "docs/events.md"
	}
	keep(t, kinds.unwired, `An event Kind is one word everywhere: give it a text in policy and, if there is one, a heading in docs/events.md.`)
}
