// Package finding shows what is wrong in a file: where it is, why, and what to write instead.
package finding

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// Finding is one mistake in a file.
type Finding struct {
	File      string
	Line, Col int    // both from 1; columns count characters
	Reason    string // what is wrong
	Proposal  string // what to write instead; may be empty
	Snippet   string // the line that it is on
}

// The snippet shows this number of characters before and after the column.
const (
	snippetBefore = 36
	snippetAfter  = 36
)

// Error returns the finding with the line and a caret under its place:
//
//	gabion.yaml:3:12: timeout.call: "250" has no unit
//	  |   timeout: {call: 250}
//	  |                   ^ write 250ms or 250s
func (f Finding) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s:%d:%d: %s", f.File, f.Line, f.Col, f.Reason)
	line, caret := f.crop()
	if line == "" && f.Proposal == "" {
		return b.String()
	}
	fmt.Fprintf(&b, "\n  | %s\n  | %s^", line, strings.Repeat(" ", caret))
	if f.Proposal != "" {
		b.WriteString(" " + f.Proposal)
	}
	return b.String()
}

// crop returns what is shown of the line, and how far in the caret is. A line of
// a megabyte is not shown as a whole, and what a terminal would obey is not shown
// at all.
func (f Finding) crop() (line string, caret int) {
	runes := []rune(f.Snippet)
	at := min(max(f.Col-1, 0), len(runes))
	from, to := max(0, at-snippetBefore), min(len(runes), at+snippetAfter)
	line = Printable(string(runes[from:to]))
	if from > 0 {
		line, caret = "… "+line, 2
	}
	if to < len(runes) {
		line += " …"
	}
	return line, caret + at - from
}

// Printable replaces, character by character, what a terminal would not show.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\t':
			return ' '
		case unicode.IsPrint(r):
			return r
		}
		return '·'
	}, s)
}

// Findings are all the mistakes in a file, in the order of their places.
type Findings []Finding

// Error returns all findings, one below the other.
func (fs Findings) Error() string {
	texts := make([]string, len(fs))
	for i, f := range fs {
		texts[i] = f.Error()
	}
	return strings.Join(texts, "\n")
}

// Sort puts findings in the order of their places and drops those said twice.
func (fs Findings) Sort() Findings {
	slices.SortStableFunc(fs, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Col, b.Col), cmp.Compare(a.Reason, b.Reason))
	})
	return slices.Compact(fs)
}
