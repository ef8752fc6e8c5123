// Package fold keeps what gabion prints within 80 columns.
package fold

import (
	"regexp"
	"strings"
	"unicode/utf8"
)

// Width is the most columns of a line that can be broken.
const Width = 80

// column finds where the last column of a line begins: after two blanks or more.
var column = regexp.MustCompile(`^\s*\S+(?: \S+)*\s{2,}`)

// Lines breaks lines that are longer than Width at blanks, with what follows under
// the column that they describe. A word that is longer by itself stays whole, and so
// do excerpts of files, which begin with "  | ".
func Lines(text string) string {
	lines := strings.SplitAfter(text, "\n")
	var b strings.Builder
	for _, line := range lines {
		bare := strings.TrimSuffix(line, "\n")
		if utf8.RuneCountInString(bare) <= Width || strings.HasPrefix(bare, "  | ") && !strings.Contains(bare, "^") {
			b.WriteString(line)
			continue
		}
		b.WriteString(broken(bare) + line[len(bare):])
	}
	return b.String()
}

func broken(line string) string {
	if excerpt, proposal, found := strings.Cut(line, "^ "); found && strings.HasPrefix(line, "  | ") {
		return excerpt + "^\n" + wrap("  = "+proposal, 4)
	}
	hang := len(line) - len(strings.TrimLeft(line, " ")) + 4
	if head := column.FindString(line); head != "" && len(head) <= Width/2 {
		hang = len(head)
	}
	return wrap(line, hang)
}

// wrap breaks one line; the next ones begin with hang blanks.
func wrap(line string, hang int) string {
	var b strings.Builder
	width := 0
	for i, word := range strings.SplitAfter(line, " ") {
		n := utf8.RuneCountInString(word)
		if blank := strings.TrimRight(word, " "); i > 0 && width > hang && width+utf8.RuneCountInString(blank) > Width {
			text := strings.TrimRight(b.String(), " ")
			b.Reset()
			b.WriteString(text + "\n" + strings.Repeat(" ", hang))
			width = hang
		}
		b.WriteString(word)
		width += n
	}
	return strings.TrimRight(b.String(), " ")
}

// Hang breaks one line that is longer than Width, with what follows below its character
// number hang.
func Hang(line string, hang int) string {
	if utf8.RuneCountInString(line) <= Width {
		return line
	}
	return wrap(line, hang)
}
