package gabionhttp

import (
	"strconv"
	"strings"
)

// A scanner reads Structured Field Values (RFC 9651) from left to right. It knows lists and
// dictionaries of items; an inner list is an error, as no field that gabion reads has one. The
// first error ends all reading: a malformed field says nothing.
type scanner struct {
	rest string
	bad  bool
}

// bare is a bare item. Kind is the character that RFC 9651 begins it with: 'i' for an integer,
// 'd' decimal, 's' string, 't' token, ':' bytes, '?' boolean, '@' date, '%' display string.
type bare struct {
	kind byte
	text string // of a string and a token, unescaped; of others as it is written
	num  float64
}

const (
	maxField   = 4 << 10 // bytes of all lines of one field; servers send some hundred
	maxMembers = 32      // of a list; a server has a handful of quotas
)

// scan begins to read a field that may have several lines. It reports false for one that is
// missing, or too long to be meant.
func scan(lines []string) (scanner, bool) {
	n := 0
	for _, line := range lines {
		n += len(line) + 1
	}
	if len(lines) == 0 || len(lines) > maxMembers || n > maxField {
		return scanner{}, false
	}
	whole := lines[0]
	if len(lines) > 1 {
		whole = strings.Join(lines, ",")
	}
	return scanner{rest: strings.Trim(whole, " ")}, true
}

// members calls f at the beginning of each member, and reports whether the whole field is well formed
// and has no more members than are meant. F reads the member with its parameters.
func (s *scanner) members(f func()) bool {
	for n := 0; s.rest != "" && !s.bad; n++ {
		if f(); n == maxMembers {
			s.bad = true
		}
		s.rest = strings.TrimLeft(s.rest, " \t")
		if s.rest == "" || s.bad {
			break
		}
		s.expect(',')
		if s.rest = strings.TrimLeft(s.rest, " \t"); s.rest == "" {
			s.bad = true // a comma at the end
		}
	}
	return !s.bad
}

// params calls f for each parameter of the item just read.
func (s *scanner) params(f func(key string, value bare)) {
	for !s.bad && strings.HasPrefix(s.rest, ";") {
		s.rest = strings.TrimLeft(s.rest[1:], " ")
		key := s.key()
		value := bare{kind: '?', text: "1"}
		if strings.HasPrefix(s.rest, "=") {
			s.rest = s.rest[1:]
			value = s.bare()
		}
		if !s.bad {
			f(key, value)
		}
	}
}

func (s *scanner) expect(c byte) {
	if s.rest == "" || s.rest[0] != c {
		s.bad = true
		return
	}
	s.rest = s.rest[1:]
}

// take reads the longest prefix of characters that ok accepts.
func (s *scanner) take(ok func(c byte) bool) string {
	n := 0
	for n < len(s.rest) && ok(s.rest[n]) {
		n++
	}
	got := s.rest[:n]
	s.rest = s.rest[n:]
	return got
}

func lower(c byte) bool { return c >= 'a' && c <= 'z' }
func digit(c byte) bool { return c >= '0' && c <= '9' }
func alpha(c byte) bool { return lower(c | 0x20) }

func (s *scanner) key() string {
	if s.rest == "" || !lower(s.rest[0]) && s.rest[0] != '*' {
		s.bad = true
		return ""
	}
	return s.take(func(c byte) bool { return lower(c) || digit(c) || strings.IndexByte("_-.*", c) >= 0 })
}

// bare reads a bare item.
func (s *scanner) bare() (b bare) {
	if s.rest == "" {
		s.bad = true
		return b
	}
	switch c := s.rest[0]; {
	case c == '-' || digit(c):
		return s.number()
	case c == '"':
		return bare{kind: 's', text: s.quoted()}
	case c == '*' || alpha(c):
		return bare{kind: 't', text: s.take(func(c byte) bool {
			return alpha(c) || digit(c) || strings.IndexByte("!#$%&'*+-.^_`|~:/", c) >= 0
		})}
	case c == ':':
		s.rest = s.rest[1:]
		b = bare{kind: ':', text: s.take(func(c byte) bool { return alpha(c) || digit(c) || strings.IndexByte("+/=", c) >= 0 })}
		s.expect(':')
	case c == '?':
		s.rest = s.rest[1:]
		if b = (bare{kind: '?', text: s.take(digit)}); b.text != "0" && b.text != "1" {
			s.bad = true
		}
	case c == '@':
		s.rest = s.rest[1:]
		if b = s.number(); b.kind != 'i' {
			s.bad = true
		}
		b.kind = '@'
	case c == '%':
		return bare{kind: '%', text: s.display()}
	default:
		s.bad = true
	}
	return b
}

// number reads an integer of at most 15 digits, or a decimal of at most 12 and 3.
func (s *scanner) number() bare {
	all := s.rest
	s.rest = strings.TrimPrefix(s.rest, "-")
	whole, fraction, kind := s.take(digit), "", byte('i')
	if len(whole) > 0 && strings.HasPrefix(s.rest, ".") {
		s.rest, kind = s.rest[1:], 'd'
		fraction = s.take(digit)
	}
	switch {
	case whole == "", kind == 'i' && len(whole) > 15, kind == 'd' && (len(whole) > 12 || fraction == "" || len(fraction) > 3):
		s.bad = true
		return bare{}
	}
	text := all[:len(all)-len(s.rest)]
	n, _ := strconv.ParseFloat(text, 64) // so few digits are always a number
	return bare{kind: kind, text: text, num: n}
}

// quoted reads a string, whose only escapes are \" and \\.
func (s *scanner) quoted() string {
	for i := 1; i < len(s.rest); i++ {
		switch c := s.rest[i]; {
		case c == '"':
			text := s.rest[1:i]
			s.rest = s.rest[i+1:]
			if strings.IndexByte(text, '\\') >= 0 {
				text = unescape.Replace(text)
			}
			return text
		case c == '\\':
			if i++; i == len(s.rest) || s.rest[i] != '"' && s.rest[i] != '\\' {
				s.bad = true
				return ""
			}
		case c < ' ' || c > '~':
			s.bad = true
			return ""
		}
	}
	s.bad = true
	return ""
}

var unescape = strings.NewReplacer(`\"`, `"`, `\\`, `\`)

// display reads a display string, which is a comment here, and leaves it as it is written.
func (s *scanner) display() string {
	s.rest = s.rest[1:]
	s.expect('"')
	all := s.rest
	for !s.bad {
		s.take(func(c byte) bool { return c >= ' ' && c <= '~' && c != '"' && c != '%' })
		if !strings.HasPrefix(s.rest, "%") {
			break
		}
		if len(s.rest) < 3 || !hexDigit(s.rest[1]) || !hexDigit(s.rest[2]) {
			s.bad = true
			return ""
		}
		s.rest = s.rest[3:]
	}
	text := all[:len(all)-len(s.rest)]
	s.expect('"')
	return text
}

func hexDigit(c byte) bool { return digit(c) || c >= 'a' && c <= 'f' }
