package demo

import (
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"golang.org/x/term"
)

// minWidth is the terminal width that the live table needs: a line that wraps
// can't be drawn over.
const minWidth = 80

// paint writes colours, or nothing when it is false.
type paint bool

func (p paint) with(code, s string) string {
	if !p {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

func (p paint) bold(s string) string  { return p.with("1", s) }
func (p paint) dim(s string) string   { return p.with("2", s) }
func (p paint) green(s string) string { return p.with("32", s) }
func (p paint) amber(s string) string { return p.with("33", s) }
func (p paint) red(s string) string   { return p.with("31", s) }

// The shares of calls answered in time at which colours change.
const (
	wellAbove = 0.9
	poorBelow = 0.4
)

// grade colours s by how good a share is.
func (p paint) grade(share float64, s string) string {
	switch {
	case share >= wellAbove:
		return p.green(s)
	case share >= poorBelow:
		return p.amber(s)
	}
	return p.red(s)
}

// screen is what a stream can do.
type screen struct {
	live  bool // lines can be drawn over
	paint paint
}

// screenOf looks at a stream: a pipe, a file and a dumb terminal get plain lines.
func screenOf(w io.Writer) screen {
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) || os.Getenv("TERM") == "dumb" {
		return screen{}
	}
	width, _, err := term.GetSize(int(f.Fd()))
	return screen{live: err == nil && width >= minWidth, paint: os.Getenv("NO_COLOR") == ""}
}

// left and right pad s to a width in runes.
func left(s string, width int) string {
	return s + strings.Repeat(" ", max(0, width-utf8.RuneCountInString(s)))
}

func right(s string, width int) string {
	return strings.Repeat(" ", max(0, width-utf8.RuneCountInString(s))) + s
}

// wrap breaks s into lines of at most width runes, at spaces.
func wrap(s string, width int) []string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(s) {
		if line != "" && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width {
			lines, line = append(lines, line), ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return append(lines, line)
}
