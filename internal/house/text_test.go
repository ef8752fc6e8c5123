package house

import (
	"bytes"
	"fmt"
	"go/format"
	"io/fs"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// A markdown is what the rules want to know of a document.
type markdown struct {
	anchors map[string]bool
	links   []link
	blocks  []block
}

type link struct {
	line   int
	target string
}

// A block is a fenced block of code.
type block struct {
	line     int
	language string
	text     []string
}

var (
	headingLine = regexp.MustCompile(`^ {0,3}#{1,6}\s+(.*?)\s*#*\s*$`)
	inlineLink  = regexp.MustCompile(`\]\(\s*<?([^)\s>]+)`)
	namedLink   = regexp.MustCompile(`^ {0,3}\[[^\]]+\]:\s*<?([^\s>]+)`)
	htmlLink    = regexp.MustCompile(`(?:src|href|srcset)="([^"]+)"`)
	htmlAnchor  = regexp.MustCompile(`(?:id|name)="([^"]+)"`)
	codeSpan    = regexp.MustCompile("`[^`]*`")
)

func parseMarkdown(text string) markdown {
	m := markdown{anchors: map[string]bool{}}
	var open *block // the fenced block that the line is in
	fence := ""
	for i, line := range strings.Split(text, "\n") {
		trimmed := strings.TrimSpace(line)
		switch {
		case open != nil && strings.HasPrefix(trimmed, fence) && strings.Trim(trimmed, "`~") == "":
			m.blocks = append(m.blocks, *open)
			open = nil
		case open != nil:
			open.text = append(open.text, line)
		case strings.HasPrefix(trimmed, "```"), strings.HasPrefix(trimmed, "~~~"):
			info := strings.TrimLeft(trimmed, trimmed[:1])
			fence = trimmed[:len(trimmed)-len(info)]
			language, _, _ := strings.Cut(strings.TrimSpace(info), " ")
			open = &block{line: i + 1, language: language}
		default:
			m.read(i+1, line)
		}
	}
	if open != nil {
		m.blocks = append(m.blocks, *open)
	}
	return m
}

func (m *markdown) read(number int, line string) {
	if h := headingLine.FindStringSubmatch(line); h != nil {
		m.anchor(slug(h[1]))
	}
	line = codeSpan.ReplaceAllString(line, "")
	for _, a := range htmlAnchor.FindAllStringSubmatch(line, -1) {
		m.anchors[a[1]] = true
	}
	for _, form := range []*regexp.Regexp{inlineLink, namedLink, htmlLink} {
		for _, l := range form.FindAllStringSubmatch(line, -1) {
			m.links = append(m.links, link{number, l[1]})
		}
	}
}

// anchor notes a heading's anchor; the second of the same name gets -1, and so on.
func (m *markdown) anchor(name string) {
	unique := name
	for n := 1; m.anchors[unique]; n++ {
		unique = fmt.Sprintf("%s-%d", name, n)
	}
	m.anchors[unique] = true
}

// slug is the anchor that forges make of a heading: lower case, blanks to
// hyphens, everything but letters, digits, hyphens and underscores left out.
func slug(heading string) string {
	heading = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`).ReplaceAllString(heading, "$1")
	return strings.Map(func(r rune) rune {
		switch {
		case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
			return unicode.ToLower(r)
		case r == ' ':
			return '-'
		}
		return -1
	}, heading)
}

// deadLinks finds relative links to files and headings that do not exist.
func deadLinks(fsys fs.FS) (found []string, err error) {
	docs := map[string]markdown{}
	err = walk(fsys, func(name string) error {
		if path.Ext(name) != ".md" {
			return nil
		}
		text, err := fs.ReadFile(fsys, name)
		docs[name] = parseMarkdown(string(text))
		return err
	})
	for name, doc := range docs {
		for _, l := range doc.links {
			if why := dead(fsys, docs, name, l.target); why != "" {
				found = append(found, fmt.Sprintf("%s:%d: %s: %s", name, l.line, l.target, why))
			}
		}
	}
	return found, err
}

func dead(fsys fs.FS, docs map[string]markdown, from, target string) string {
	u, err := url.Parse(target)
	switch {
	case err != nil:
		return "not a link"
	case u.Scheme != "" || u.Host != "":
		return "" // the network's business
	case strings.HasPrefix(u.Path, "/"):
		return "absolute path: it works on one forge alone"
	}
	to := from
	if u.Path != "" {
		to = path.Join(path.Dir(from), u.Path)
	}
	if missing(fsys, to) {
		return "no such file"
	}
	if doc, ok := docs[to]; ok && u.Fragment != "" && !doc.anchors[u.Fragment] {
		return "no such heading"
	}
	return ""
}

func TestLinksLead(t *testing.T) {
	keep(t, deadLinks, `Documents link to files by paths relative to themselves, and to headings by what a forge makes of their text.`)

	prove(t, deadLinks, []specimen{
		{"links that lead are fine", map[string]string{
			"README.md":       "# A `b` c-d\n[x](docs/reasons.md#breaker_open) [y](#a-b-c-d) [z](https://example.com/none) [d](docs)\n\n![p](p.svg)\n```\n[no](none.md)\n```\n`[no](none.md)`\n[r]: docs/reasons.md\n",
			"docs/reasons.md": "## breaker_open\n[up](../README.md) <a id=\"here\"></a> [h](#here)\n",
			"p.svg":           "",
		}, nil},
		{"dead ones are not", map[string]string{
			"README.md":       "[a](none.md)\n\n[b](docs/reasons.md#gone) [c](#gone)\n[d](/docs/reasons.md) <img src=\"e.png\">\n[f]: ../f.md\n",
			"docs/reasons.md": "## open\n",
		}, []string{
			"README.md:1: none.md: no such file", "README.md:3: #gone: no such heading", "README.md:3: docs/reasons.md#gone: no such heading",
			"README.md:4: /docs/reasons.md: absolute", "README.md:4: e.png: no such file", "README.md:5: ../f.md: no such file",
		}},
	})
}

// proven are the pages whose Go is compiled: what a newcomer copies first.
var proven = regexp.MustCompile(`^(README\.md|docs/get-started\.md|docs/comparison\.md|docs/migrate/.*\.md|docs/patterns/.*\.md)$`)

// unproven finds Go in those pages that no compiler has seen: each block marked go
// stands, but for indentation, in an example that the tests build.
func unproven(fsys fs.FS) (found []string, err error) {
	var examples, pages []string
	err = walk(fsys, func(name string) error {
		if proven.MatchString(name) {
			pages = append(pages, name)
		}
		if !isExample(name) {
			return nil
		}
		text, err := fs.ReadFile(fsys, name)
		examples = append(examples, flush(strings.Split(string(text), "\n")))
		return err
	})
	for _, page := range pages {
		text, err := fs.ReadFile(fsys, page)
		if err != nil {
			return nil, err
		}
		for _, b := range parseMarkdown(string(text)).blocks {
			if b.language == "go" && !containsAny(examples, flush(b.text)) {
				found = append(found, fmt.Sprintf("%s:%d: this Go stands in no example", page, b.line))
			}
		}
	}
	return found, err
}

func isExample(name string) bool {
	return path.Ext(name) == ".go" &&
		(strings.HasPrefix(path.Base(name), "example") && strings.HasSuffix(name, "_test.go") ||
			strings.Contains("/"+name, "/examples/"))
}

// flush sets lines flush left and drops blank ones, with a newline before and
// after each so that only whole lines match.
func flush(lines []string) string {
	var b strings.Builder
	b.WriteByte('\n')
	for _, line := range lines {
		if line = strings.Join(strings.Fields(line), " "); line != "" {
			b.WriteString(line + "\n")
		}
	}
	return b.String()
}

func containsAny(texts []string, part string) bool {
	return slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(text, part) })
}

func TestPagesAreTheExamplesText(t *testing.T) {
	t.Run("README.md", func(t *testing.T) {
		if missing(home(), "README.md") {
			t.Fatal("there is no README.md")
		}
		keep(t, unproven, `Copy the block from an Example, or make an Example of it (example_test.go, or a program under examples/). Blocks that are
not meant to compile are not marked go.`)
	})

	example := "package p_test\n\nfunc Example() {\n\tif x {\n\t\tf(1, 2)  // why\n\n\t}\n\t// Output:\n}\n"
	prove(t, unproven, []specimen{
		{"a part of an example is fine, and other languages are", map[string]string{
			"README.md":         "```go\nif x {\n    f(1, 2) // why\n}\n```\n~~~sh\nmake\n~~~\n",
			"p/example_test.go": example,
		}, nil},
		{"so is a program under examples", map[string]string{
			"README.md": "```go\nif x {\n```\n", "examples/shop/main.go": example,
		}, nil},
		{"code that only resembles one", map[string]string{
			"README.md": "text\n```go\nif x {\n  f(1, 3)\n}\n```\n```go\nf(1\n```\n", "p/example_test.go": example,
		}, []string{"README.md:2: this Go", "README.md:7: this Go"}},
		{"code that stands in no example but elsewhere", map[string]string{
			"README.md": "```go\nif x {\n```\n", "p/p.go": example, "p/p_test.go": example,
		}, []string{"README.md:1: this Go"}},
		{"a guide is read as well, and other pages are not", map[string]string{
			"README.md": "", "docs/migrate/a.md": "```go\nif x {\n  f(1, 3)\n```\n", "docs/other.md": "```go\nf(1, 3)\n```\n",
			"p/example_test.go": example,
		}, []string{"docs/migrate/a.md:1: this Go"}},
	})
}

// misshapen finds Go that gofmt would write otherwise, in all modules.
func misshapen(fsys fs.FS) (found []string, err error) {
	err = walk(fsys, func(name string) error {
		if path.Ext(name) != ".go" {
			return nil
		}
		text, err := fs.ReadFile(fsys, name)
		if err != nil {
			return err
		}
		shaped, err := format.Source(text)
		switch {
		case err != nil:
			found = append(found, name+": "+err.Error())
		case !bytes.Equal(shaped, text):
			found = append(found, name+": not formatted")
		}
		return nil
	})
	return found, err
}

func TestCodeIsFormatted(t *testing.T) {
	keep(t, misshapen, `gofmt -w .`)

	prove(t, misshapen, []specimen{
		{"formatted code is fine", map[string]string{"p/p.go": "package p\n\nvar x = 1\n"}, nil},
		{"misshapen and broken code", map[string]string{
			"p/p.go": "package p\nvar x  = 1\n", "e2e/go.mod": "", "e2e/p.go": "package\n",
		}, []string{"e2e/p.go: ", "p/p.go: not formatted"}},
	})
}
