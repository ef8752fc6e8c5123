package grpcconfig

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// kind is what a JSON value is.
type kind uint8

const (
	isNull kind = iota
	isBool
	isNumber
	isString
	isList
	isObject
)

// node is a JSON value and where it stands.
type node struct {
	kind    kind
	at, end int      // offsets
	text    string   // of a string what it says, of the others what is written
	items   []*node  // of a list
	members []member // of an object, in the order of the file
}

type member struct{ key, value *node }

// maxDepth is how deep values may be nested. No sensible file comes near.
const maxDepth = 100

// scanner reads JSON to the letter: what encoding/json refuses, it refuses. It stops at the first
// mistake, since what follows one can't be read.
type scanner struct {
	doc   *document
	text  string
	pos   int
	depth int
	open  []int // where the objects and lists begin that are not closed yet
}

// syntaxError ends the reading.
type syntaxError struct {
	at               int
	reason, proposal string
	ours             bool
}

func (s *scanner) fail(at int, reason, proposal string) {
	panic(syntaxError{at: at, reason: reason, proposal: proposal})
}

// parseJSON returns the value that doc holds, or what is wrong with its syntax.
func parseJSON(doc *document) (root *node, wrong *syntaxError) {
	defer func() {
		if r := recover(); r != nil {
			e, ok := r.(syntaxError)
			if !ok {
				panic(r)
			}
			wrong = &e
		}
	}()
	s := &scanner{doc: doc, text: doc.text}
	s.blank()
	if s.pos == len(s.text) {
		s.fail(0, "the file is empty", "write {} for a config that says nothing")
	}
	root = s.value()
	s.blank()
	if s.pos < len(s.text) {
		s.fail(s.pos, "something follows the end of the config", "remove it, or look for a bracket that closes too early")
	}
	return root, nil
}

// blank skips what JSON takes for blanks.
func (s *scanner) blank() {
	for s.pos < len(s.text) && strings.IndexByte(" \t\r\n", s.text[s.pos]) >= 0 {
		s.pos++
	}
}

func (s *scanner) peek() byte {
	if s.pos == len(s.text) {
		s.cut()
	}
	return s.text[s.pos]
}

// cut says that the file ends too early.
func (s *scanner) cut() {
	proposal := "is it cut off?"
	if n := len(s.open); n > 0 {
		line, col := s.doc.place(s.open[n-1])
		proposal = fmt.Sprintf("close the %c of %d:%d; is the file cut off?", s.text[s.open[n-1]], line, col)
	}
	s.fail(s.pos, "the file ends here, in the middle of a value", proposal)
}

func (s *scanner) value() *node {
	switch c := s.peek(); {
	case c == '{':
		return s.nested(s.object)
	case c == '[':
		return s.nested(s.list)
	case c == '"':
		return s.str()
	case c == '-' || c >= '0' && c <= '9':
		return s.number()
	}
	return s.word()
}

// nested reads an object or a list, if it is not nested too deeply.
func (s *scanner) nested(read func(*node)) *node {
	n := &node{at: s.pos}
	if s.depth++; s.depth > maxDepth {
		panic(syntaxError{s.pos, "brackets are nested too deeply", fmt.Sprintf("nest at most %d", maxDepth), s.depth <= 10_000})
	}
	s.open = append(s.open, s.pos)
	s.pos++
	read(n)
	s.depth--
	s.open = s.open[:len(s.open)-1]
	n.end = s.pos
	n.text = s.text[n.at:n.end]
	return n
}

func (s *scanner) object(n *node) {
	n.kind = isObject
	s.blank()
	if s.peek() == '}' {
		s.pos++
		return
	}
	for {
		s.key()
		m := member{key: s.str()}
		s.blank()
		if s.peek() != ':' {
			s.fail(s.pos, fmt.Sprintf("no colon after the key %q", clip(m.key.text)), `write "key": value`)
		}
		s.pos++
		s.blank()
		m.value = s.value()
		n.members = append(n.members, m)
		if s.last('}') {
			return
		}
	}
}

// key stops at what is no key.
func (s *scanner) key() {
	switch c := s.peek(); {
	case c == '"':
	case c == '\'':
		s.fail(s.pos, "a key in single quotes", "JSON wants double quotes")
	case c == '/' || c == '#':
		s.comment()
	case c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z':
		s.fail(s.pos, "a key without quotes", `JSON wants double quotes: "`+s.letters()+`"`)
	default:
		s.fail(s.pos, "no key stands here", `write "key": value`)
	}
}

func (s *scanner) comment() { s.fail(s.pos, "a comment", "JSON has none: remove it") }

// last reads what stands behind a value, and reports whether the list or object ends.
func (s *scanner) last(end byte) bool {
	s.blank()
	switch c := s.peek(); {
	case c == end:
		s.pos++
		return true
	case c == '/' || c == '#':
		s.comment()
	case c != ',':
		s.fail(s.pos, "no comma before the next value", fmt.Sprintf("write a comma, or %c if this is the end", end))
	}
	comma := s.pos
	s.pos++
	s.blank()
	if c := s.peek(); c == end {
		s.fail(comma, fmt.Sprintf("a comma before %c", end), "JSON has no comma after the last value, other than YAML: remove it")
	}
	return false
}

func (s *scanner) list(n *node) {
	n.kind = isList
	s.blank()
	if s.peek() == ']' {
		s.pos++
		return
	}
	for {
		n.items = append(n.items, s.value())
		if s.last(']') {
			return
		}
	}
}

// str reads a string. What encoding/json makes of it is what it says.
func (s *scanner) str() *node {
	n := &node{kind: isString, at: s.pos}
	for s.pos++; ; s.pos++ {
		switch c := s.peek(); {
		case c == '"':
			s.pos++
			n.end = s.pos
			if json.Unmarshal([]byte(s.text[n.at:n.end]), &n.text) != nil {
				s.fail(n.at, "a string that can't be read", "")
			}
			return n
		case c == '\\':
			s.escape()
		case c == '\n' || c == '\r':
			s.fail(n.at, "a string does not end in its line", `close it with "`)
		case c < ' ':
			s.fail(s.pos, fmt.Sprintf("a control character, 0x%02x, in a string", c), fmt.Sprintf(`write \u%04x`, c))
		}
	}
}

// escape reads a backslash and what belongs to it, but for its last letter.
func (s *scanner) escape() {
	at := s.pos
	s.pos++
	switch c := s.peek(); {
	case c == 'u':
		for range 4 {
			s.pos++
			if c := s.peek(); strings.IndexByte("0123456789abcdefABCDEF", c) < 0 {
				s.fail(at, `\u without four hexadecimal digits`, `write one such as \u00e9`)
			}
		}
	case strings.IndexByte(`"\/bfnrt`, c) < 0:
		s.fail(at, "a backslash that means nothing", `write \\ for a backslash`)
	}
}

func (s *scanner) number() *node {
	n := &node{kind: isNumber, at: s.pos}
	for s.pos < len(s.text) && strings.IndexByte("+-.0123456789abcdefxABCDEFX_", s.text[s.pos]) >= 0 {
		s.pos++
	}
	n.end = s.pos
	n.text = s.text[n.at:n.end]
	if json.Valid([]byte(n.text)) {
		return n
	}
	proposal := "write one such as 3 or 0.1"
	if strings.HasPrefix(strings.TrimPrefix(n.text, "-"), "0") {
		proposal = "write no zero in front"
	}
	s.fail(n.at, clip(n.text)+" is not a number of JSON", proposal)
	return nil
}

// word reads true, false or null.
func (s *scanner) word() *node {
	n := &node{at: s.pos}
	word := s.letters()
	s.pos += len(word)
	n.end, n.text = s.pos, word
	switch word {
	case "null":
		n.kind = isNull
	case "true", "false":
		n.kind = isBool
	default:
		s.noValue(n.at, word)
	}
	return n
}

func (s *scanner) noValue(at int, word string) {
	const quotes = "JSON wants double quotes"
	switch c := s.text[at]; {
	case strings.EqualFold(word, "null") || strings.EqualFold(word, "true") || strings.EqualFold(word, "false"):
		s.fail(at, clip(word)+" is no value", "write "+strings.ToLower(word))
	case word != "":
		s.fail(at, clip(word)+" stands without quotes", quotes+`: "`+clip(word)+`"`)
	case c == '\'':
		s.fail(at, "a text in single quotes", quotes)
	case c == '/' || c == '#':
		s.comment()
	case strings.HasPrefix(s.text[at:], "\ufeff"):
		s.fail(at, "a byte order mark", "save the file as UTF-8 without one")
	}
	r, _ := utf8.DecodeRuneInString(s.text[at:])
	s.fail(at, strconv.QuoteRune(r)+" begins no value", "")
}

// letters returns the letters and digits that stand here.
func (s *scanner) letters() string {
	end := s.pos
	for end < len(s.text) && (s.text[end] == '_' || s.text[end] >= '0' && s.text[end] <= '9' ||
		s.text[end] >= 'a' && s.text[end] <= 'z' || s.text[end] >= 'A' && s.text[end] <= 'Z') {
		end++
	}
	return s.text[s.pos:end]
}
