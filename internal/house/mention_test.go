package house

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strings"
	"testing"
)

// dated are documents about an earlier tree: decisions, what was measured, what changed.
var dated = regexp.MustCompile(`^(CHANGELOG\.md|docs/adr/.*|docs/mutation\.md)$`)

// walkthrough is the page on which each Go name is one of the code.
const walkthrough = "docs/life-of-a-call.md"

var (
	goName        = regexp.MustCompile(`^[A-Za-z]\w*$`)
	mentionedName = regexp.MustCompile(`^\*?&?([a-z]+)\.([A-Z]\w*)`)
	mentionedPath = regexp.MustCompile(`^(?:\./)?((?:internal|contrib|lab|e2e|cmd|docs|policy|idempotency|gabionhttp|examples)/[\w./-]*\w|[\w/]+\.go)$`)
)

// unknownMentions finds exported names and paths in code spans of the documents that do
// not exist.
func unknownMentions(fsys fs.FS) (found []string, err error) {
	t, err := parse(fsys)
	if err != nil {
		return nil, err
	}
	known := namesOfAPI(t)
	declared := namesOfCode(t)
	err = walk(fsys, func(name string) error {
		if path.Ext(name) != ".md" || dated.MatchString(name) {
			return nil
		}
		text, err := fs.ReadFile(fsys, name)
		fenced := false
		for i, line := range strings.Split(string(text), "\n") {
			if strings.HasPrefix(strings.TrimSpace(line), "```") {
				fenced = !fenced
			}
			if fenced {
				continue
			}
			for _, span := range codeSpan.FindAllString(line, -1) {
				span = strings.Trim(span, "`")
				why := unknown(fsys, known, span)
				if name == walkthrough && goName.MatchString(span) && !declared[span] {
					why = "nothing is called " + span
				}
				if why != "" {
					found = append(found, fmt.Sprintf("%s:%d: %s", name, i+1, why))
				}
			}
		}
		return err
	})
	return found, err
}

func unknown(fsys fs.FS, known map[string]map[string]bool, span string) string {
	if m := mentionedName.FindStringSubmatch(span); m != nil && known[m[1]] != nil && !known[m[1]][m[2]] {
		return fmt.Sprintf("package %s has no %s", m[1], m[2])
	}
	if m := mentionedPath.FindStringSubmatch(span); m != nil && missing(fsys, m[1]) {
		return "there is no " + m[1]
	}
	return ""
}

// namesOfCode returns everything that a walk through the code may mention by one word:
// what the code declares, and the texts of the vocabularies.
func namesOfCode(t *tree) map[string]bool {
	declared := map[string]bool{}
	for _, p := range t.packs {
		declared[path.Base(p.dir)] = true
		for _, file := range p.code() {
			for id := range declaredIdents(file.ast) {
				declared[id.Name] = true
			}
			if p.dir == "policy" {
				texts := map[string]string{}
				collectTexts(file, texts)
				for _, text := range texts {
					declared[text] = true
				}
			}
		}
	}
	return declared
}

// namesOfAPI returns the exported top-level names of each public package, by the
// package's name.
func namesOfAPI(t *tree) map[string]map[string]bool {
	known := map[string]map[string]bool{}
	for _, module := range ledgers {
		for _, line := range exported(t, module) {
			dir, rest, _ := strings.Cut(strings.TrimPrefix(line, "pkg "), ", ")
			kind, name, _ := strings.Cut(rest, " ")
			if kind == "method" {
				continue
			}
			pkg := path.Base(dir)
			if dir == "." {
				pkg = "gabion"
			}
			if known[pkg] == nil {
				known[pkg] = map[string]bool{}
			}
			known[pkg][regexp.MustCompile(`^\w+`).FindString(name)] = true
		}
	}
	return known
}

func TestDocumentsMentionWhatThereIs(t *testing.T) {
	keep(t, unknownMentions, `Documents follow the code: correct the name or the path. A field is written with its type, such as Policy.Key.`)

	const api = "package policy\ntype Policy struct{ Key int }\nconst Off = -1\n"
	prove(t, unknownMentions, []specimen{
		{"names and paths that exist", map[string]string{
			"policy/policy.go": api, "do.go": "package gabion",
			"docs/a.md": "`policy.Off` `*policy.Policy` `http.Client` `do.go` `policy/policy.go` `gabion.yaml`\n```\npolicy.Gone\n```\n",
		}, nil},
		{"names and paths that do not", map[string]string{
			"policy/policy.go": api,
			"docs/a.md":        "`policy.Gone{}`\n`racing.go` `internal/machine/lane.go`\n",
		}, []string{"docs/a.md:1: package policy has no Gone", "docs/a.md:2: there is no internal/machine/lane.go", "docs/a.md:2: there is no racing.go"}},
		{"the walk through the code names what is declared", map[string]string{
			"policy/policy.go": api,
			walkthrough:        "`Policy` `Key` `Off` `policy` `cfg.Key` `gone`\n",
		}, []string{walkthrough + ":1: nothing is called gone"}},
		{"earlier trees had others", map[string]string{"policy/policy.go": api, "docs/adr/0001.md": "`policy.Gone`", "CHANGELOG.md": "`policy.Gone`"}, nil},
	})
}
