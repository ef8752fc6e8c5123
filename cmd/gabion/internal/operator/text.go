package operator

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Text is a text as a terminal may have it: on one line, and with whatever a terminal would
// obey, or would not show, as an escape.
func Text(s string) string {
	if !strings.ContainsFunc(s, unprintable) && utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, s[0])
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == '\r':
			b.WriteString(`\r`)
		case unprintable(r) && r < 0x80:
			fmt.Fprintf(&b, `\x%02x`, r)
		case unprintable(r):
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
		s = s[n:]
	}
	return b.String()
}

// unprintable is true also for what changes the direction of text.
func unprintable(r rune) bool { return r != ' ' && !unicode.IsPrint(r) }
