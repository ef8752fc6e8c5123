package yamlstrict

import (
	"reflect"
	"strings"
	"unicode"
)

// Snake returns the key of a Go field: MaxAfter is max_after, HTTP is http.
func Snake(name string) string {
	var b strings.Builder
	runes := []rune(name)
	for i, r := range runes {
		if i > 0 && unicode.IsUpper(r) &&
			(!unicode.IsUpper(runes[i-1]) || i+1 < len(runes) && unicode.IsLower(runes[i+1])) {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

// Nearest returns the word that s was most likely meant to be, or "". Two
// mistakes are forgiven, and one in short words.
func Nearest(s string, words []string) string {
	if len(s) > 64 {
		return ""
	}
	forms := singulars(Snake(strings.ReplaceAll(s, "-", "_")))
	best, least := "", 3
	for _, form := range forms {
		for _, w := range words {
			if d := distance(form, w); d < least && d <= 1+len(w)/5 {
				best, least = w, d
			}
		}
	}
	for _, form := range forms { // call_timeout for call, rate for failure_rate
		for _, w := range words {
			if best == "" && len(form) >= 4 && (strings.Contains(w, form) || len(w) >= 4 && strings.Contains(form, w)) {
				best = w
			}
		}
	}
	return best
}

// singulars returns s and what it may be the plural of: keys are singular.
func singulars(s string) []string {
	forms := []string{s}
	if stem, ok := strings.CutSuffix(s, "ies"); ok && len(stem) > 1 {
		return append(forms, stem+"y")
	}
	if stem, ok := strings.CutSuffix(s, "s"); ok && len(stem) > 3 {
		forms = append(forms, stem)
	}
	if stem, ok := strings.CutSuffix(s, "es"); ok && len(stem) > 3 {
		forms = append(forms, stem)
	}
	return forms
}

// distance is the number of letters to insert, delete, replace or swap with
// their neighbour (optimal string alignment).
func distance(a, b string) int {
	x, y := []rune(a), []rune(b)
	var prev, last []int
	row := make([]int, len(y)+1)
	for j := range row {
		row[j] = j
	}
	for i, r := range x {
		prev, last, row = last, row, make([]int, len(y)+1)
		row[0] = i + 1
		for j, s := range y {
			cost := 1
			if r == s {
				cost = 0
			}
			row[j+1] = min(last[j+1]+1, row[j]+1, last[j]+cost)
			if i > 0 && j > 0 && r == y[j-1] && x[i-1] == s {
				row[j+1] = min(row[j+1], prev[j-1]+1)
			}
		}
	}
	return row[len(y)]
}

// whereIs returns the section in which a key exists, or "".
func whereIs(key string, t reflect.Type, path string) string {
	if t.Kind() != reflect.Struct {
		return ""
	}
	for _, f := range fieldsOf(t) {
		if f.key == key && path != "" {
			return path
		}
		if found := whereIs(key, f.typ, join(path, f.key)); found != "" {
			return found
		}
	}
	return ""
}
