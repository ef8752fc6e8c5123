// Package foreign is what the files of other systems say about calls that fail: meshes, proxies,
// and libraries in other languages. A reader of a format returns, for each route or client of a
// file, two policies: one that plays what the other system does, for the lab, and the nearest
// that gabion's file can say. Each value names the line that it comes from, and what has no
// equivalent is said with what then happens.
//
// Nothing here looks at a clock, draws a number, opens a file or calls anything.
package foreign

import (
	"github.com/gabion-go/gabion/internal/finding"
	"github.com/gabion-go/gabion/internal/yamlstrict"
	"github.com/gabion-go/gabion/policy"
)

// Format is a kind of file that is read.
type Format struct {
	Name    string   // as command lines spell it
	Aliases []string // other names that find it
	Title   string   // what it is, in a few words
	Source  string   // the address of the document that says what its keys mean
	Tables  []*Table // what becomes of its keys; nil where Read says it itself
	Plain   bool     // neither YAML nor JSON as YAML takes it: Read parses the text itself

	// Like reports whether a file seems to be of this format. Text is what a file says that is neither YAML
	// nor JSON; documents is empty then.
	Like func(text []byte, documents []*yamlstrict.Tree) bool

	// Read reads a file whose syntax is right.
	Read func(*File) *Import
}

// File is what a format's reader gets.
type File struct {
	Name      string
	Text      []byte
	Document  *yamlstrict.Document // places findings and remarks
	Documents []*yamlstrict.Tree   // empty for formats that are neither YAML nor JSON
	Parts     []Part               // the files that Text is put together of; empty for one
}

// Part is one of several files.
type Part struct {
	Name string
	Line int // where it begins in the text of all
}

// Import is what a file says.
type Import struct {
	Format  string
	Routes  []Route
	Remarks []Remark         // in the order of their lines
	Wrong   finding.Findings // mistakes, for which the other system would refuse the file

	// Stays is the part that the other system still needs, as a file of its own; empty if nothing
	// is left, or if the format has no such part.
	Stays string

	// Choose finds the route that counts for what the other system calls by a name, such as a
	// method. Nil means that routes have no names but their own.
	Choose func(name string) (index int, ok bool)
}

// Route is one set of rules of a file: a route, a client, an upstream. It becomes a dependency.
type Route struct {
	Dependency string // a name for it in gabion's file
	Title      string // what the file calls it: VirtualService shop/stock, http[1]
	Line       int    // where it begins

	// Plays does what the other system does, as near as a policy can. Nothing of it is left to
	// gabion's defaults, and what the file does not say has the other system's default.
	Plays policy.Policy

	// Repeats are the failures that the other system sends again, for the lab: statuses as 503, 5xx or 500-504, codes of
	// gRPC as unavailable and grpc for all of them, refused for what was never sent, reset for a connection that broke
	// after that, and timeout for an attempt without an answer.
	// Nil means those that Plays sends again.
	Repeats []string

	// Policy is the nearest that gabion's file says. What the file does not say keeps gabion's
	// default.
	Policy policy.Policy

	// From says which line each written key of Policy comes from, by its path in gabion's file:
	// "retry.attempts". Keys that stand for a default of the other system have the line of the
	// route.
	From map[string]int
}

// Fate is what becomes of a key of another system.
type Fate uint8

// The fates of keys.
const (
	Kept      Fate = iota // it means the same here
	Nearly                // it means nearly the same; the remark says how it differs, in numbers
	Lost                  // it has no equivalent; the remark says what then happens
	Elsewhere             // it is not about calls that fail and stays where it is, as load balancing
	Unknown               // the format has no such key, or this reader does not know it
)

// Remark says what became of a key.
type Remark struct {
	Line, Col int
	Key       string // its path in the file: spec.http[0].retries.attempts
	Fate      Fate
	Text      string // how it differs, or what happens without it. Empty for Kept
}
