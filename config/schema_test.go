package config

import (
	"bytes"
	"cmp"
	"encoding/json"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gabion-go/gabion/internal/facts"
	"github.com/gabion-go/gabion/internal/spelled"
	"github.com/gabion-go/gabion/internal/testgolden"
	"github.com/gabion-go/gabion/internal/yamlstrict"
	"github.com/gabion-go/gabion/policy"
)

// The schema is made from the structs and their doc comments, so that editors
// show what pkg.go.dev shows.
func TestSchemaIsGenerated(t *testing.T) {
	g := generator{comments(t, "../policy", "../backoff", "../internal/facts", ".")}
	for name, text := range undocumented {
		g.comments[name] = cmp.Or(g.comments[name], text)
	}
	got, err := json.MarshalIndent(g.file(), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	testgolden.File(t, "gabion.schema.json", string(got)+"\n")
}

// undocumented are fields whose meaning stands in their type's comment.
var undocumented = map[string]string{
	"backoff.Backoff.Base": "Base is the wait that grows. Left out, it means 1 s, or 10 ms after a conflict, or cap when that is shorter; off means no wait.",
	"backoff.Backoff.Cap":  "Cap is the longest wait, jitter included. Left out, it means 30 s, or 1 s after a conflict, or base when that is longer.",
}

// object keeps its keys sorted when it is written, which is all that a schema
// needs.
type object map[string]any

type generator struct {
	comments map[string]string // by "policy.Timeout.Call" and "policy.Timeout"
}

const variables = `\$\{.+\}`

func (g generator) file() object {
	shared := g.section(reflect.TypeFor[policy.Policy](), reflect.ValueOf(policy.Policy{}.Resolved()))
	defs := shared["properties"].(object)
	refs := object{}
	properties := object{"preset": object{
		"description": "Preset is the policy to start from.",
		"anyOf":       []any{object{"enum": policy.PresetNames()}, object{"type": "string", "pattern": variables}},
	}}
	properties["facts"] = g.facts(reflect.ValueOf(facts.Facts{}))
	for key := range defs {
		refs[key] = object{"$ref": "#/$defs/" + key}
		properties[key] = refs[key]
	}
	shared["properties"] = refs
	return object{
		"$schema":              "https://json-schema.org/draft/2020-12/schema",
		"title":                "gabion",
		"description":          "How to call dependencies that fail.",
		"type":                 "object",
		"additionalProperties": false,
		"required":             []string{"version"},
		"$defs":                defs,
		"properties": object{
			"version":  object{"description": "Version of the file's format.", "const": formatVersion},
			"facts":    g.facts(reflect.ValueOf(facts.Program{})),
			"proxy":    g.facts(reflect.ValueOf(Proxy{})),
			"defaults": shared,
			"dependencies": object{
				"description":          "The dependencies by name.",
				"type":                 "object",
				"propertyNames":        object{"pattern": nameForm.String()},
				"additionalProperties": object{"type": "object", "additionalProperties": false, "properties": properties},
			},
		},
	}
}

// facts describes a struct of facts, which have no defaults and can't be off.
func (g generator) facts(v reflect.Value) object {
	s := g.section(v.Type(), v)
	known(s)
	return s
}

func known(section object) {
	for _, p := range section["properties"].(object) {
		p := p.(object)
		delete(p, "default")
		if text, ok := p["pattern"].(string); ok {
			p["pattern"] = strings.Replace(text, "^(off|", "^(", 1)
		}
		if kinds, ok := p["anyOf"].([]any); ok {
			p["anyOf"] = slices.DeleteFunc(kinds, func(s any) bool { return s.(object)["const"] == "off" })
		}
		if p["properties"] != nil {
			known(p)
		}
		if entry, ok := p["additionalProperties"].(object); ok {
			known(entry)
		}
		if entry, ok := p["items"].(object); ok && entry["properties"] != nil {
			known(entry)
		}
	}
}

// section describes a struct; v is its default.
func (g generator) section(t reflect.Type, v reflect.Value) object {
	properties := object{}
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Name == "Off" {
			continue
		}
		properties[yamlstrict.Snake(f.Name)] = g.field(t, f, v.Field(i))
	}
	return object{"type": "object", "description": g.comments[t.String()], "additionalProperties": false, "properties": properties}
}

func (g generator) field(of reflect.Type, f reflect.StructField, v reflect.Value) object {
	own := g.comments[of.String()+"."+f.Name]
	if f.Type.Kind() == reflect.Struct {
		s := g.section(f.Type, v)
		if own != "" {
			s["description"] = own
		}
		_, off := f.Type.FieldByName("Off")
		if sectionOff[f.Type] != nil || off {
			description := s["description"]
			delete(s, "description")
			return object{"description": description, "anyOf": []any{s, object{"const": "off"}}}
		}
		return s
	}
	if f.Type.Kind() == reflect.Map {
		entry := g.section(f.Type.Elem(), reflect.Zero(f.Type.Elem()))
		return object{"type": "object", "description": own, "additionalProperties": entry}
	}
	if f.Type.Kind() == reflect.Slice && strings.HasPrefix(f.Type.Elem().Name(), "Proxy") {
		entry := g.section(f.Type.Elem(), reflect.Zero(f.Type.Elem()))
		return object{"type": "array", "description": own, "items": entry}
	}
	s := g.leaf(f.Type)
	if of == reflect.TypeFor[policy.Timeout]() && f.Name == "Attempt" { // see measuredAttempt
		s["pattern"] = strings.Replace(s["pattern"].(string), "^(off|", "^(off|p[0-9]+(\\.[0-9]+)?|", 1)
	}
	for word := range named(strings.TrimPrefix(yamlstrict.Snake(of.Name()), "proxy_") + "." + yamlstrict.Snake(f.Name)) {
		s["anyOf"] = append(s["anyOf"].([]any), object{"const": word})
	}
	if own == "" {
		own = g.comments[f.Type.String()]
	}
	s["description"] = own
	if of == reflect.TypeFor[policy.Bulkhead]() && v.Kind() == reflect.Int && v.IsZero() { // of a learned limit
		v = reflect.ValueOf(policy.Policy{Bulkhead: policy.Bulkhead{Limit: policy.Learned}}.Resolved().Bulkhead).FieldByName(f.Name)
	}
	if text := spelled.Value(v); text != "" && f.Type.Kind() != reflect.Slice {
		s["default"] = jsonDefault(v, text)
	}
	return s
}

func jsonDefault(v reflect.Value, text string) any {
	switch {
	case text == "off":
		return text
	case v.Kind() == reflect.Bool:
		return v.Bool()
	case v.Type() == reflect.TypeFor[int](), v.Type() == reflect.TypeFor[float64]():
		return v.Interface()
	}
	return text
}

func (g generator) leaf(t reflect.Type) object {
	const decimal = `[0-9]+(\.[0-9]+)?`
	text := func(pattern string) object {
		return object{"type": "string", "pattern": "^(off|" + pattern + ")$|" + variables}
	}
	or := func(first ...any) object {
		return object{"anyOf": append(first, object{"type": "string", "pattern": variables})}
	}
	switch {
	case words[t] != nil:
		return or(object{"enum": words[t]})
	case facts.Words[t] != nil:
		return or(object{"enum": facts.Words[t]})
	case t == reflect.TypeFor[[]string](), t == reflect.TypeFor[[]policy.Endpoint](), t == reflect.TypeFor[[]policy.Quota]():
		return object{"type": "array", "items": object{"type": "string"}}
	case t == reflect.TypeFor[time.Duration]():
		return text(`(` + decimal + `(ns|us|µs|ms|s|m|h))+`)
	case t == reflect.TypeFor[policy.Ratio]():
		return text(decimal + `%`)
	case t == reflect.TypeFor[policy.PerSecond]():
		return text(decimal + `/[smh]`)
	case t.Kind() == reflect.Int:
		return or(object{"type": "integer", "minimum": 1}, object{"const": "off"})
	case t.Kind() == reflect.Float64:
		return or(object{"type": "number", "exclusiveMinimum": 0}, object{"const": "off"})
	case t.Kind() == reflect.Bool:
		return or(object{"type": "boolean"})
	case t.Kind() == reflect.String:
		return object{"type": "string"}
	}
	return object{"type": "array", "items": or(object{"type": "integer", "minimum": 100, "maximum": 599})}
}

// comments reads the doc comments of types and fields.
func comments(t *testing.T, dirs ...string) map[string]string {
	all := map[string]string{}
	for _, dir := range dirs {
		files := token.NewFileSet()
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		var parsed []*ast.File
		for _, e := range entries {
			if !strings.HasSuffix(e.Name(), ".go") || strings.HasSuffix(e.Name(), "_test.go") {
				continue
			}
			file, err := parser.ParseFile(files, dir+"/"+e.Name(), nil, parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			parsed = append(parsed, file)
		}
		pkg, err := doc.NewFromFiles(files, parsed, dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, typ := range pkg.Types {
			typeComments(all, pkg.Name+"."+typ.Name, typ)
		}
	}
	return all
}

func typeComments(all map[string]string, name string, typ *doc.Type) {
	all[name] = oneLine(typ.Doc)
	for _, spec := range typ.Decl.Specs {
		s, ok := spec.(*ast.TypeSpec).Type.(*ast.StructType)
		if !ok {
			continue
		}
		for _, f := range s.Fields.List {
			for _, id := range f.Names {
				all[name+"."+id.Name] = oneLine(f.Doc.Text())
			}
		}
	}
}

// goOnly is what doc comments say to Go programmers, and what it is in a file.
var goOnly = strings.NewReplacer("Zero means", "Left out, it means", "; zero means", "; left out, it means", "; Off means", "; off means",
	"[", "", "]", "", "\n", " ")

func oneLine(text string) string {
	return strings.Join(strings.Fields(goOnly.Replace(text)), " ")
}

// A small reading of the schema: each key of the example is known to it, and it
// knows no key that a file can't have.
func TestSchemaKnowsTheKeysOfAPolicy(t *testing.T) {
	var s struct {
		Properties struct {
			Dependencies struct {
				AdditionalProperties struct{ Properties map[string]json.RawMessage }
			}
		}
	}
	if err := json.Unmarshal(Schema(), &s); err != nil {
		t.Fatal(err)
	}
	keys := s.Properties.Dependencies.AdditionalProperties.Properties
	want := reflect.TypeFor[policy.Policy]().NumField() + 2
	if len(keys) != want || keys["rate_limit"] == nil || keys["preset"] == nil {
		t.Errorf("the schema has %d keys for a dependency, want %d", len(keys), want)
	}
	if bytes.Contains(Schema(), []byte(`"description": ""`)) {
		t.Error("a key has no description")
	}
}
