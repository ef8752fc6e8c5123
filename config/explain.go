package config

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/gabion-go/gabion/internal/spelled"
	"github.com/gabion-go/gabion/internal/yamlstrict"
	"github.com/gabion-go/gabion/policy"
)

// origins is what Explain needs to know of one dependency.
type origins struct {
	key        yamlstrict.Place // of the dependency itself
	file       string
	defaults   map[string]yamlstrict.Place
	presetName string
	preset     policy.Policy
	own        map[string]yamlstrict.Place
	moot       []string // paths of lower layers without an effect
	wrong      bool     // a key has a mistake
}

// unwritten is what a zero means that no file can say.
var unwritten = map[string]string{
	"bulkhead.queue":      "twice the limit",
	"fleet.lost":          "the last share",
	"hedge.delay":         "none",
	"hedge.percentile":    "none",
	"rate_limit.max_wait": "until the deadline",
}

// Explain returns every effective value of a dependency's policy, in the order of
// the layers that a call goes through, and where each comes from. A section that
// is off is one setting. It returns nil for a name that the file does not have.
func (f *File) Explain(name string) []policy.Setting { return settings(f.explained(name), false) }

func (f view) Reveal(name string) []policy.Setting { return settings(f.explained(name), true) }

// explained is a setting, and its value with variables expanded.
type explained struct {
	policy.Setting
	plain string
}

func settings(all []explained, reveal bool) (s []policy.Setting) {
	for _, x := range all {
		if reveal {
			x.Value = x.plain
		}
		s = append(s, x.Setting)
	}
	return s
}

func (f *File) explained(name string) (all []explained) {
	p, ok := f.Policies[name]
	if !ok {
		return nil
	}
	sources := f.origins[name].sources()
	leaves(reflect.ValueOf(p.Resolved()), "", false, func(path string, v reflect.Value) {
		all = append(all, setting(path, v, sources[path]))
	})
	return all
}

func setting(path string, v reflect.Value, from source) explained {
	s := explained{policy.Setting{Path: path, Source: from.String()}, value(path, v)}
	s.Value = s.plain
	if from.place.Vars != nil {
		s.Value = from.place.Text
	}
	if from.builtin() {
		s.Why = why[path]
	}
	return s
}

func value(path string, v reflect.Value) string {
	if v.Kind() == reflect.Bool && !strings.Contains(path, ".") && path != "safe" || path == "retry.budget" {
		return "off"
	}
	if text := unwritten[path]; text != "" && v.IsZero() {
		return text
	}
	if text := spelled.Value(v); text != "" {
		return text
	}
	return "off" // no such rule
}

// source is where a value comes from; the zero source is the built-in default.
type source struct {
	file, note string
	place      yamlstrict.Place
}

// builtin reports whether neither a file nor a preset sets the value.
func (s source) builtin() bool { return s.place.Line == 0 && s.note == "" }

func (s source) String() string {
	switch {
	case s.builtin():
		return "default"
	case s.place.Line == 0:
		return s.note
	}
	text := fmt.Sprintf("%s:%d", s.file, s.place.Line)
	if s.note != "" {
		text += " (" + s.note + ")"
	}
	for _, name := range s.place.Vars {
		text += ", variable " + name
	}
	return text
}

// sources returns the source of each key that some layer sets.
func (o origins) sources() map[string]source {
	all := map[string]source{}
	o.add(all, o.defaults, "defaults")
	if o.presetName != "" {
		leaves(reflect.ValueOf(o.preset), "", true, func(path string, v reflect.Value) {
			if !v.IsZero() {
				all[path] = source{note: "preset " + o.presetName}
			}
		})
	}
	for _, path := range o.moot {
		delete(all, path)
	}
	o.add(all, o.own, "")
	return all
}

func (o origins) add(all map[string]source, places map[string]yamlstrict.Place, note string) {
	for path, place := range places {
		if !place.Leaf {
			continue
		}
		if target, ok := offTarget[path]; ok {
			path = target
		}
		all[path] = source{file: o.file, note: note, place: place}
	}
}

func (f view) YAML(reveal bool, names ...string) string {
	if len(names) == 0 {
		names = f.Names()
	}
	var b strings.Builder
	fmt.Fprintf(&b, "version: %d\ndependencies:\n", formatVersion)
	if len(names) == 0 {
		b.WriteString("  {}\n")
	}
	for _, name := range names {
		fmt.Fprintf(&b, "  %s:\n", quoteName(name))
		f.write(&b, name, reveal)
	}
	return b.String()
}

// write writes one dependency, opening sections as their first keys come.
func (f *File) write(b *strings.Builder, name string, reveal bool) {
	var open []string
	for _, s := range f.explained(name) {
		if _, none := unwritten[s.Path]; none && s.plain == unwritten[s.Path] {
			continue // only leaving the key out says it
		}
		path := strings.Split(s.Path, ".")
		sections, key := path[:len(path)-1], path[len(path)-1]
		for i, section := range sections {
			if i >= len(open) || open[i] != section {
				fmt.Fprintf(b, "%s%s:\n", indent(i), section)
				open = open[:min(i, len(open))]
				open = append(open, section)
			}
		}
		fmt.Fprintf(b, "%s%s: %s\n", indent(len(sections)), key, scalarText(s, reveal))
	}
}

func indent(depth int) string { return strings.Repeat("  ", depth+2) }

func scalarText(s explained, reveal bool) string {
	if reveal || s.Value == s.plain {
		return s.plain
	}
	return quoteText(s.Value)
}

// quoteName quotes names that YAML would take for something else, such as 007.
func quoteName(name string) string {
	if strings.Trim(name, "0123456789._-eExX") == "" {
		return quoteText(name)
	}
	switch strings.ToLower(name) {
	case "null", "true", "false", "yes", "no", "on", "off", "y", "n":
		return quoteText(name)
	}
	return name
}

// quoteText writes a YAML text in single quotes, where only they are special.
func quoteText(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }
