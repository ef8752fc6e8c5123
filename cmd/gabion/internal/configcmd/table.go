package configcmd

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/gabion-go/gabion/cmd/gabion/internal/fold"
)

// writeTable writes settings in three columns. A line that would be too long goes on
// below.
func writeTable(b *strings.Builder, lines []line) {
	rows := [][3]string{{"SETTING", "VALUE", "SOURCE"}}
	for _, l := range lines {
		rows = append(rows, [3]string{l.Dependency + "." + l.Path, l.Value, l.Source})
	}
	var widths [2]int
	for _, r := range rows {
		for i := range widths {
			if n := utf8.RuneCountInString(r[i]); n <= fold.Width/2 { // one that is longer stands alone
				widths[i] = max(widths[i], n)
			}
		}
	}
	for _, r := range rows {
		whole := fmt.Sprintf("%-*s  %-*s  %s", widths[0], r[0], widths[1], r[1], r[2])
		if utf8.RuneCountInString(whole) > fold.Width {
			whole = fmt.Sprintf("%-*s  %s\n    %s", widths[0], r[0], r[1], r[2])
			if first, _, _ := strings.Cut(whole, "\n"); utf8.RuneCountInString(first) > fold.Width {
				whole = fmt.Sprintf("%s\n    %s  %s", r[0], r[1], r[2])
			}
		}
		b.WriteString(fold.Lines(whole) + "\n")
	}
}

// writeWhys writes for each default why it is what it is.
func writeWhys(b *strings.Builder, lines []line) {
	for _, l := range lines {
		if l.Why != "" {
			b.WriteString(fold.Lines(fmt.Sprintf("\n%s.%s: %s\n", l.Dependency, l.Path, l.Why)))
		}
	}
}
