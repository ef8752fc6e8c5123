// Package config reads the one file that configures gabion, the library and the lab.
//
// The file is YAML, and strict: every mistake in it is an error, all of them are
// reported at once, and a file with a mistake changes nothing. Keys are the
// names of [policy.Policy]'s fields in snake_case. A key that is left out has its
// default, and the word off switches a rule or a section off.
//
//	version: 1
//	defaults:
//	  timeout: {call: 10s}
//	dependencies:
//	  payments:
//	    preset: payment
//	    retry: {attempts: 3}
//
// A dependency's policy is made of four layers. A later layer overrides earlier ones, key
// by key: the built-in defaults, the file's defaults, the preset, the dependency's own
// keys. The preset comes after the defaults, because it is about this dependency, and
// the defaults are about all. A section with keys is switched on, even if an earlier
// layer switched it off.
//
// Values may contain ${VAR}, ${VAR:-default} and ${VAR:?message}; $$ is a dollar. They
// are expanded after parsing, so a variable can't inject YAML. A value from a variable is
// not printed unless asked for.
package config

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/gabion-go/gabion/internal/facts"
	"github.com/gabion-go/gabion/internal/yamlstrict"
	"github.com/gabion-go/gabion/policy"
)

const formatVersion = 1

// maxDependencies bounds what a file may name; each costs state in the program.
const maxDependencies = 10_000

// File is a file without mistakes. It is not changed once it is made, and safe for concurrent use as
// long as Policies is only read.
type File struct {
	// Name is the file's name, as it was given to Load or Parse.
	Name string

	// Policies are the policies by the name of the dependency: layers laid
	// together, defaults not written out.
	Policies map[string]policy.Policy

	// Proxy is what the file says under proxy:. The zero Proxy means that it says nothing.
	Proxy Proxy

	said facts.Said // for gabion lint: no call goes by it

	origins map[string]origins
	program map[string]yamlstrict.Place
	facts   yamlstrict.Place            // of the file's facts
	proxy   map[string]yamlstrict.Place // of the proxy, by paths that begin with proxy
	doc     *yamlstrict.Document        // of a file from Read only
	broken  bool                        // Read found mistakes
	text    string                      // what Parse was given
}

// Option changes how a file is read. The zero Option changes nothing.
type Option struct {
	lookup func(name string) (value string, set bool)
}

// Lookup makes variables be looked up in f instead of the environment.
func Lookup(f func(name string) (value string, set bool)) Option {
	return Option{lookup: f}
}

// Finding is one mistake: where it is, what is wrong, what to write instead.
type Finding struct {
	File      string
	Line, Col int    // both from 1; columns count characters
	Reason    string // what is wrong
	Proposal  string // what to write instead; may be empty
	Snippet   string // the line that it is on
}

// Error shows the finding's line, with a caret under its place.
func (f Finding) Error() string { return yamlstrict.Finding(f).Error() }

// Findings are all mistakes of a file, in the order of their places. It is the
// type of the error that Parse returns.
type Findings []Finding

// Error returns all findings, one below the other.
func (fs Findings) Error() string {
	texts := make([]string, len(fs))
	for i, f := range fs {
		texts[i] = f.Error()
	}
	return strings.Join(texts, "\n")
}

func findings(found yamlstrict.Findings) Findings {
	fs := make(Findings, len(found))
	for i, f := range found {
		fs[i] = Finding(f)
	}
	return fs
}

// Load reads the file at path. The error is of type [Findings] when the file has
// mistakes, else it says why it could not be read.
func Load(path string, opts ...Option) (*File, error) {
	data, err := read(path)
	if err != nil {
		return nil, err // it names the file
	}
	return Parse(path, data, opts...)
}

// read stops where Parse would refuse: a path may name something endless.
func read(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, yamlstrict.MaxSize+1))
}

// Parse reads a file's text; name is for messages. The error is of type
// [Findings].
func Parse(name string, data []byte, opts ...Option) (*File, error) {
	o := readOptions()
	for _, opt := range opts {
		if opt.lookup != nil {
			o.Lookup = opt.lookup
		}
	}
	doc, found := yamlstrict.Parse(name, data, o)
	if len(found) > 0 {
		return nil, findings(found)
	}
	f, found := readDocument(name, doc)
	if len(found) > 0 {
		return nil, findings(found)
	}
	f.text = string(data)
	return f, nil
}

func readDocument(name string, doc *yamlstrict.Document) (*File, yamlstrict.Findings) {
	r := reader{doc: doc, file: &File{Name: name, Policies: map[string]policy.Policy{}, said: facts.Said{Facts: map[string]facts.Facts{}}, origins: map[string]origins{}}}
	r.read()
	return r.file, r.found.Sort()
}

// Names returns the names of the dependencies in alphabetical order.
func (f *File) Names() []string {
	names := make([]string, 0, len(f.Policies))
	for name := range f.Policies {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// document is the shape of a file.
type document struct {
	Version      int
	Facts        yamlstrict.Node
	Defaults     yamlstrict.Node
	Dependencies map[string]yamlstrict.Node
	Proxy        yamlstrict.Node
}

// dependency is the shape of one entry under dependencies.
type dependency struct {
	Preset string
	Facts  facts.Facts
	policy.Policy
}

// reader turns a document into a file.
type reader struct {
	doc      *yamlstrict.Document
	file     *File
	found    yamlstrict.Findings
	defaults layer
	shared   policy.Mistakes // what is wrong with the defaults by themselves
}

// layer is a policy and where its keys stand.
type layer struct {
	policy policy.Policy
	places map[string]yamlstrict.Place
	wrong  bool // one of the places has a mistake
}

func anyWrong(places map[string]yamlstrict.Place) bool {
	for _, p := range places {
		if p.Wrong {
			return true
		}
	}
	return false
}

func (r *reader) read() {
	var d document
	places, found := r.doc.Decode(&d)
	r.found = append(r.found, found...)
	r.version(d.Version, places)
	r.readFacts(d.Facts)
	r.readDefaults(d.Defaults)
	if len(d.Dependencies) > maxDependencies {
		at := places["dependencies"]
		r.fail(at, fmt.Sprintf("%d dependencies", len(d.Dependencies)), fmt.Sprintf("a file may have %d", maxDependencies))
		return
	}
	for name, node := range d.Dependencies {
		r.dependency(name, node)
	}
	r.readProxy(d.Proxy, d.Dependencies)
}

func (r *reader) fail(at yamlstrict.Place, reason, proposal string) {
	r.found = append(r.found, r.doc.Finding(at.Line, at.Col, reason, proposal))
}

func (r *reader) version(v int, places map[string]yamlstrict.Place) {
	at, written := places["version"]
	switch {
	case !written:
		r.fail(at, "version is missing", fmt.Sprintf("begin with version: %d", formatVersion))
	case v != formatVersion && v != 0: // 0 was a finding already
		r.fail(at, fmt.Sprintf("version %d is not known", v), fmt.Sprintf("write version: %d, or use a newer gabion", formatVersion))
	}
}

func (r *reader) readDefaults(node yamlstrict.Node) {
	if !node.Set() {
		return
	}
	places, found := node.Decode(&r.defaults.policy)
	r.defaults.places, r.defaults.wrong = places, anyWrong(places)
	r.adopt("defaults", found)
	r.shared = judge(r.defaults.policy, places)
	r.shared = slices.DeleteFunc(r.shared, func(f policy.Mistake) bool { return f.Unused }) // a dependency may use it
	for _, f := range r.shared {
		r.place("defaults", f, node.Key, places)
	}
}

func (r *reader) readFacts(node yamlstrict.Node) {
	if node.Set() {
		places, found := node.Decode(&r.file.said.Program)
		r.file.program, r.file.facts = places, node.Key
		r.adopt("facts", found)
		r.judgeFacts("the file", "", r.file.said.Program, places)
		r.judgeServing()
	}
}

// nameForm keeps names usable as labels, in URLs and on command lines.
