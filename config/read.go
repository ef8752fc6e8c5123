package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/gabion-go/gabion/internal/facts"
	"github.com/gabion-go/gabion/internal/policyfile"
	"github.com/gabion-go/gabion/internal/yamlstrict"
	"github.com/gabion-go/gabion/policy"
)

// Read reads of a file's text what can be read, for tools that say what a policy will do.
// The file is never nil. It may hold policies that can't be used: a program takes [Parse].
// A text that is no YAML is read up to the line that is not. The findings are those of
// Parse.
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

// view is a file as tools see it: see [policyfile.File].
type view struct{ *File }

func (f view) Finding(dependency, path, reason, proposal string) yamlstrict.Finding {
	at := f.at(dependency, path)
	return f.FindingAt(at.Line, at.Col, reason, proposal)
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

func (f view) Written(dependency, path string) bool {
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

func (f view) Unread(dependency, path string) bool {
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

// edit is [policyfile.Edit].
func edit(name string, text []byte, changes []policyfile.Change) ([]byte, error) {
	for _, c := range changes {
		next, err := editOne(name, text, c)
		if err != nil {
			return nil, fmt.Errorf("%s: %s: %s: %s: %w", name, c.Dependency, c.Path, c.Value, err)
		}
		text = next
	}
	return text, nil
}

func editOne(name string, text []byte, c policyfile.Change) ([]byte, error) {
	path := append([]string{"dependencies", c.Dependency}, strings.Split(c.Path, ".")...)
	switch c.Dependency {
	case policyfile.Defaults:
		path = path[1:]
	case "":
		path = wordsOfFacts(c.Path)
	}
	before, found := Read(name, text)
	if c.Dependency != "" && c.Dependency != policyfile.Defaults && before.origins[c.Dependency].key.Line == 0 {
		return nil, fmt.Errorf("the file has no such dependency")
	}
	if vars := before.variables(c); len(vars) > 0 {
		return nil, fmt.Errorf("%w: %s", policyfile.ErrVariable, vars[0])
	}
	next, err := yamlstrict.Edit(text, path, c.Value)
	if err != nil {
		return nil, err
	}
	after, now := Read(name, next)
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
func (f *File) variables(c policyfile.Change) []string {
	if c.Dependency == "" {
		return f.program[strings.TrimPrefix(c.Path, "facts.")].Vars
	}
	for name, o := range f.origins {
		if c.Dependency == policyfile.Defaults {
			return o.defaults[c.Path].Vars
		} else if name == c.Dependency {
			return find(c.Path, []map[string]yamlstrict.Place{o.own, o.defaults}).Vars
		}
	}
	return nil
}

// holds reports whether a finding was there before; lines may have moved.
func holds(found Findings, f Finding) bool {
	return slices.ContainsFunc(found, func(g Finding) bool { return g.Reason == f.Reason })
}

// sameBut reports that a change did what it says, and nothing else.
func sameBut(before, after *File, c policyfile.Change) error {
	if !reflect.DeepEqual(before.said.Program, after.said.Program) && c.Dependency != "" {
		return yamlstrict.ErrNoEdit
	}
	if path := strings.TrimPrefix(c.Path, "facts."); c.Dependency == "" && after.program[path].Text != strings.Trim(c.Value, "\"'") {
		return yamlstrict.ErrNoEdit
	}
	for name, want := range before.Policies {
		switch {
		case c.Dependency == policyfile.Defaults || name == c.Dependency && strings.HasPrefix(c.Value, "["):
			continue
		case name == c.Dependency && !strings.HasPrefix(c.Path, "facts."):
			var err error
			if want, err = setKey(want, c.Path, c.Value); err != nil {
				return err
			}
		}
		if !reflect.DeepEqual(after.Policies[name], want) {
			return yamlstrict.ErrNoEdit
		}
	}
	return nil
}
