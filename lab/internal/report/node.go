package report

import (
	"bufio"
	"strings"
	"unicode"
)

// A node is an element of the page, or a text. A page that is made of nodes is well-formed, and
// text from a scenario can't become markup: one place writes texts, and it escapes them.
type node struct {
	name string
	attr []string // names and values in turn
	kids []*node
	text string // of a node without a name
	safe bool   // the text is a part of this program: it is written as it is
}

// el returns an element with attributes: names and values in turn.
func el(name string, attr ...string) *node { return &node{name: name, attr: attr} }

// words returns an element that holds a text.
func words(name, class, text string) *node {
	n := el(name)
	if class != "" {
		n.attr = append(n.attr, "class", class)
	}
	if name == "code" || name == "title" {
		return n.say(text) // to be copied, or read aloud
	}
	return n.say(together(text))
}

func (n *node) add(kids ...*node) *node {
	for _, k := range kids {
		if k != nil {
			n.kids = append(n.kids, k)
		}
	}
	return n
}

func (n *node) say(text string) *node { return n.add(&node{text: text}) }

// void elements have no end tag in HTML; written as XML has them they are fine in
// both.
var void = map[string]bool{"meta": true, "br": true, "hr": true, "col": true, "path": true, "rect": true, "line": true, "circle": true}

func (n *node) write(w *bufio.Writer) {
	if n.name == "" {
		if n.safe {
			w.WriteString(n.text)
		} else {
			w.WriteString(escape(n.text))
		}
		return
	}
	w.WriteByte('<')
	w.WriteString(n.name)
	for i := 0; i+1 < len(n.attr); i += 2 {
		w.WriteByte(' ')
		w.WriteString(n.attr[i])
		w.WriteString(`="`)
		w.WriteString(escape(n.attr[i+1]))
		w.WriteByte('"')
	}
	if void[n.name] && len(n.kids) == 0 {
		w.WriteString("/>")
		return
	}
	w.WriteByte('>')
	for _, k := range n.kids {
		k.write(w)
	}
	w.WriteString("</")
	w.WriteString(n.name)
	w.WriteByte('>')
	if blocks[n.name] {
		w.WriteByte('\n')
	}
}

// blocks are followed by a new line, so that a report in git has readable diffs.
var blocks = map[string]bool{
	"head": true, "style": true, "title": true, "header": true, "main": true, "section": true, "footer": true, "div": true, "p": true, "h1": true, "h2": true, "h3": true,
	"table": true, "thead": true, "tbody": true, "tr": true, "figure": true, "figcaption": true, "svg": true, "ul": true, "li": true, "dl": true, "dd": true, "pre": true, "details": true, "button": true, "script": true,
}

var escapes = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&#34;", "'", "&#39;")

func escape(s string) string { return escapes.Replace(printable(s)) }

// printable replaces what a terminal would obey and what markup may not hold.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return r
		}
		if unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r == 0xfffe || r == 0xffff {
			return unicode.ReplacementChar
		}
		return r
	}, strings.ToValidUTF8(s, string(unicode.ReplacementChar)))
}
