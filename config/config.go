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
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/gabion-go/gabion/internal/suggest"
	"github.com/gabion-go/gabion/internal/yamlstrict"
	"github.com/gabion-go/gabion/policy"
)

// Version is the version of the file format that this package reads.
const Version = 1

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

	// Facts are what the file says of the world around dependencies, by their names: of
	// those of which it says anything.
	Facts map[string]Facts

	// Program is what the file says of the program that uses it.
	Program Program

	origins map[string]origins
	program map[string]yamlstrict.Place
	facts   yamlstrict.Place     // of the file's facts
	doc     *yamlstrict.Document // of a file from Read only
	broken  bool                 // Read found mistakes
	text    string               // what Parse was given
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
	r := reader{doc: doc, file: &File{Name: name, Policies: map[string]policy.Policy{}, Facts: map[string]Facts{}, origins: map[string]origins{}}}
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
}

// dependency is the shape of one entry under dependencies.
type dependency struct {
	Preset string
	Facts  Facts
	policy.Policy
}

// reader turns a document into a file.
type reader struct {
	doc      *yamlstrict.Document
	file     *File
	found    yamlstrict.Findings
	defaults layer
	shared   policy.Findings // what is wrong with the defaults by themselves
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
}

func (r *reader) fail(at yamlstrict.Place, reason, proposal string) {
	r.found = append(r.found, r.doc.Finding(at.Line, at.Col, reason, proposal))
}

func (r *reader) version(v int, places map[string]yamlstrict.Place) {
	at, written := places["version"]
	switch {
	case !written:
		r.fail(at, "version is missing", fmt.Sprintf("begin with version: %d", Version))
	case v != Version && v != 0: // 0 was a finding already
		r.fail(at, fmt.Sprintf("version %d is not known", v), fmt.Sprintf("write version: %d, or use a newer gabion", Version))
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
	r.shared = slices.DeleteFunc(r.shared, func(f policy.Finding) bool { return f.Unused }) // a dependency may use it
	for _, f := range r.shared {
		r.place("defaults", f, node.Key, places)
	}
}

func (r *reader) readFacts(node yamlstrict.Node) {
	if node.Set() {
		places, found := node.Decode(&r.file.Program)
		r.file.program, r.file.facts = places, node.Key
		r.adopt("facts", found)
		r.judgeFacts("the file", "", r.file.Program, places)
		r.judgeServing()
	}
}

// nameForm keeps names usable as labels, in URLs and on command lines.
var nameForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$`)

func (r *reader) dependency(name string, node yamlstrict.Node) {
	if !nameForm.MatchString(name) {
		r.fail(node.Key, fmt.Sprintf("%.60q is not a name", name), "write letters, digits, dots, dashes and underscores, at most 100")
	}
	var dep dependency // a first reading finds the mistakes and the preset
	places, found := node.Decode(&dep)
	r.adopt(name, found)
	preset, known := policy.Preset(dep.Preset)
	at, written := places["preset"]
	if written && !known && !at.Wrong {
		r.noPreset(name, dep.Preset, at)
	}
	preset = within(dep.Preset, preset, dep.Policy.Timeout.Call, places)
	full := dependency{Policy: overlay(r.defaults.policy, preset)}
	_, _ = node.Decode(&full) // and a second one lays it over the others
	between := presetLayer(preset, known || !written)
	moot := settle(&full.Policy, places)
	for _, f := range judge(full.Policy, places, between, r.defaults.places) {
		if !slices.Contains(r.shared, f) {
			r.place(name, f, node.Key, places, r.defaults.places)
		}
	}
	r.file.Policies[name] = full.Policy
	r.judgeFacts(name, "facts.", full.Facts, places)
	if full.Facts != (Facts{}) {
		r.file.Facts[name] = full.Facts
	}
	r.file.origins[name] = origins{
		key: node.Key, file: r.file.Name, defaults: r.defaults.places,
		presetName: dep.Preset, preset: preset, own: places, moot: moot,
		wrong: anyWrong(places) || r.defaults.wrong,
	}
}

// settle clears what has no effect in a dependency and stands in a lower layer: a
// default for hedges is no mistake of those that do not hedge. It returns the paths.
func settle(p *policy.Policy, own map[string]yamlstrict.Place) (moot []string) {
	found, _ := p.Validate().(policy.Findings)
	for _, f := range found {
		if _, written := own[f.Path]; f.Unused && !written {
			moot = append(moot, f.Path)
		}
	}
	if len(moot) == 0 {
		return nil
	}
	leaves(reflect.ValueOf(p).Elem(), "", true, func(path string, v reflect.Value) {
		if slices.Contains(moot, path) {
			v.SetZero()
		}
	})
	return moot
}

// noPreset says that a preset is not known. An empty one was meant to be one: to go
// on without would drop what it requires.
func (r *reader) noPreset(name, preset string, at yamlstrict.Place) {
	if preset == "" {
		proposal := "leave the key out for no preset"
		if at.Vars != nil {
			proposal = "set " + strings.Join(at.Vars, ", ") + ", or " + proposal
		}
		r.fail(at, fmt.Sprintf("%s: preset: %.60q is empty", name, hide(at, preset)), proposal)
		return
	}
	proposal := "use one of " + strings.Join(policy.PresetNames(), ", ")
	if at.Vars == nil {
		proposal = suggest.For(preset, policy.PresetNames(), proposal)
	}
	r.fail(at, fmt.Sprintf("%s: preset: %.60q is not known", name, hide(at, preset)), proposal)
}

// adopt takes the findings of a part of the file.
func (r *reader) adopt(part string, found yamlstrict.Findings) {
	for _, f := range found {
		f.Reason = part + ": " + f.Reason
		r.found = append(r.found, f)
	}
}

// judge validates a policy. What a pair is together is not known when one of the
// two could not be read; the other findings do not hide it.
func judge(p policy.Policy, layers ...map[string]yamlstrict.Place) policy.Findings {
	found, _ := p.Validate().(policy.Findings)
	return slices.DeleteFunc(found, func(f policy.Finding) bool {
		return f.With != "" && (unread(f.Path, layers) || unread(f.With, layers))
	})
}

// unread reports whether the uppermost layer that has something to say about a
// field, or about a section around it, has a mistake there.
func unread(path string, layers []map[string]yamlstrict.Place) bool {
	for _, places := range layers {
		if p, written := places[path]; written {
			return p.Wrong
		}
		for at := parent(path); at != ""; at = parent(at) {
			if places[at].Wrong {
				return true
			}
		}
	}
	return false
}

// presetLayer returns what a preset sets. If the preset is unknown that may be everything, with unknown
// values.
func presetLayer(p policy.Policy, known bool) map[string]yamlstrict.Place {
	places := map[string]yamlstrict.Place{}
	if known && reflect.ValueOf(p).IsZero() {
		return places
	}
	leaves(reflect.ValueOf(p), "", true, func(path string, v reflect.Value) {
		if !known || !v.IsZero() {
			places[path] = yamlstrict.Place{Wrong: !known}
		}
	})
	return places
}

// place puts a policy's finding where the file says it: at the field, else at the
// other field of the pair, else at the nearest section, else at the name.
func (r *reader) place(part string, f policy.Finding, key yamlstrict.Place, layers ...map[string]yamlstrict.Place) {
	at, other := find(f.Path, layers), find(f.With, layers)
	value, problem, proposal := f.Value, f.Problem, f.Proposal
	switch {
	case f.Unused && at.Vars != nil:
		value = at.Text
	case at.Vars != nil || other.Vars != nil: // they may be secret
		value, problem, proposal = at.Text, "contradicts "+f.With, ""
		if f.With == "" {
			problem = "expands to what is not possible here"
		}
	}
	for path := f.Path; at.Line == 0 && path != ""; path = parent(path) {
		if at = other; at.Line == 0 {
			at, other = find(parent(path), layers), yamlstrict.Place{}
		}
	}
	if at.Line == 0 {
		at = key
	}
	r.fail(at, fmt.Sprintf("%s: %s: %s %s", part, f.Path, value, problem), proposal)
}

func find(path string, layers []map[string]yamlstrict.Place) yamlstrict.Place {
	for _, places := range layers {
		if p, ok := places[path]; ok {
			return p
		}
	}
	return yamlstrict.Place{}
}

func parent(path string) string {
	return path[:max(strings.LastIndexByte(path, '.'), 0)]
}

// hide returns the text of a value as it stands in the file when it came from a
// variable.
func hide(p yamlstrict.Place, value string) string {
	if p.Vars != nil {
		return p.Text
	}
	return value
}
