package scenario

import (
	"bytes"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gabion-go/gabion/internal/outcome"
	"github.com/gabion-go/gabion/internal/testgolden"
	"github.com/gabion-go/gabion/internal/yamlstrict"
	"github.com/gabion-go/gabion/lab/internal/sim"
)

// object keeps its keys sorted when it is written.
type object map[string]any

// The schema is made of the structs and their doc comments.
func TestSchemaIsGenerated(t *testing.T) {
	got, err := json.MarshalIndent(schemaOf(t), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	testgolden.File(t, "scenario.schema.json", string(got)+"\n")
	if bytes.Contains(got, []byte(`"description": ""`)) {
		t.Error("a key has no description")
	}
}

func schemaOf(t *testing.T) object {
	g := generator{docs: comments(t)}
	s := g.section(reflect.TypeFor[document]())
	s["$schema"], s["title"] = "https://json-schema.org/draft/2020-12/schema", "gabion lab scenario"
	s["description"] = "A world in a file: clients, services, load, and what goes wrong when."
	s["required"] = []string{"version", "title", "duration", "clients", "services"}
	p := s["properties"].(object)
	p["version"] = object{"description": g.docs["document.Version"], "const": Version}
	list := func(key string, item object) { p[key].(object)["items"] = item }
	table := func(key string, item object) {
		p[key].(object)["additionalProperties"] = item
		p[key].(object)["propertyNames"] = object{"pattern": nameForm.String()}
	}
	list("faults", g.faults())
	list("assert", object{"type": "string", "maxLength": 200, "pattern": assertionPattern(), "examples": []string{"amplification(db) <= 1.2 during faults", "recovery <= 30s p80", "stuck <= 1%"}})
	calls := object{"type": "array", "description": g.docs["fleet.Calls"], "items": g.section(reflect.TypeFor[edge]())}
	fleets, services := g.section(reflect.TypeFor[fleet]()), g.section(reflect.TypeFor[service]())
	fleets["properties"].(object)["load"].(object)["items"] = g.section(reflect.TypeFor[loadStep]())
	fleets["properties"].(object)["calls"], services["properties"].(object)["calls"] = calls, calls
	table("clients", fleets)
	table("services", services)
	policies := object{"$ref": "../../../config/gabion.schema.json#/properties/dependencies", "description": g.docs["document.Policies"]}
	p["policies"] = policies
	p["against"] = object{"description": g.docs["document.Against"], "anyOf": []any{object{"enum": rivals}, policies}}
	return s
}

type generator struct{ docs map[string]string }

// faults says which keys each kind of fault has, and which it needs.
func (g generator) faults() object {
	made := g.section(reflect.TypeFor[fault]())
	made["required"] = []string{"kind", "at"}
	var each []any
	for i, kind := range kinds {
		keys, needed := faultKeys(sim.Kind(i))
		each = append(each, object{
			"if":   object{"properties": object{"kind": object{"const": kind}}, "required": []string{"kind"}},
			"then": object{"propertyNames": object{"enum": keys}, "required": needed},
		})
	}
	made["allOf"] = each
	return made
}

func (g generator) section(t reflect.Type) object {
	p := object{}
	for _, f := range reflect.VisibleFields(t) {
		leaf := g.leaf(f.Type)
		if text := g.docs[t.Name()+"."+f.Name]; text != "" {
			leaf["description"] = text
		}
		p[yamlstrict.Snake(f.Name)] = leaf
	}
	return object{"type": "object", "additionalProperties": false, "properties": p}
}

func (g generator) leaf(t reflect.Type) object {
	if s, ok := spellings(nil)[t]; ok && s.Words != nil {
		return object{"enum": s.Words}
	}
	switch t {
	case reflect.TypeFor[whole]():
		return object{"type": "integer", "minimum": 1}
	case reflect.TypeFor[slots](), reflect.TypeFor[places]():
		word := map[reflect.Type]string{reflect.TypeFor[slots](): "learned", reflect.TypeFor[places](): "none"}[t]
		return object{"anyOf": []object{{"type": "integer", "minimum": 1}, {"const": word}}}
	case reflect.TypeFor[factor]():
		return object{"type": "number", "exclusiveMinimum": 0}
	case reflect.TypeFor[span](), reflect.TypeFor[instant]():
		return object{"type": "string", "pattern": `^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$`}
	case reflect.TypeFor[share](), reflect.TypeFor[percent]():
		return object{"type": "string", "pattern": `^[0-9]+(\.[0-9]+)?%$`}
	case reflect.TypeFor[rate]():
		return object{"type": "string", "pattern": `^[0-9]+(\.[0-9]+)?/[smh]$`}
	case reflect.TypeFor[dist]():
		var examples []string
		for _, f := range distForms() {
			examples = append(examples, f.example)
		}
		return object{"type": "string", "pattern": distPattern(), "examples": append(examples, "90% 20ms | 10% exp 1s", "exp 20ms + 5ms")}
	case reflect.TypeFor[window]():
		return object{"type": "string", "pattern": "^" + durationPattern + `\.\.` + durationPattern + "$", "examples": []string{"2m..3m"}}
	case reflect.TypeFor[allowance]():
		return object{"type": "string", "pattern": `^[0-9]+(\.[0-9]+)? [a-z][a-z0-9_-]{0,31}(/[0-9a-z.]+)?( window)?$`, "examples": []string{"500 requests/1m", "25 usd/24h window"}}
	case reflect.TypeFor[usage]():
		return object{"type": "string", "pattern": usagePattern, "examples": []string{"900 tokens", "lognormal 700/5000 tokens", "90% 500 | 10% exp 5000 tokens"}}
	case reflect.TypeFor[failing]():
		return object{"type": "string", "pattern": failingPattern, "examples": []string{"502 60%", "unavailable 30%", "reset 5%", "refused 5%"}}
	case reflect.TypeFor[replay]():
		return object{"type": "string", "pattern": `^from +\S.*$`, "examples": []string{"from calls.csv, at time s, took ms ms, status code"}}
	}
	switch t.Kind() {
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.Int:
		return object{"type": "integer"}
	case reflect.String:
		return object{"type": "string"}
	case reflect.Slice:
		if t.Elem() == reflect.TypeFor[yamlstrict.Node]() {
			return object{"type": "array"}
		}
		return object{"type": "array", "items": g.leaf(t.Elem())}
	case reflect.Map:
		return object{"type": "object"}
	}
	if t == reflect.TypeFor[yamlstrict.Node]() {
		return object{}
	}
	return g.section(t)
}

// comments reads the doc comments of the fields of the file's structs.
func comments(t *testing.T) map[string]string {
	docs := map[string]string{}
	for _, name := range []string{"shape.go", "shape_service.go"} {
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if spec, ok := n.(*ast.TypeSpec); ok {
				commentsOf(spec, docs)
			}
			return true
		})
	}
	return docs
}

// commentsOf adds the doc comments of a struct's fields.
func commentsOf(spec *ast.TypeSpec, docs map[string]string) {
	s, ok := spec.Type.(*ast.StructType)
	if !ok {
		return
	}
	for _, field := range s.Fields.List {
		for _, name := range field.Names {
			docs[spec.Name.Name+"."+name.Name] = strings.Join(strings.Fields(field.Doc.Text()), " ")
		}
	}
}

// assertionPattern is what an assertion looks like, for the schema.
func assertionPattern() string {
	var ops []string
	for _, op := range operators {
		ops = append(ops, regexp.QuoteMeta(op))
	}
	name := strings.Trim(nameForm.String(), "^$")
	keys := strings.Replace(strings.Join(metricKeys(), "|"), ResentKey+"503", ResentKey+"([45][0-9][0-9]|"+strings.Join(outcome.CodeWords(), "|")+"|"+outcome.Reset+"|"+outcome.Refused+"|"+outcome.Timeout+")", 1)
	return "^ *(" + keys + `)( *\( *` + name + ` *\))? *(` + strings.Join(ops, "|") + ") *[0-9][^ ]*( +p" + numberPattern + ")?( +(" + strings.Join(phases, "|") + ")( +(the +)?faults)?)? *$"
}

// distPattern is what a distribution looks like, for the schema.
func distPattern() string {
	var all []string
	for _, f := range distForms() {
		all = append(all, strings.TrimPrefix(f.word+" +"+f.pattern, " +"))
	}
	plain := "(" + strings.Join(all, "|") + `)( \+ *` + durationPattern + ")?"
	part := numberPattern + "% +" + plain
	return "^(" + plain + "|" + part + `( *\| *` + part + ")+)$"
}

// metricKeys are the keys of all metrics that some file has.
func metricKeys() (keys []string) {
	f := &File{fleets: []namedFleet{{name: "a", queued: true}, {name: "b", calls: withAll}}, services: []namedService{{name: "c", service: withQuotas}}, faults: withAnswers}
	for _, d := range slices.Concat(f.defs(), ofRun) {
		if !slices.Contains(keys, d.key) {
			keys = append(keys, d.key)
		}
	}
	return keys
}

// withAnswers is a fault that has all that metrics are about, of the first service.
var withAnswers = []namedFault{{fault: fault{Answers: []failing{{Status: 503}}}}}

// withQuotas is a service that has all that metrics are about.
var withQuotas = service{Quotas: quotas{List: []allowance{{}}}}

// withAll are calls that have all that metrics are about.
var withAll = []namedEdge{{edge: edge{Cache: cache{Keys: 1}, Connections: connections{Size: 1}}}}
