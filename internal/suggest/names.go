package suggest

import (
	"cmp"
	"fmt"
	"strings"
)

// Names makes names of dependencies that a file of gabion takes, each once.
type Names map[string]int

// Make makes a name of some text: shop/stock becomes shop.stock.
func (n Names) Make(text string) string {
	clean := strings.Map(func(c rune) rune {
		switch {
		case c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '-' || c == '_':
			return c
		case c == '/':
			return '.'
		}
		return '-'
	}, strings.Trim(text, "/"))
	clean = strings.Trim(clean[:min(len(clean), 90)], ".-_")
	clean = cmp.Or(clean, "all")
	name := clean
	for n[name] > 0 {
		n[clean]++
		name = fmt.Sprintf("%s-%d", clean, n[clean])
	}
	n[name] = 1
	return name
}
