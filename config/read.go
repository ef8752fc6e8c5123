package config

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/gabion-go/gabion/internal/facts"
	"github.com/gabion-go/gabion/internal/yamlstrict"
	"github.com/gabion-go/gabion/policy"
)

// Read reads of a file's text what can be read, for tools that say what a policy will do.
// The file is never nil. It may hold policies that can't be used: a program takes [Parse].
// A text that is no YAML is read up to the line that is not. The findings are those of
// Parse. See [File.Unread] for what they leave unknown.
func Read(name string, data []byte, opts ...Option) (*File, Findings) {
	o := readOptions()
	for _, opt := range opts {
		if opt.lookup != nil {
			o.Lookup = opt.lookup
		}
	}
	doc, found := yamlstrict.Parse(name, data, o)
	whole := doc
	if len(found) > 0 {
		if doc = beforeTheMistake(name, data, found[0].Line, o); doc == nil {
			return &File{Name: name, Policies: map[string]policy.Policy{}, said: facts.Said{Facts: map[string]facts.Facts{}}, doc: whole, broken: true}, findings(found)
		}
	}
	f, more := readDocument(name, doc)
	f.doc, f.broken = whole, len(found)+len(more) > 0
	return f, findings(append(found, more...).Sort())
}

// beforeTheMistake returns the longest beginning of a text that is YAML, or nil. A section
// that began in the line before is cut off with what it would hold.
func beforeTheMistake(name string, data []byte, line int, o yamlstrict.Options) *yamlstrict.Document {
	if len(data) > yamlstrict.MaxSize {
		return nil
	}
	lines := strings.SplitAfter(string(data), "\n")
	for back, tries := 1, 0; line-back > 0 && tries < 24; tries++ {
		text := strings.Join(lines[:min(line-back, len(lines))], "")
		if doc, found := yamlstrict.Parse(name, []byte(text), o); len(found) == 0 {
			return doc
		}
		if back++; tries >= 12 {
			back *= 2
		}
	}
	return nil
}

// DefaultsName stands for the file's section defaults where the name of a dependency is
// asked for.
const DefaultsName = "defaults"

// Finding returns a finding about one key of a dependency's policy, with its place: where
// the dependency has it, else where the defaults have it, else at the nearest section,
// else at the dependency's name. Keys of facts begin with "facts."; those of the file's own
// facts have no dependency, and neither have those of the proxy, such as "proxy.listen[0].to".
func (f *File) Finding(dependency, path, reason, proposal string) Finding {
	at := f.at(dependency, path)
	if f.doc == nil {
		return Finding{File: f.Name, Line: max(at.Line, 1), Col: max(at.Col, 1), Reason: reason, Proposal: proposal}
	}
	return Finding(f.doc.Finding(at.Line, at.Col, reason, proposal))
}

func (f *File) at(dependency, path string) yamlstrict.Place {
	if dependency == "" {
		for p := path; strings.HasPrefix(p, "proxy"); p = parent(p) {
			if at := f.proxy[p]; at.Line > 0 {
				return at
			}
		}
		for path = strings.TrimPrefix(path, "facts."); path != ""; path = parent(path) {
			if at := f.program[path]; at.Line > 0 {
				return at
			}
		}
		return f.facts
	}
	o := f.origins[dependency]
	for ; path != ""; path = parent(path) {
		if at := find(path, []map[string]yamlstrict.Place{o.own, o.defaults}); at.Line > 0 {
			return at
		}
	}
	return o.key
}

// Written reports whether the dependency, the file's defaults or a preset says anything of a
// key or a section.
func (f *File) Written(dependency, path string) bool {
	if dependency == "" {
		_, ok := f.program[strings.TrimPrefix(path, "facts.")]
		return ok
	}
	o := f.origins[dependency]
	if find(path, []map[string]yamlstrict.Place{o.own, o.defaults}).Line > 0 {
		return true
	}
	if strings.HasPrefix(path, "facts.") {
		return false // they have no other layers
	}
	says := func(at string) bool { return at == path || strings.HasPrefix(at, path+".") }
	for _, places := range []map[string]yamlstrict.Place{o.own, o.defaults} {
		for at, place := range places {
			if target, ok := offTarget[at]; ok && place.Leaf && says(target) {
				return true
			}
		}
	}
	return slices.ContainsFunc(presetPaths()[o.presetName], func(at string) bool { return says(at) && !slices.Contains(o.moot, at) })
}

// presetPaths are the keys that presets set, by their names.
var presetPaths = sync.OnceValue(func() map[string][]string {
	paths := map[string][]string{}
	for _, name := range policy.PresetNames() {
		p, _ := policy.Preset(name)
		leaves(reflect.ValueOf(p), "", true, func(path string, v reflect.Value) {
			if !v.IsZero() {
				paths[name] = append(paths[name], path)
			}
		})
	}
	return paths
})

// Unread reports whether what a file says of a key is not known, because there is a mistake
// in it or in a section around it.
func (f *File) Unread(dependency, path string) bool {
	if !f.broken {
		return false
	}
	if dependency == "" {
		return unread(strings.TrimPrefix(path, "facts."), []map[string]yamlstrict.Place{f.program})
	}
	o := f.origins[dependency]
	if !o.wrong {
		return false
	}
	return unread(path, []map[string]yamlstrict.Place{o.own, presetLayer(o.preset, true), o.defaults})
}

// Change is a value that a key of a dependency is to have. Value is as a file spells it.
type Change struct {
	Dependency string // or DefaultsName, or empty for the file's own facts
	Path       string // such as "retry.attempts"
	Value      string
}

// ErrVariable says that a key's value comes from a variable. Where the program runs it may
// have another value than here, so that a change could make a policy looser there.
var ErrVariable = errors.New("its value comes from a variable")

// Edit returns the text of a file with changes made, and everything else as it was: comments,
// order, spaces. Keys that are missing are added. The outcome says what the changes say: a
// file that is written in a way that can't be changed by itself is an error, as is a change
// that is a mistake, and one of a value that comes from a variable ([ErrVariable]). The text
// is not changed.
func Edit(name string, text []byte, changes []Change, opts ...Option) ([]byte, error) {
	for _, c := range changes {
		next, err := edit(name, text, c, opts)
		if err != nil {
			return nil, fmt.Errorf("%s: %s: %s: %s: %w", name, c.Dependency, c.Path, c.Value, err)
		}
		text = next
	}
	return text, nil
}

func edit(name string, text []byte, c Change, opts []Option) ([]byte, error) {
	path := append([]string{"dependencies", c.Dependency}, strings.Split(c.Path, ".")...)
	switch c.Dependency {
	case DefaultsName:
		path = path[1:]
	case "":
		path = wordsOfFacts(c.Path)
	}
	before, found := Read(name, text, opts...)
	if c.Dependency != "" && c.Dependency != DefaultsName && before.origins[c.Dependency].key.Line == 0 {
		return nil, fmt.Errorf("the file has no such dependency")
	}
	if vars := before.variables(c); len(vars) > 0 {
		return nil, fmt.Errorf("%w: %s", ErrVariable, vars[0])
	}
	next, err := yamlstrict.Edit(text, path, c.Value)
	if err != nil {
		return nil, err
	}
	after, now := Read(name, next, opts...)
	if len(now) > len(found) {
		for _, f := range now {
			if !holds(found, f) {
				return nil, f
			}
		}
	}
	return next, sameBut(before, after, c)
}

// variables are those from which a key takes its value before a change.
func (f *File) variables(c Change) []string {
	if c.Dependency == "" {
		return f.program[strings.TrimPrefix(c.Path, "facts.")].Vars
	}
	for name, o := range f.origins {
		if c.Dependency == DefaultsName {
			return o.defaults[c.Path].Vars
		} else if name == c.Dependency {
			return find(c.Path, []map[string]yamlstrict.Place{o.own, o.defaults}).Vars
		}
	}
	return nil
}

// holds reports whether a finding was there before; lines may have moved.
func holds(found Findings, f Finding) bool {
	for _, g := range found {
		if g.Reason == f.Reason {
			return true
		}
	}
	return false
}

// sameBut reports that a change did what it says, and nothing else.
func sameBut(before, after *File, c Change) error {
	if !reflect.DeepEqual(before.said.Program, after.said.Program) && c.Dependency != "" {
		return yamlstrict.ErrNoEdit
	}
	if path := strings.TrimPrefix(c.Path, "facts."); c.Dependency == "" && after.program[path].Text != strings.Trim(c.Value, "\"'") {
		return yamlstrict.ErrNoEdit
	}
	for name, want := range before.Policies {
		switch {
		case c.Dependency == DefaultsName || name == c.Dependency && strings.HasPrefix(c.Value, "["):
			continue
		case name == c.Dependency && !strings.HasPrefix(c.Path, "facts."):
			var err error
			if want, err = Set(want, c.Path, c.Value); err != nil {
				return err
			}
		}
		if !reflect.DeepEqual(after.Policies[name], want) {
			return yamlstrict.ErrNoEdit
		}
	}
	return nil
}
