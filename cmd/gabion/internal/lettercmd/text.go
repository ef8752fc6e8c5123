package lettercmd

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/gabion-go/gabion/cmd/gabion/internal/operator"
)

// text is a text as a terminal may have it.
func text(s string) string { return operator.Text(s) }

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
