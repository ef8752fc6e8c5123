package terms

import "fmt"

// TextError says why a text is no value, and what would be one.
type TextError struct {
	Text     string // the text
	Problem  string // what is wrong with it: "has no unit"
	Proposal string // what to write instead
}

// Error returns the whole in one line.
func (e *TextError) Error() string { return fmt.Sprintf("%q %s: %s", e.Text, e.Problem, e.Proposal) }
