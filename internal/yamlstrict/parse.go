// Package yamlstrict reads YAML into structs and forgives nothing.
//
// A configuration that is half understood is worse than none, so every mistake
// is an error, and all of them are reported at once: unknown and duplicate keys,
// wrong kinds, bare numbers where a unit is wanted, empty values, unset
// variables. Each has its line and column, a reason and a proposal. Input is
// bounded in size, depth and expansion, and no input makes the package panic.
//
// It is the only importer of a YAML parser in the module.
package yamlstrict

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"

	"github.com/gabion-go/gabion/internal/finding"
)

// Finding is one mistake in a file.
type Finding = finding.Finding

// Findings are all the mistakes in a file, in the order of their places.
type Findings = finding.Findings

// MaxSize is the size of the largest file that is read.
const MaxSize = 1 << 20

// Document is a file whose syntax is right.
type Document struct {
	name    string
	lines   []string
	options Options
	root    *yaml.Node
}

// Parse reads the syntax of a file; name is for messages. The document is never
// nil, so that findings of a caller's own can be placed in it, but without
// findings only.
func Parse(name string, data []byte, o Options) (doc *Document, found Findings) {
	doc = &Document{name: name, options: o}
	if len(data) > MaxSize {
		return doc, Findings{doc.Finding(1, 1, fmt.Sprintf("the file has %d bytes", len(data)), "files have at most 1 MiB")}
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	doc.lines = strings.Split(strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(string(data)), "\n")
	if f, ok := doc.notUTF8(); ok {
		return doc, Findings{f}
	}
	if f, ok := doc.tooDeep(); ok {
		return doc, Findings{f}
	}
	// The parser is a library's, and a file must not end a program.
	defer func() {
		if r := recover(); r != nil {
			found = Findings{doc.Finding(1, 1, "the file can't be parsed", "look for a broken quote or bracket")}
		}
	}()
	return doc, doc.parse(data)
}

func (d *Document) parse(data []byte) Findings {
	in := yaml.NewDecoder(bytes.NewReader(data))
	var first, second yaml.Node
	switch err := in.Decode(&first); {
	case errors.Is(err, io.EOF):
		return Findings{d.Finding(1, 1, "the file is empty", "begin with version: 1")}
	case err != nil:
		return d.syntax(err)
	case len(first.Content) == 0 || empty(first.Content[0]):
		return Findings{d.Finding(1, 1, "the file is empty", "begin with version: 1")}
	}
	d.root = first.Content[0]
	switch err := in.Decode(&second); {
	case errors.Is(err, io.EOF):
		return nil
	case err != nil:
		return d.syntax(err)
	}
	line, col := second.Line, second.Column
	if len(second.Content) > 0 {
		line, col = second.Content[0].Line, second.Content[0].Column
	}
	return Findings{d.Finding(line, col, "a second document begins here", "write one document per file: remove the ---")}
}

// Decode reads the whole document into the struct that into points to.
func (d *Document) Decode(into any) (map[string]Place, Findings) {
	return Node{node: d.root, doc: d}.Decode(into)
}

// Finding returns a finding at a place, with the line that it is on. Places
// outside the file become its beginning.
func (d *Document) Finding(line, col int, reason, proposal string) Finding {
	line, col = max(line, 1), max(col, 1)
	f := Finding{File: d.name, Line: line, Col: col, Reason: finding.Printable(reason), Proposal: finding.Printable(proposal)}
	if line <= len(d.lines) {
		f.Snippet = finding.Sealed(d.lines[line-1])
	}
	return f
}

// syntax turns the parser's error into findings. Its message about a tab is hard to understand, so
// tabs are looked for first.
func (d *Document) syntax(err error) Findings {
	var found Findings
	for i, line := range d.lines {
		indent := line[:len(line)-len(strings.TrimLeft(line, " \t"))]
		if tab := strings.IndexByte(indent, '\t'); tab >= 0 && len(indent) < len(line) {
			found = append(found, d.Finding(i+1, tab+1, "a tab indents this line", "indent with spaces"))
		}
	}
	if found != nil {
		return found[:min(len(found), 100)]
	}
	if at, is := errors.AsType[*yaml.LoadError](err); is {
		f := d.Finding(at.Mark.Line, at.Mark.Column, "not YAML: "+clipLong(at.Message), "")
		if _, rest, ok := strings.Cut(f.Snippet, "${"); ok { // the brace opens a mapping there
			name, _, _ := strings.Cut(rest, "}")
			f.Proposal = `inside { } and [ ] a variable needs quotes: "${` + clip(name) + `}"`
		}
		return Findings{f}
	}
	return Findings{d.Finding(1, 1, "not YAML: "+clipLong(err.Error()), "")}
}

func clipLong(s string) string {
	if runes := []rune(s); len(runes) > 200 {
		return string(runes[:200]) + "…"
	}
	return s
}

func (d *Document) notUTF8() (Finding, bool) {
	for i, line := range d.lines {
		if utf8.ValidString(line) {
			continue
		}
		col := 1
		for _, r := range line {
			if r == utf8.RuneError {
				break
			}
			col++
		}
		return d.Finding(i+1, col, "not UTF-8", "save the file as UTF-8"), true
	}
	return Finding{}, false
}

// tooDeep refuses files whose brackets would keep the parser busy for long. It
// counts roughly, quotes and comments included, so the bound is generous.
func (d *Document) tooDeep() (Finding, bool) {
	depth := 0
	for i, line := range d.lines {
		for j, r := range []rune(line) {
			switch r {
			case '[', '{':
				depth++
			case ']', '}':
				depth = max(depth-1, 0)
			}
			if depth > 1000 {
				return d.Finding(i+1, j+1, "brackets are nested too deeply", ""), true
			}
		}
	}
	return Finding{}, false
}
