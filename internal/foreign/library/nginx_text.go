package library

import (
	"strings"

	"github.com/gabion-go/gabion/internal/yamlstrict"
)

// directive is a line of nginx's syntax: words, and a block where it has one.
type directive struct {
	words []*yamlstrict.Tree // the first is its name
	block []directive
	has   bool // a block, even an empty one
}

func (d directive) name() string { return d.words[0].Text }

// nginxReader cuts a text into words.
type nginxReader struct {
	text      string
	at        int
	line, col int
	wrong     func(at *yamlstrict.Tree, reason, proposal string)
	said      bool // a mistake of the syntax, after which the rest is not judged
}

// maxBlocks is how deep blocks may be in each other.
const maxBlocks = 50

// all reads directives up to the end of a block, or of the text.
func (r *nginxReader) all(depth int) (found []directive) {
	var d directive
	for !r.said {
		word, kind := r.word()
		switch kind {
		case ';':
			if len(d.words) > 0 {
				found = append(found, d)
			}
			d = directive{}
		case '{':
			if len(d.words) == 0 || depth >= maxBlocks {
				r.fail(word, "a block has no name, or is too deep in others", "write a name before the {")
				return found
			}
			d.has = true
			d.block = r.all(depth + 1)
			found, d = append(found, d), directive{}
		case '}', 0:
			if len(d.words) > 0 {
				r.fail(d.words[len(d.words)-1], "a directive has no end", "write a ; behind it")
			} else if kind == 0 && depth > 0 {
				r.fail(word, "a block has no end", "write a }")
			} else if kind == '}' && depth == 0 {
				r.fail(word, "there is no block that this ends", "remove it")
			}
			return found
		default:
			d.words = append(d.words, word)
		}
	}
	return found
}

func (r *nginxReader) fail(at *yamlstrict.Tree, reason, proposal string) {
	if !r.said {
		r.said = true
		r.wrong(at, reason, proposal)
	}
}

func (r *nginxReader) next() byte {
	c := r.text[r.at]
	r.at++
	if r.col++; c == '\n' {
		r.line, r.col = r.line+1, 1
	}
	return c
}

// blanks goes to what is neither blank nor a comment.
func (r *nginxReader) blanks() {
	for r.at < len(r.text) {
		switch c := r.text[r.at]; {
		case strings.IndexByte(" \t\r\n", c) >= 0:
			r.next()
		case c == '#':
			for r.at < len(r.text) && r.text[r.at] != '\n' {
				r.next()
			}
		default:
			return
		}
	}
}

// word returns the next word, or what stands in its place: ; { } or 0 for the end.
func (r *nginxReader) word() (word *yamlstrict.Tree, kind byte) {
	r.blanks()
	word = &yamlstrict.Tree{Kind: yamlstrict.Text, Line: r.line, Col: r.col}
	if r.at >= len(r.text) {
		return word, 0
	}
	c := r.text[r.at]
	if strings.IndexByte(";{}", c) >= 0 {
		r.next()
		return word, c
	}
	if c == '"' || c == '\'' {
		word.Text = r.quoted(word)
		return word, 'w'
	}
	from := r.at
	for r.at < len(r.text) && strings.IndexByte(" \t\r\n;", r.text[r.at]) < 0 {
		switch {
		case r.text[r.at] == '\\' && r.at+1 < len(r.text):
			r.next()
		case r.text[r.at] == '{' && !strings.HasSuffix(r.text[:r.at], "$"):
			word.Text = r.text[from:r.at]
			return word, 'w'
		case r.text[r.at] == '{': // a variable: ${name}
			for r.at < len(r.text) && r.text[r.at] != '}' && r.text[r.at] != '\n' {
				r.next()
			}
			continue
		}
		r.next()
	}
	word.Text = r.text[from:r.at]
	return word, 'w'
}

func (r *nginxReader) quoted(at *yamlstrict.Tree) string {
	quote := r.next()
	var b strings.Builder
	for r.at < len(r.text) {
		c := r.next()
		if c == quote {
			return b.String()
		}
		if c == '\\' && r.at < len(r.text) {
			c = r.next()
		}
		b.WriteByte(c)
	}
	r.fail(at, "a quoted word has no end", "write "+string(quote))
	return b.String()
}
