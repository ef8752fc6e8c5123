package anchor

import (
	"fmt"
	"io"
	"strings"

	"github.com/gabion-go/gabion/lab/internal/junit"
)

// verdict says what was expected and what came out, in one line.
func (c *Case) verdict() string {
	return strings.TrimSpace(fmt.Sprintf("measured %.5g, expected %s", c.Measured, c.Bound)) + fmt.Sprintf(" %.5g, with a tolerance of %.3g", c.Expected, c.Tolerance)
}

// JUnit writes cases as JUnit XML, one test case for each, of the class of its anchor. The
// error is w's.
func JUnit(w io.Writer, cases []Case) error {
	suite := junit.Suite{Name: "published results"}
	for i := range cases {
		c := &cases[i]
		class, name, split := strings.Cut(c.Name, ": ")
		if !split {
			class, name = "anchor", c.Name
		}
		made := junit.Case{Class: "anchor." + class, Name: name, Message: c.verdict(), Detail: c.verdict()}
		if !c.Pass {
			made.Outcome = junit.Failed
		}
		suite.Cases = append(suite.Cases, made)
	}
	return junit.Write(w, suite)
}

// Markdown writes how many cases hold, and a table of those that do not. The error is w's.
func Markdown(w io.Writer, cases []Case) error {
	var b strings.Builder
	failing := 0
	for i := range cases {
		c := &cases[i]
		if c.Pass {
			continue
		}
		if failing++; failing == 1 {
			b.WriteString("\n| anchor | result |\n| --- | --- |\n")
		}
		fmt.Fprintf(&b, "| %s | ❌ %s |\n", strings.ReplaceAll(c.Name, "|", "&#124;"), c.verdict())
	}
	head := fmt.Sprintf("✅ all %d published results hold\n", len(cases))
	if failing > 0 {
		head = fmt.Sprintf("❌ %d of %d published results do not hold\n", failing, len(cases))
	}
	_, err := io.WriteString(w, head+b.String())
	return err
}
