package lab

import (
	"io"

	"github.com/gabion-go/gabion/lab/internal/review"
)

// Markdown writes the report as a part of a pull request's comment: who wins, which
// assertions hold and what was measured, the headlines, and which settings differ. What
// stands in a scenario or a policy file does not become markup. The error is w's.
func (r *Report) Markdown(w io.Writer) error { return review.Markdown(w, r.study) }

// JUnit writes the assertions as JUnit XML: a test case for each, of the class of the
// scenario and the dependency that it is about. One that does not hold is a failure with
// its numbers; one that is unresolved is skipped. The error is w's.
func (r *Report) JUnit(w io.Writer) error { return review.JUnit(w, r.study) }
