// Package guide compares the tables of docs/migrate with what the tests find, or writes
// them.
package guide

import (
	"os"
	"strings"
	"testing"
)

// Keep compares a table with the one that stands between a page's marks, line by line. With
// update it writes it there instead. It is for tests.
func Keep(t testing.TB, page, mark, table string, update bool, alike func(a, b string) bool) {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(text), "<!-- "+mark+": written by go test ./... -args -update in examples/migrate -->\n")
	inside, after, closed := strings.Cut(rest, "<!-- end -->")
	if !found || !closed {
		t.Fatalf("%s has no table %q", page, mark)
	}
	if update {
		whole := strings.TrimSuffix(string(text), rest) + table + "<!-- end -->" + after
		if err := os.WriteFile(page, []byte(whole), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	is, says := strings.Split(table, "\n"), strings.Split(inside, "\n")
	if len(is) != len(says) {
		t.Fatalf("%s: the table has %d lines, want %d: go test ./... -args -update", page, len(says), len(is))
	}
	for i := range is {
		if !alike(says[i], is[i]) {
			t.Errorf("%s says\n%s\nand this is so:\n%s", page, says[i], is[i])
		}
	}
}
