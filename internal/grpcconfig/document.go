package grpcconfig

import (
	"fmt"
	"sort"
	"strings"
	"unicode/utf8"

	"github.com/gabion-go/gabion/internal/finding"
)

// maxSize is the size of the largest config that is read.
const maxSize = 1 << 20

// maxFindings is how many findings and how many notes a file gets; what follows is more of
// the same.
const maxFindings = 100

// document is the text of a config, and what is said of it.
type document struct {
	name, text string
	found      []Finding
	notes      []Finding
	breaks     []int // where lines end; made by line
}

// Finding is a mistake in a service config, or a note on it.
type Finding struct {
	finding.Finding

	// Differs says that grpc-go judges otherwise: it takes the config that has the mistake,
	// or refuses the one that has the note.
	Differs bool

	Kind Kind // of a note
}

// Kind says what a note is about.
type Kind uint8

// The kinds of notes.
const (
	Means   Kind = iota // something has another meaning here
	Stays               // a part stays gRPC's
	Unknown             // gRPC has no such key
)

// place returns the line and the column, in characters, of an offset.
func (d *document) place(at int) (line, col int) {
	before := d.text[:min(at, len(d.text))]
	line = 1 + strings.Count(before, "\n")
	return line, 1 + utf8.RuneCountInString(before[strings.LastIndexByte(before, '\n')+1:])
}

// line is place's, for many places.
func (d *document) line(at int) int {
	if d.breaks == nil {
		d.breaks = []int{}
		for i := range len(d.text) {
			if d.text[i] == '\n' {
				d.breaks = append(d.breaks, i)
			}
		}
	}
	return 1 + sort.SearchInts(d.breaks, at)
}

func (d *document) finding(at int, reason, proposal string) finding.Finding {
	line, col := d.place(at)
	rest := d.text[min(at, len(d.text)):]
	start := strings.LastIndexByte(d.text[:len(d.text)-len(rest)], '\n') + 1
	end := len(d.text)
	if i := strings.IndexByte(rest, '\n'); i >= 0 {
		end = len(d.text) - len(rest) + i
	}
	return finding.Finding{
		File: d.name, Line: line, Col: col, Snippet: strings.TrimRight(d.text[start:end], " "),
		Reason: finding.Printable(reason), Proposal: finding.Printable(proposal),
	}
}

// there says where something stands, unless there are findings enough: to count takes time.
func (d *document) there(at int) string {
	if len(d.found) >= maxFindings {
		return ""
	}
	line, col := d.place(at)
	return fmt.Sprintf("%d:%d", line, col)
}

// fail notes a mistake; differs says that grpc-go takes it.
func (d *document) fail(at int, differs bool, reason, proposal string) {
	if len(d.found) < maxFindings {
		d.found = append(d.found, Finding{Finding: d.finding(at, reason, proposal), Differs: differs})
	}
}

// note notes what has another meaning, or none; differs says that grpc-go refuses it.
func (d *document) note(at int, differs bool, reason, proposal string) {
	if len(d.notes) < maxFindings {
		d.notes = append(d.notes, Finding{Finding: d.finding(at, reason, proposal), Differs: differs})
	}
}

// noteOf is note of another kind, where grpc-go judges alike.
func (d *document) noteOf(kind Kind, at int, reason, proposal string) {
	if len(d.notes) < maxFindings {
		d.notes = append(d.notes, Finding{Finding: d.finding(at, reason, proposal), Kind: kind})
	}
}

// clip bounds what is repeated of a file.
func clip(s string) string {
	if runes := []rune(s); len(runes) > 60 {
		s = string(runes[:60]) + "…"
	}
	return finding.Printable(s)
}

func quoted(s string) string { return fmt.Sprintf(`"%s"`, clip(s)) }
