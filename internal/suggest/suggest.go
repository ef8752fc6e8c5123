// Package suggest says which known word an unknown one was most likely meant to be, and makes names of texts
// that are none.
package suggest

import "strings"

// For is "did you mean x?", x being the nearest of the known words, or otherwise when
// none is near.
func For(typed string, known []string, otherwise string) string {
	if near := Nearest(typed, known); near != "" {
		return "did you mean " + near + "?"
	}
	return otherwise
}

// Nearest returns the known word that typed was most likely meant to be, or "". Two
// mistakes are forgiven, and one in short words. Case, dashes and underscores make no
// difference, and a plural is taken for its singular.
func Nearest(typed string, known []string) string {
	if len(typed) > 64 {
		return ""
	}
	forms := singulars(fold(typed))
	best, least := "", 3
	for _, form := range forms {
		for _, w := range known {
			if d := distance(form, fold(w)); d < least && d <= 1+len(w)/5 {
				best, least = w, d
			}
		}
	}
	if best != "" {
		return best
	}
	for _, form := range forms { // call_timeout for call, rate for failure_rate
		for _, w := range known {
			f := fold(w)
			if len(form) >= 4 && strings.Contains(f, form) || len(form) >= 4 && len(f) >= 4 && strings.Contains(form, f) {
				return w
			}
		}
	}
	return ""
}

var separators = strings.NewReplacer("-", "", "_", "")

func fold(s string) string { return strings.ToLower(separators.Replace(s)) }

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
