package house

import (
	"fmt"
	"go/ast"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

const (
	glossaryPage  = "docs/glossary.md"
	glossaryLimit = 30
)

var glossaryEntry = regexp.MustCompile(`^\| \*\*([^*]+)\*\* \| (.*) \|$`)

// unused finds words of the glossary that no exported name has, and too many words.
// An entry with "(prose only)" needs no name.
func unused(fsys fs.FS) (found []string, err error) {
	t, err := parse(fsys)
	if err != nil {
		return nil, err
	}
	text, err := fs.ReadFile(fsys, glossaryPage)
	if err != nil {
		return []string{glossaryPage + " is missing"}, nil //nolint:nilerr // that is the finding
	}
	used := wordsOfAPI(t)
	entries := 0
	for line := range strings.Lines(string(text)) {
		entry := glossaryEntry.FindStringSubmatch(strings.TrimSpace(line))
		if entry == nil {
			continue
		}
		entries++
		if strings.Contains(entry[2], "(prose only)") {
			continue
		}
		for w := range strings.FieldsSeq(entry[1]) {
			if !used[w] && !used[w+"s"] {
				found = append(found, fmt.Sprintf("%s: no exported name has the word %q", glossaryPage, w))
			}
		}
	}
	if entries == 0 || entries > glossaryLimit {
		found = append(found, fmt.Sprintf("%s: %d entries, want 1 to %d", glossaryPage, entries, glossaryLimit))
	}
	return found, nil
}

// wordsOfAPI returns the words of all exported names of the root module and the lab.
func wordsOfAPI(t *tree) map[string]bool {
	used := map[string]bool{}
	for _, module := range ledgers {
		for _, line := range exported(t, module) {
			_, name, _ := strings.Cut(line, ", ")
			for _, part := range strings.FieldsFunc(name, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
				for _, w := range nameWords(part) {
					used[w] = true
				}
			}
		}
	}
	return used
}

// nameWords splits a name such as KeyInFlight or HTTPError into its words, in lower case.
func nameWords(name string) (words []string) {
	rs := []rune(name)
	start := 0
	for i := 1; i < len(rs); i++ {
		afterLower := unicode.IsUpper(rs[i]) && !unicode.IsUpper(rs[i-1])
		endOfInitials := i+1 < len(rs) && unicode.IsUpper(rs[i]) && unicode.IsUpper(rs[i-1]) && unicode.IsLower(rs[i+1])
		if afterLower || endOfInitials {
			words = append(words, strings.ToLower(string(rs[start:i])))
			start = i
		}
	}
	return append(words, strings.ToLower(string(rs[start:])))
}

// bannedNames are private words that no name may have: each had one meaning for its
// author and none for a reader. The standard word stands beside it.
var bannedNames = map[string]string{
	"berth":      "entry",
	"beside":     "after what it stands for",
	"credit":     "token",
	"errand":     "call",
	"flight":     "attempt",
	"headroom":   "rest",
	"homecoming": "settle",
	"lane":       "partition",
	"rack":       "shards",
	"shelf":      "shard",
	"shelve":     "shard",
	"strand":     "invalidate",
	"weather":    "draws, or random numbers",
}

// allowedNames are standard terms that contain a banned word.
var allowedNames = []string{"InFlight", "inFlight"}

func bannedName(name string) string {
	for _, allowed := range allowedNames {
		name = strings.ReplaceAll(name, allowed, "")
	}
	if name == "" {
		return ""
	}
	for _, w := range nameWords(name) {
		for _, form := range []string{w, strings.TrimSuffix(w, "s")} {
			if bannedNames[form] != "" {
				return form
			}
		}
	}
	return ""
}

// privateNames finds banned words in the names that code declares.
func privateNames(t *tree) (found []string) {
	for _, p := range t.packs {
		for _, file := range p.code() {
			for id := range declaredIdents(file.ast) {
				if w := bannedName(id.Name); w != "" {
					found = append(found, t.at(id.Pos(), "%s: say %s, not %q", id.Name, bannedNames[w], w))
				}
			}
		}
	}
	return slices.Compact(found)
}

// declaredIdents yields the names that a file declares: functions, methods, types,
// fields, parameters, constants, variables.
func declaredIdents(file *ast.File) func(func(*ast.Ident) bool) {
	return func(yield func(*ast.Ident) bool) {
		for n := range ast.Preorder(file) {
			var names []*ast.Ident
			switch n := n.(type) {
			case *ast.FuncDecl:
				names = []*ast.Ident{n.Name}
			case *ast.TypeSpec:
				names = []*ast.Ident{n.Name}
			case *ast.ValueSpec:
				names = n.Names
			case *ast.Field:
				names = n.Names
			case *ast.AssignStmt:
				names = assigned(n)
			}
			for _, id := range names {
				if !yield(id) {
					return
				}
			}
		}
	}
}

func assigned(n *ast.AssignStmt) (names []*ast.Ident) {
	for _, expr := range n.Lhs {
		if id, ok := expr.(*ast.Ident); ok {
			names = append(names, id)
		}
	}
	return names
}

// bannedProse are private turns of phrase that documents and comments do without.
var bannedProse = regexp.MustCompile(`(?i)\b(weather|errand|homecoming|(comes?|came|coming) home|berths?|shelf|shelves|strands?|headroom|lanes?|hears? of|such that|for it is|who comes)\b`)

// privateProse finds them in the documents, outside of code.
func privateProse(fsys fs.FS) (found []string, err error) {
	err = walk(fsys, func(name string) error {
		if path.Ext(name) != ".md" {
			return nil
		}
		text, err := fs.ReadFile(fsys, name)
		for i, line := range prose(string(text)) {
			if w := bannedProse.FindString(line); w != "" {
				found = append(found, fmt.Sprintf("%s:%d: %q", name, i+1, w))
			}
		}
		return err
	})
	return found, err
}

// privateComments finds them in the comments of code.
func privateComments(t *tree) (found []string) {
	for _, p := range t.packs {
		for _, file := range p.code() {
			for _, group := range file.ast.Comments {
				for _, c := range group.List {
					if w := bannedProse.FindString(c.Text); w != "" {
						found = append(found, t.at(c.Pos(), "%q", w))
					}
				}
			}
		}
	}
	return found
}

// prose returns a document's lines, with code blanked out.
func prose(text string) []string {
	lines := strings.Split(text, "\n")
	fenced := false
	for i, line := range lines {
		mark := strings.HasPrefix(strings.TrimSpace(line), "```")
		if mark {
			fenced = !fenced
		}
		if mark || fenced || strings.HasPrefix(line, "    ") {
			lines[i] = ""
			continue
		}
		lines[i] = codeSpan.ReplaceAllString(line, "")
	}
	return lines
}

func TestGlossaryNamesWhatTheAPIHas(t *testing.T) {
	keep(t, unused, `docs/glossary.md has at most 30 words, those of exported names. Remove a word that the API no longer has, or write
"(prose only)" in its meaning.`)

	const api = "package gabion\ntype KeyInFlight struct{ Attempts int }\n"
	prove(t, unused, []specimen{
		{"words of exported names, plurals and prose", map[string]string{
			"gabion.go": api, glossaryPage: "| **attempt** | One. |\n| **flight** | Two. |\n| **permit** | Three (prose only). |\n",
		}, nil},
		{"a word that no name has", map[string]string{
			"gabion.go": api, glossaryPage: "| **bulkhead** | A limit. |\n| **idempotency key** | A name. |\n",
		}, []string{`no exported name has the word "bulkhead"`, `the word "idempotency"`}},
		{"too many words, or none", map[string]string{
			"gabion.go": api, glossaryPage: strings.Repeat("| **key** | A name. |\n", glossaryLimit+1),
		}, []string{"31 entries"}},
		{"the page is missing", map[string]string{"gabion.go": api}, []string{"docs/glossary.md is missing"}},
	})
}

func TestNamesAreNotPrivateWords(t *testing.T) {
	keep(t, overCode(privateNames), `Use the field's standard term: docs/glossary.md.`)

	prove(t, overCode(privateNames), []specimen{
		{"standard terms are fine", map[string]string{
			"p/p.go": "package p\nvar track, backtrack, KeyInFlight int",
		}, nil},
		{"types, fields, functions, parameters, variables", map[string]string{
			"p/p.go": "package p\ntype Errand struct { errandOf int }\nfunc newErrands(homecoming int) { errandSize := 1; _ = errandSize }",
		}, []string{"p.go:2: Errand: say call", "errandOf", "errandSize", "homecoming", "newErrands"}},
		{"tests may", map[string]string{"p/p_test.go": "package p\nvar errand int"}, nil},
	})
}

func TestDocumentsAndCommentsAreNotInPrivateWords(t *testing.T) {
	keep(t, privateProse, `Say it in plain words, as you would to a colleague.`)

	keep(t, overCode(privateComments), `Say it in plain words, as you would to a colleague.`)

	prove(t, overCode(privateComments), []specimen{
		{"private words of a comment", map[string]string{
			"p/p.go": "// Package p is fine.\npackage p\n\n// x comes home.\nvar x = 1 // such that it does\n",
		}, []string{`p.go:4: "comes home"`, `p.go:5: "such that"`}},
	})
	prove(t, privateProse, []specimen{
		{"code is not prose", map[string]string{"docs/a.md": "`errand`\n```\nerrand\n```\n    errand\n"}, nil},
		{"private words", map[string]string{"docs/a.md": "fine\non an errand\nfor it is\n"}, []string{`docs/a.md:2: "errand"`, `docs/a.md:3: "for it is"`}},
	})
}
