package demo

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"strings"
)

// The lines of a document between which the table is kept.
const (
	intoBegin = "<!-- demo -->\n"
	intoEnd   = "<!-- /demo -->"
)

// showable refuses to show others what was partly the machine's doing.
func (r *Report) showable(path string) error {
	if r.LateP99 > lateEnough {
		return fmt.Errorf("%s stays as it is: this machine was busy, and the figures are partly its own", path)
	}
	return nil
}

// writeInto puts the table, and where gabion is behind, into a document in place of
// the one that is there.
func (r *Report) writeInto(path string) error {
	if err := r.showable(path); err != nil {
		return err
	}
	doc, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	before, rest, begins := bytes.Cut(doc, []byte(intoBegin))
	_, after, ends := bytes.Cut(rest, []byte(intoEnd))
	if !begins || !ends {
		return fmt.Errorf("%s has no lines %s and %s", path, strings.TrimSpace(intoBegin), intoEnd)
	}
	var b bytes.Buffer
	b.Write(before)
	b.WriteString(intoBegin + "```\n")
	r.printFigures(&b, false)
	paragraph(&b, "Where gabion is behind:", r.behind())
	fmt.Fprintf(&b, "\n  %d s, seed %d, one call in a hundred began %s late;\n  %d CPUs, %s/%s, %s\n", r.Seconds, r.Seed, duration(r.LateP99), runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, runtime.Version())
	b.WriteString("```\n" + intoEnd)
	b.Write(after)
	return os.WriteFile(path, b.Bytes(), 0o644)
}
