// Package recorded reads what was measured: latencies, and calls with their times, from
// lines of numbers, CSV and JSON lines.
//
// A file is named in a scenario with what to read of it, such as
//
//	latencies.txt ms
//	latencies.csv, column took ms
//	access.jsonl, at ts, took http.duration ms, status http.code
//
// What a name ends with says what a file is: .csv and .tsv have columns, .jsonl, .ndjson
// and .json have an object a line, and all others have a value a line. What is read is
// bounded.
package recorded

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// units are those of numbers without one.
var units = map[string]time.Duration{
	"ns": time.Nanosecond, "us": time.Microsecond, "µs": time.Microsecond, "ms": time.Millisecond, "s": time.Second, "m": time.Minute, "h": time.Hour,
}

// Part is what to read of each line: a column or field, and the unit of its numbers.
type Part struct {
	Name string        // empty is the whole line
	Unit time.Duration // 0 means that values have theirs
	set  bool
}

// Spec says what to read of which file.
type Spec struct {
	File   string
	Column Part // of latencies
	At     Part // of calls: when they were made
	Took   Part // how long they took; unset means unknown
	Status Part // what they brought
	Begin  string
}

// shape is how a file holds its values.
type shape uint8

const (
	lines shape = iota
	commas
	tabs
	objects
)

func (s *Spec) shape() shape {
	switch strings.ToLower(filepath.Ext(s.File)) {
	case ".csv":
		return commas
	case ".tsv":
		return tabs
	case ".jsonl", ".ndjson", ".json":
		return objects
	}
	return lines
}

// The keys of a spec.
var (
	ofLatencies = []string{"column"}
	ofCalls     = []string{"at", "took", "status", "begin"}
)

// CallForms is how the spec of calls is written, for messages.
const CallForms = "write from calls.txt s, or from calls.csv, at time s, took ms ms, status code"

// parse reads a spec with those keys.
func parse(text string, keys []string) (s Spec, problem string) {
	items := strings.Split(text, ",")
	whole := &s.At
	if slices.Contains(keys, "column") {
		whole = &s.Column
	}
	s.File, whole.Unit = unitOf(items[0])
	if s.File == "" {
		return s, "names no file"
	}
	for _, item := range items[1:] {
		key, rest, _ := strings.Cut(strings.TrimSpace(item), " ")
		rest = strings.TrimSpace(rest)
		part := map[string]*Part{"column": &s.Column, "at": &s.At, "took": &s.Took, "status": &s.Status}[key]
		switch {
		case !slices.Contains(keys, key):
			return s, fmt.Sprintf("has %.60q where one of %s belongs", key, strings.Join(keys, ", "))
		case rest == "":
			return s, "has a " + key + " without a name"
		case key == "begin":
			s.Begin = rest
		case part.set:
			return s, "has " + key + " twice"
		default:
			unit := part.Unit
			if part.Name, part.Unit = unitOf(rest); part.Unit == 0 {
				part.Unit = unit
			}
			part.set = true
		}
	}
	return s, s.problem(whole)
}

func (s *Spec) problem(whole *Part) string {
	switch {
	case s.shape() == lines && (whole.set || s.Took.set || s.Status.set):
		return "names a part of a file that has one value a line; files with parts end with .csv, .tsv or .jsonl"
	case s.shape() != lines && !whole.set:
		return "does not say which column or field to read"
	case s.Status.set && !s.Took.set:
		return "has a status, and no word on how long calls took"
	}
	return ""
}

// unitOf takes a unit from the end of a text that has more than that.
func unitOf(text string) (rest string, unit time.Duration) {
	text = strings.TrimSpace(text)
	if i := strings.LastIndexByte(text, ' '); i > 0 {
		if unit, ok := units[text[i+1:]]; ok {
			return strings.TrimSpace(text[:i]), unit
		}
	}
	return text, 0
}
