package house

import (
	"fmt"
	"go/scanner"
	"go/token"
	"io/fs"
	"path"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// Words that show a sentence built from another language. The number is how often each may
// stand in the comments and strings of all Go files. The aim is at most 50 each: lower a bound
// when texts are mended, and never raise one.
var worn = map[string]int{
	"nobody":    50,
	"somebody":  15,
	"is none":   16,
	"so many":   32,
	"whoever":   12,
	"is told":   10,
	"meanwhile": 35,
}

// overused makes a rule of how often each word may stand.
func overused(most map[string]int) rule {
	return func(fsys fs.FS) (found []string, err error) {
		var text strings.Builder
		err = walk(fsys, func(name string) error {
			if path.Ext(name) != ".go" {
				return nil
			}
			source, err := fs.ReadFile(fsys, name)
			spoken(&text, source)
			return err
		})
		words := strings.Join(strings.Fields(text.String()), " ")
		for word, bound := range most {
			n := stands(words, word) + stands(words, strings.ToUpper(word[:1])+word[1:]) // and not NoBody, which is net/http's
			if n > bound {
				found = append(found, fmt.Sprintf("%q stands %d times, and may %d times", word, n, bound))
			}
		}
		return found, err
	}
}

// spoken writes the comments and strings of a Go file. The lines of a comment are joined.
func spoken(to *strings.Builder, source []byte) {
	var s scanner.Scanner
	s.Init(token.NewFileSet().AddFile("", -1, len(source)), source, nil, scanner.ScanComments)
	for {
		_, kind, text := s.Scan()
		switch {
		case kind == token.EOF:
			return
		case kind == token.COMMENT, kind == token.STRING:
			to.WriteString(strings.Trim(text, "/*") + " ")
		case kind != token.SEMICOLON || text != "\n":
			to.WriteString("\n.")
		}
	}
}

// stands returns how often a word stands in a text by itself.
func stands(text, word string) (n int) {
	inner := func(r rune) bool { return r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r) }
	for {
		before, after, found := strings.Cut(text, word)
		if !found {
			return n
		}
		last, _ := utf8.DecodeLastRuneInString(before)
		first, _ := utf8.DecodeRuneInString(after)
		if !inner(last) && !inner(first) {
			n++
		}
		text = after
	}
}

func TestPlainLanguage(t *testing.T) {
	keep(t, overused(worn), `Say who does what: "the caller", "an operator", "no request", "the broker gets". git grep -iw the word finds the places.`)

	prove(t, overused(map[string]int{"yonder": 1, "at large": 0}), []specimen{
		{"within the bound, and in names", map[string]string{"a.go": "package a\n\n// Yonder is http.YonDer, and yonders.\nvar yonder, at, large = at - large\n"}, nil},
		{"comments and strings of all modules", map[string]string{
			"a.go": "package a\n\n// yonder\n", "b/go.mod": "", "b/b_test.go": "package b\n\nvar x = `at\nlarge` // yonder\n",
		}, []string{`"at large" stands 1 times, and may 0 times`, `"yonder" stands 2 times, and may 1 times`}},
		{"a comment goes on in the next line", map[string]string{"a.go": "package a\n\n// What is at\n// large.\n"}, []string{`"at large" stands 1`}},
		{"code between two comments parts them", map[string]string{"a.go": "package a\n\n// at\nvar x int // large\n"}, nil},
	})
}
