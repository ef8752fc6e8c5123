// Package policyfile is what gabion's own tools ask of a policy file, and users need not: where a key stands, what a
// comment is about, and how a file is changed. Package config sets its functions.
package policyfile

import (
	"errors"

	"github.com/gabion-go/gabion/internal/yamlstrict"
	"github.com/gabion-go/gabion/policy"
)

var (
	// Of returns what tools ask of a *config.File.
	Of func(file any) File

	// Keys returns the paths of all keys and sections of a policy, such as breaker and
	// breaker.open, each section before its keys. Callers may change what they get.
	Keys func() []string

	// Set returns p with one key as a file would set it: "breaker.open" to "5s", "retry" to
	// "off". A key of a section that is off switches the section on. A value is one value and
	// no list. Whether it fits the others is for [policy.Policy.Validate] to say. The error is a
	// *[SetError]; p is not changed.
	Set func(p policy.Policy, path, value string) (policy.Policy, error)

	// Steps returns count values of a key from one to another, spelled as a file would, and
	// fewer where some would be alike. The ends are as given; between them values have two
	// digits. The error is a *[SetError].
	Steps func(path, from, to string, count int, spacing Spacing) ([]string, error)

	// Edit returns the text of a file with changes made, and everything else as it was: comments,
	// order, spaces. Keys that are missing are added. The outcome says what the changes say: a
	// file that is written in a way that can't be changed by itself is an error, as is a change
	// that is a mistake, and one of a value that comes from a variable ([ErrVariable]). The text
	// is not changed.
	Edit func(name string, text []byte, changes []Change) ([]byte, error)
)

// File is a file as tools see it. It is as safe for concurrent use as the file.
type File interface {
	// Comments returns the comments of a file from config.Read, in their order; nil for other files.
	Comments() []yamlstrict.Comment

	// Finding returns a finding about one key of a dependency's policy, with its place: where
	// the dependency has it, else where the defaults have it, else at the nearest section,
	// else at the dependency's name. Keys of facts begin with "facts."; those of the file's own
	// facts have no dependency, and neither have those of the proxy, such as "proxy.listen[0].to".
	Finding(dependency, path, reason, proposal string) yamlstrict.Finding

	// FindingAt returns a finding at a place of the file. Places outside the file become its
	// beginning. Only files from config.Read show the line.
	FindingAt(line, col int, reason, proposal string) yamlstrict.Finding

	// Reveal is File.Explain with variables expanded. The values may be secrets.
	Reveal(name string) []policy.Setting

	// Unread reports whether what a file says of a key is not known, because there is a mistake
	// in it or in a section around it.
	Unread(dependency, path string) bool

	// Written reports whether the dependency, the file's defaults or a preset says anything of a
	// key or a section.
	Written(dependency, path string) bool

	// YAML writes the effective policies of the named dependencies, all when none is
	// named, as a file that means the same. What came from variables stands as the
	// file says it, unless reveal is set.
	YAML(reveal bool, names ...string) string
}

// Defaults stands for the file's section defaults where the name of a dependency is
// asked for.
const Defaults = "defaults"

// Change is a value that a key of a dependency is to have. Value is as a file spells it.
type Change struct {
	Dependency string // or Defaults, or empty for the file's own facts
	Path       string // such as "retry.attempts"
	Value      string
}

// ErrVariable says that a key's value comes from a variable. Where the program runs it may
// have another value than here, so that a change could make a policy looser there.
var ErrVariable = errors.New("its value comes from a variable")

// SetError says what is wrong with a key of a policy, or with its value.
type SetError struct {
	Path     string // as it was given
	Value    string // as it was given
	Problem  string // what is wrong
	Proposal string // what to write instead; may be empty
}

// Error returns the problem and the proposal.
func (e *SetError) Error() string {
	text := e.Path
	if e.Value != "" {
		text += "=" + e.Value
	}
	text += ": " + e.Problem
	if e.Proposal != "" {
		text += ": " + e.Proposal
	}
	return text
}

// Spacing says where the values of a range are.
type Spacing uint8

// The spacings.
const (
	SpacingOfRange Spacing = iota // as SpacingLog if the range reaches tenfold, else as SpacingLinear
	SpacingLinear                 // at equal distances
	SpacingLog                    // in equal ratios
)
