package fold

import (
	"strings"
	"testing"
)

func TestLines(t *testing.T) {
	long := strings.TrimSpace(strings.Repeat("word ", 20))
	for _, c := range []struct{ fact, text, want string }{
		{"short lines stay as they are", "a\n\n  b  c\n", "a\n\n  b  c\n"},
		{"long ones are broken, with an indent", long + "\n", strings.Repeat("word ", 15) + "word\n    word word word word\n"},
		{"under the column that they describe", "  --flag   " + long, "  --flag   " + strings.Repeat("word ", 13) + "word\n           word word word word word word"},
		{"a long word stays whole", strings.Repeat("x", 100), strings.Repeat("x", 100)},
		{"excerpts of files stay as they are", "  | " + long + long, "  | " + long + long},
		{"a proposal that is too long stands below", "  |" + strings.Repeat(" ", 60) + "^ write at most 100%, or budget: off\n", "  |" + strings.Repeat(" ", 60) + "^\n  = write at most 100%, or budget: off\n"},
	} {
		if got := Lines(c.text); got != c.want {
			t.Errorf("%s: got\n%s\nwant\n%s", c.fact, got, c.want)
		}
	}
}
