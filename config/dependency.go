package config

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/gabion-go/gabion/internal/facts"
	"github.com/gabion-go/gabion/internal/suggest"
	"github.com/gabion-go/gabion/internal/yamlstrict"
	"github.com/gabion-go/gabion/policy"
)

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
	if full.Facts != (facts.Facts{}) {
		r.file.said.Facts[name] = full.Facts
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
	found, _ := p.Validate().(policy.Mistakes)
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
func judge(p policy.Policy, layers ...map[string]yamlstrict.Place) policy.Mistakes {
	found, _ := p.Validate().(policy.Mistakes)
	return slices.DeleteFunc(found, func(f policy.Mistake) bool {
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
func (r *reader) place(part string, f policy.Mistake, key yamlstrict.Place, layers ...map[string]yamlstrict.Place) {
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
	if i := f.Item - 1; i >= 0 && i < len(at.Items) {
		at.Line, at.Col = at.Items[i].Line, at.Items[i].Col
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
