// Package testgolden compares what tests make with files, and with parts of pages, that are checked in. With -update the
// tests write them instead: go test -args -update.
package testgolden

import (
	"flag"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write what the tests make into the files that they compare it with")

// Updating reports whether the tests write. It is for those that measure, and that need more time for it.
func Updating() bool { return *update }

// File compares a file with what a test made.
func File(t testing.TB, name, made string) {
	t.Helper()
	if *update {
		write(t, name, made)
		return
	}
	compare(t, name, made, read(t, name))
}

// Part compares what stands in a page between two marks.
func Part(t testing.TB, page, begins, ends, made string) {
	t.Helper()
	before, has, after := cut(t, page, begins, ends)
	if *update {
		write(t, page, before+made+after)
		return
	}
	compare(t, page, made, has)
}

// Measured writes figures of this machine between two marks of a page. They are not the same twice, so they are not compared.
func Measured(t testing.TB, page, begins, ends, made string) {
	t.Helper()
	before, _, after := cut(t, page, begins, ends)
	if *update {
		write(t, page, before+made+after)
	}
}

// cut parts a page after the first mark and before the second.
func cut(t testing.TB, page, begins, ends string) (before, inside, after string) {
	t.Helper()
	before, rest, found := strings.Cut(read(t, page), begins)
	inside, after, closed := strings.Cut(rest, ends)
	if !found || !closed {
		t.Fatalf("%s has no place between %q and %q", page, begins, ends)
	}
	return before + begins, inside, ends + after
}

func compare(t testing.TB, name, made, has string) {
	t.Helper()
	if made == has {
		return
	}
	is, says := strings.Split(made, "\n"), strings.Split(has, "\n")
	i := 0
	for i < min(len(is), len(says))-1 && is[i] == says[i] {
		i++
	}
	t.Errorf("%s differs, from line %d of what is compared on:\n got %s\nwant %s\nIf that is meant: go test -run %s -args -update", name, i+1, is[i], says[i], t.Name())
}

func read(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func write(t testing.TB, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
