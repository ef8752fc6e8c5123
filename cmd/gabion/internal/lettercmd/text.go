package lettercmd

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// text is a text as a terminal may have it: on one line, and with whatever a terminal would
// obey, or would not show, as an escape.
func text(s string) string {
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

// short is text of at most that many characters.
func short(s string, most int) string {
	s = text(s)
	if utf8.RuneCountInString(s) <= most {
		return s
	}
	runes := []rune(s)
	return string(runes[:most-1]) + "…"
}

// column is short text, padded.
func column(s string, width int) string {
	s = short(s, width)
	return s + strings.Repeat(" ", width-utf8.RuneCountInString(s))
}

// or is the text, or what stands for none.
func or(s, none string) string {
	if s == "" {
		return none
	}
	return s
}

func stamp(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format("2006-01-02T15:04:05Z")
}

func size(n int64) string {
	switch {
	case n >= 10<<30:
		return fmt.Sprintf("%d GiB", n>>30)
	case n >= 10<<20:
		return fmt.Sprintf("%d MiB", n>>20)
	case n >= 10<<10:
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d B", n)
}

// count is a number of things.
func count(n int, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, more)
}

// data is text that may be any bytes: in JSON a string where it is UTF-8, and else
// {"base64": "..."}.
type data string

// MarshalJSON implements json.Marshaler.
func (d data) MarshalJSON() ([]byte, error) {
	if utf8.ValidString(string(d)) {
		return compact(string(d))
	}
	return compact(map[string]string{"base64": base64.StdEncoding.EncodeToString([]byte(d))})
}

func compact(v any) ([]byte, error) {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return []byte(strings.TrimSuffix(b.String(), "\n")), err
}
