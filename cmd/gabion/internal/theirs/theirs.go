// Package theirs reads the files of other systems for commands, and says what became of their
// keys.
package theirs

import (
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"

	"github.com/gabion-go/gabion/internal/foreign"
	"github.com/gabion-go/gabion/internal/foreign/formats"
)

// Reading is what files of one format say together.
type Reading = formats.Reading

// maxSize is one byte more than a file may have: readers refuse it in their own words.
const maxSize = 8<<20 + 1

// Open reads files that belong together, all of one format; if that is empty it is guessed.
// - is standard input. The error is of type [finding.Findings] where a file has mistakes, of
// type [formats.NoFormat] where the format is not known, and else says why a file can't be
// read.
func Open(format string, paths ...string) (*formats.Reading, error) {
	var sources []formats.Source
	for _, path := range paths {
		s, err := source(path)
		if err != nil {
			return nil, err
		}
		sources = append(sources, s)
	}
	return formats.Open(format, sources...)
}

func source(path string) (s formats.Source, err error) {
	f, name := os.Stdin, "stdin"
	if path != "-" {
		if f, err = os.Open(path); err != nil {
			return s, err // it names the file
		}
		defer f.Close()
		name = path
	}
	text, err := io.ReadAll(io.LimitReader(f, maxSize))
	return formats.Source{Name: name, Text: text}, err
}

// groups are the fates that are spoken of, and what is written above them.
var groups = []struct {
	fate foreign.Fate
	head string
}{
	{foreign.Nearly, "nearly the same:"},
	{foreign.Lost, "lost:"},
	{foreign.Unknown, "not known, and left out:"},
	{foreign.Elsewhere, "not about calls that fail, and stays where it is:"},
}

// index is the place in a list that a key names.
var index = regexp.MustCompile(`\[\d+\]`)

// Remarks writes what became of keys, in groups. Remarks that say the same of several places
// are written once, and those of keys that stay where they are only counted, unless all is set.
func Remarks(r *formats.Reading, all bool) string {
	var b strings.Builder
	for _, g := range groups {
		var lines []string
		more := map[string]int{} // places beyond the first, by what is said
		at := map[string]int{}
		for _, m := range r.Remarks {
			if m.Fate != g.fate {
				continue
			}
			said := m.Text
			if m.Fate == foreign.Unknown || said == "" {
				said += index.ReplaceAllString(m.Key, "[]")
			}
			if _, have := at[said]; have && !all {
				more[said]++
				continue
			}
			at[said] = len(lines)
			lines = append(lines, said)
			lines[len(lines)-1] = line(r, m)
		}
		switch {
		case len(lines) == 0:
			continue
		case g.fate == foreign.Elsewhere && !all:
			n := len(lines)
			for _, one := range more {
				n += one
			}
			fmt.Fprintf(&b, "%s %d of the keys, which --verbose names\n", g.head, n)
			continue
		}
		for said, n := range more {
			lines[at[said]] += fmt.Sprintf(" (and in %d more places)", n)
		}
		fmt.Fprintln(&b, g.head)
		for _, l := range lines {
			fmt.Fprintln(&b, "  "+l)
		}
	}
	return b.String()
}

func line(r *formats.Reading, m foreign.Remark) string {
	text := r.At(max(m.Line, 1))
	for _, part := range []string{m.Key, m.Text} {
		if part != "" {
			text += ": " + part
		}
	}
	return text
}

// Seem reads a file that is named FORMAT:FILE, or that looks like one of another system. It
// returns nil for any other, which may be gabion's own. The error is one of a file of another
// system.
func Seem(path string) (*formats.Reading, error) {
	if format, file, ok := strings.Cut(path, ":"); ok {
		if _, err := formats.Find(format); err == nil {
			return opened(Open(format, file))
		}
	}
	if path == "-" {
		return nil, nil
	}
	s, err := source(path)
	if err != nil {
		return nil, nil //nolint:nilerr // who reads it as gabion's says so
	}
	r := Read(s.Name, s.Text)
	if r == nil {
		return nil, nil
	}
	return opened(r, nil)
}

// own is a line that only gabion's file has.
var own = regexp.MustCompile(`(?m)^dependencies:`)

// Read reads a text that looks like a file of another system; mistakes are in Wrong. It
// returns nil for any other.
func Read(name string, text []byte) *formats.Reading {
	if own.Match(text) {
		return nil
	}
	f, err := formats.Guess(name, text)
	if err != nil {
		return nil
	}
	return formats.Read(f, formats.Source{Name: name, Text: text})
}

func opened(r *formats.Reading, err error) (*formats.Reading, error) {
	switch {
	case err != nil:
		return nil, err
	case len(r.Wrong) > 0:
		return nil, r.Wrong
	}
	return r, nil
}

// Count says in one line what became of keys.
func Count(r *formats.Reading) string {
	var n [foreign.Unknown + 1]int
	for _, m := range r.Remarks {
		n[m.Fate]++
	}
	return fmt.Sprintf("%s: read as %s: %d keys mean the same, %d nearly the same, %d are lost, %d are not known: gabion import says which\n",
		r.Sources[0].Name, r.Format, n[foreign.Kept], n[foreign.Nearly], n[foreign.Lost], n[foreign.Unknown])
}
