// Package report is what the generators of docs/performance.md, docs/stores.md and docs/overload.md share: pages of
// tables, targets with their verdicts, the reading back of both, and what is to be said of the machine.
package report

import (
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Main is the main function of a generator.
func Main(run func() error) {
	flag.Parse()
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "report:", err)
		os.Exit(1)
	}
}

// Command is how the generator was called: by make, unless it has flags.
func Command(target string) string {
	if flag.NFlag() > 0 {
		return "go run ./report " + strings.Join(os.Args[1:], " ")
	}
	return target
}

// Save keeps figures in a file.
func Save(name string, figures any) error {
	text, err := json.MarshalIndent(figures, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	return os.WriteFile(name, text, 0o644)
}

// Load reads figures from a file of Save.
func Load(name string, figures any) error {
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, figures)
}

// Write writes a page, if check can read it back.
func Write(name, text string, check func(text string) error) error {
	if err := check(text); err != nil {
		return fmt.Errorf("%s can't be read back: %w", filepath.Base(name), err)
	}
	return os.WriteFile(name, []byte(text), 0o644)
}

// A Page is a document while it is written.
type Page struct{ strings.Builder }

// Line writes a line.
func (p *Page) Line(format string, args ...any) { fmt.Fprintf(p, format+"\n", args...) }

// Table begins a table whose first columns are text.
func (p *Page) Table(left int, head ...string) {
	p.Cells(head...)
	p.Line("%s|", strings.Repeat("|---", left)+strings.Repeat("|--:", len(head)-left))
}

// Cells writes a row of a table.
func (p *Page) Cells(cells ...string) { p.Line("| %s |", strings.Join(cells, " | ")) }

// Text is what was written.
func (p *Page) Text() string { return strings.TrimRight(p.String(), "\n") + "\n" }

// The verdicts on targets.
const (
	Met         = "met"
	NotMet      = "**not met**"
	NotMeasured = "not measured"
	NotKnown    = "not known" // what was measured differs too much between rounds
)

// Verdict is [Met] or [NotMet]. least says that the bound is a lower one.
func Verdict(measured float64, least bool, bound float64) string {
	if least && measured >= bound || !least && measured <= bound {
		return Met
	}
	return NotMet
}

// A Target is a bound of what is measured.
type Target struct {
	What  string
	Least bool // the bound is a lower one
	Bound float64
	Unit  string // with the space before it, if it has one
}

// Cells are its row: what, the figure if it is known, the bound, and the verdict.
func (t Target) Cells(measured float64, known bool) []string {
	bound := "≤ "
	if t.Least {
		bound = "≥ "
	}
	bound += Decimals(t.Bound) + t.Unit
	if !known {
		return []string{t.What, "–", bound, NotMeasured}
	}
	return []string{t.What, Decimals(measured) + t.Unit, bound, Verdict(measured, t.Least, t.Bound)}
}

// Decimals has three digits that count.
func Decimals(v float64) string {
	switch {
	case math.IsInf(v, 0):
		return "∞"
	case v >= 100 || v == math.Trunc(v):
		return strconv.FormatFloat(v, 'f', 0, 64)
	case v >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(v, 'f', 2, 64)
}
