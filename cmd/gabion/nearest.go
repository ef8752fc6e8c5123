package main

// nearest is the command of those whose name is closest to what was typed, or "" when none
// is close: at most two letters off, and at most half of the name.
func nearest(typed string, of []command) string {
	best, distance := "", 3
	for _, c := range append(of[:len(of):len(of)], command{name: "help"}) {
		if d := edits(typed, c.name); d < distance && 2*d <= len(c.name) {
			best, distance = c.name, d
		}
	}
	return best
}

// edits is the Levenshtein distance in bytes, which is what command names are.
func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal, row[j+1] = row[j+1], min(cost, row[j+1]+1, row[j]+1)
		}
	}
	return row[len(b)]
}
