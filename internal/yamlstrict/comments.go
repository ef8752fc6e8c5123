package yamlstrict

import (
	"strings"

	"go.yaml.in/yaml/v4"
)

// Comment is a comment of a file.
type Comment struct {
	Line, Col int    // of the #, from 1; columns count characters
	Text      string // what is after the #, without blanks around it
	Alone     bool   // nothing else is on the line

	// About is the line that the comment is about: its own, or the next one that is no
	// comment if it is alone on its line. Zero means none: an empty line or the end follows.
	About int
}

// Comments returns the comments of a file in their order. In a file that is no YAML it
// goes by what usually begins a quoted text.
func (d *Document) Comments() (all []Comment) {
	s := commentScan{lines: d.lines, block: -1}
	if d.root != nil {
		s.begins = map[[2]int]yaml.Style{}
		s.note(d.root)
	}
	for i := range d.lines {
		if col, ok := s.line(i); ok {
			runes := []rune(d.lines[i])
			before := strings.TrimSpace(string(runes[:col]))
			all = append(all, Comment{Line: i + 1, Col: col + 1, Text: strings.TrimSpace(string(runes[col+1:])), Alone: before == "" || before == "\ufeff"})
		}
	}
	next := 0 // the line after the comment that was looked at before, or what that is about
	for i := len(all) - 1; i >= 0; i-- {
		c := &all[i]
		switch {
		case !c.Alone:
			c.About = c.Line
		case i+1 < len(all) && all[i+1].Line == c.Line+1 && all[i+1].Alone:
			c.About = next
		case c.Line < len(d.lines) && strings.TrimSpace(d.lines[c.Line]) != "":
			c.About = c.Line + 1
		}
		next = c.About
	}
	return all
}

// commentScan looks for comments line by line.
type commentScan struct {
	lines  []string
	begins map[[2]int]yaml.Style // where texts with quotes and blocks begin; nil if that is not known

	quote  rune // of the text that has begun, or 0
	block  int  // the least indentation of the block that has begun; -1 for none
	parent int  // that of what the block belongs to, while block is not known
	opened bool // a block has begun, and its first line was not seen
}

// note notes where texts begin that may hold a #.
func (s *commentScan) note(n *yaml.Node) {
	const styles = yaml.DoubleQuotedStyle | yaml.SingleQuotedStyle | yaml.LiteralStyle | yaml.FoldedStyle
	if n.Kind == yaml.ScalarNode && n.Style&styles != 0 {
		s.begins[[2]int{n.Line, n.Column}] = n.Style & styles
	}
	for _, c := range n.Content {
		s.note(c)
	}
}

// line returns the column, from 0, at which the comment of a line begins.
func (s *commentScan) line(i int) (col int, ok bool) {
	runes := []rune(s.lines[i])
	if s.inBlock(runes) {
		return 0, false
	}
	pending := yaml.Style(0) // a text begins after its anchor or its tag
	for j := 0; j < len(runes); j++ {
		r := runes[j]
		switch {
		case s.quote == '"' && r == '\\':
			j++
		case s.quote != 0 && r == s.quote:
			if r == '\'' && j+1 < len(runes) && runes[j+1] == '\'' {
				j++
				continue
			}
			s.quote = 0
		case s.quote != 0:
		case r == '#' && (j == 0 || blank(runes[j-1]) || runes[j-1] == '\ufeff'):
			return j, true
		default:
			if style := s.begins[[2]int{i + 1, j + 1}]; style != 0 {
				pending = style
			}
			pending = s.begin(runes, j, pending)
		}
	}
	return 0, false
}

func blank(r rune) bool { return r == ' ' || r == '\t' }

// begin looks whether a text with quotes or a block begins at a column.
func (s *commentScan) begin(runes []rune, j int, pending yaml.Style) yaml.Style {
	r, known := runes[j], s.begins != nil
	starts := pending != 0
	if starts && (r == '&' || r == '!' || j > 0 && !blank(runes[j-1]) && s.word(runes, j)) {
		return pending // an anchor or a tag
	}
	if !known {
		before := strings.TrimRight(string(runes[:j]), " \t")
		starts = before == "" || strings.ContainsAny(before[len(before)-1:], ":,[{-?") && (blank(runes[j-1]) || strings.ContainsAny(before[len(before)-1:], "[{,"))
	}
	switch {
	case starts && (r == '"' || r == '\'') && (!known || pending&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle) != 0):
		s.quote = r
		return 0
	case starts && (r == '|' || r == '>') && (!known || pending&(yaml.LiteralStyle|yaml.FoldedStyle) != 0):
		s.opened, s.parent = true, indentOfKey(runes, j)
		return 0
	}
	return pending
}

// word reports whether a column is inside a word that begins with & or !.
func (s *commentScan) word(runes []rune, j int) bool {
	from := j
	for from > 0 && !blank(runes[from-1]) {
		from--
	}
	return runes[from] == '&' || runes[from] == '!'
}

// indentOfKey is the indentation of the key or the dash that a block belongs to.
func indentOfKey(runes []rune, until int) int {
	at := 0
	for at < until {
		switch {
		case blank(runes[at]):
			at++
		case runes[at] == '-' && at+1 < until && blank(runes[at+1]):
			rest := strings.TrimLeft(string(runes[at+1:until]), " \t")
			if rest == "" {
				return at
			}
			at++
		default:
			return at
		}
	}
	return -1 // the block is the whole file
}

// inBlock reports whether a line is part of a block that has begun.
func (s *commentScan) inBlock(runes []rune) bool {
	if !s.opened && s.block < 0 {
		return false
	}
	indent := 0
	for indent < len(runes) && runes[indent] == ' ' {
		indent++
	}
	switch {
	case indent == len(runes) || len(strings.TrimSpace(string(runes))) == 0:
		return true // an empty line ends nothing
	case s.opened && indent > s.parent:
		s.opened, s.block = false, indent
		return true
	case !s.opened && indent >= s.block:
		return true
	}
	s.opened, s.block = false, -1
	return false
}
