package house

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"strings"
	"testing"
)

// What a reader can hold in the head. Tests may be longer.
const (
	mostLines   = 400
	mostMethods = 30
	mostFields  = 25
)

// An excess is how large a type may be that is larger than others, and why. Lower it when the type gets
// smaller, and never raise it.
type excess struct {
	fields, methods int
	why             string
}

// large are the types that are larger, by directory and name.
var large = map[string]excess{
	"internal/machine.Call": {27, 140, "the steps of one call, which is the only state that they share"},

	// Data: a field is something that a user reads or sets.
	"policy.Event":                {28, 0, "what one event says"},
	"policy.Numbers":              {37, 0, "the counters of a snapshot"},
	"internal/machine.Rules":      {30, 0, "the settings of a policy, resolved"},
	"internal/recording.line":     {28, 0, "a line of a recording, a field for each of policy.Event"},
	"lab/internal/scenario.Study": {26, 0, "what a run came to, as its JSON has it"},
	"lab/internal/sim.attempt":    {28, 0, "what the simulator knows of an attempt in flight"},
	"contrib/gabionprom.dependency": {33, 0,
		"the counters of a dependency, a field for each metric"},

	// One method for each of many things of one kind, which do not know each other.
	"policy.check":                 {0, 46, "one check a setting"},
	"internal/lint.subject":        {0, 76, "one check a rule"},
	"gabionvet.unit":               {0, 86, "what is known of a package, by question"},
	"internal/grpcconfig.reader":   {0, 42, "one method an element of the format"},
	"lab/internal/scenario.File":   {0, 62, "one check an element of the format"},
	"lab/internal/scenario.reader": {0, 40, "one method an element of the format"},
	"lab/internal/report.sheet":    {0, 64, "one method a part of the page"},
	"lab/internal/report.plot":     {0, 31, "one method a mark of a chart"},

	// One lock guards a state that all methods keep consistent, down to single words of memory: parts of
	// their own would need each other's.
	"internal/breaker.Breaker":   {0, 63, "the breaker's word, window and probes change together"},
	"internal/bulkhead.Bulkhead": {0, 42, "slots and queues change together"},
	"internal/machine.State":     {0, 60, "what the calls of a dependency share"},
	"internal/learned.rule":      {0, 34, "one judgement a window, on one memory"},
	"lab/internal/sim.sim":       {0, 124, "one method a kind of event, on one heap"},
}

// sizes counts the lines of files, and the fields and methods of types, in all modules. Tests and what is generated do not
// count.
func sizes(allowed map[string]excess) rule {
	return func(fsys fs.FS) (found []string, err error) {
		fields, methods, at := map[string]int{}, map[string]int{}, map[string]string{}
		err = walk(fsys, func(name string) error {
			if path.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go") {
				return nil
			}
			text, err := fs.ReadFile(fsys, name)
			if err != nil {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.SkipObjectResolution|parser.ParseComments)
			if err != nil || ast.IsGenerated(file) {
				return err
			}
			if n := bytes.Count(text, []byte("\n")); n > mostLines {
				found = append(found, fmt.Sprintf("%s: has %d lines, and may have %d", name, n, mostLines))
			}
			count(file, func(typ string, f, m int) {
				typ = strings.TrimPrefix(path.Dir(name), ".") + "." + typ
				fields[typ], methods[typ], at[typ] = fields[typ]+f, methods[typ]+m, name
			})
			return nil
		})
		for typ, name := range at {
			bound := allowed[typ]
			if f, m := max(bound.fields, mostFields), max(bound.methods, mostMethods); fields[typ] > f || methods[typ] > m {
				found = append(found, fmt.Sprintf("%s: %s has %d fields and %d methods, and may have %d and %d", name, typ, fields[typ], methods[typ], f, m))
			}
		}
		for typ := range allowed {
			if fields[typ] <= mostFields && methods[typ] <= mostMethods {
				found = append(found, fmt.Sprintf("%s: is as small as others, or gone: it is no exception any more", typ))
			}
		}
		return found, err
	}
}

// count tells of the fields and methods that a file adds to types.
func count(file *ast.File, tell func(typ string, fields, methods int)) {
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Recv != nil {
				tell(receiver(d), 0, 1)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				spec, ok := spec.(*ast.TypeSpec)
				if !ok {
					continue
				}
				switch t := spec.Type.(type) {
				case *ast.StructType:
					tell(spec.Name.Name, listed(t.Fields), 0)
				case *ast.InterfaceType:
					tell(spec.Name.Name, 0, listed(t.Methods))
				}
			}
		}
	}
}

// listed is how many names a list has; what is embedded is one.
func listed(l *ast.FieldList) (n int) {
	for _, f := range l.List {
		n += max(len(f.Names), 1)
	}
	return n
}

func TestSizes(t *testing.T) {
	keep(t, sizes(large), "Take it apart by what it is responsible for, each part with the few fields and the lock that it needs. Methods of an embedded struct count on a reader's head as before.")

	manyFields := "type T struct {\n\ta, b" + strings.Repeat(", x", mostFields-1) + " int\n}\n"
	manyMethods := strings.Repeat("func (t *T[K]) m() {}\n", mostMethods+1)
	prove(t, sizes(map[string]excess{"b.T": {mostFields + 1, mostMethods + 1, "data"}}), []specimen{
		{"as large as it may be", map[string]string{"b/a.go": "package b\n\n" + manyFields + manyMethods}, nil},
		{"a field too many for each type", map[string]string{
			"a.go": "package a\n\n" + manyFields, "b/a.go": "package b\n\n" + manyFields + "type U struct {\n\tT" + strings.Repeat("\n\tx int", mostFields) + "\n}\n",
		}, []string{"a.go: .T has 26 fields and 0 methods, and may have 25 and 30", "b/a.go: b.U has 26 fields and 0 methods"}},
		{"methods in two files, of a module of its own", map[string]string{
			"b/a.go": "package b\n\n" + manyMethods, "b/b.go": "package b\n\nfunc (t T[K]) n() {}\n", "b/go.mod": "",
		}, []string{"b.T has 0 fields and 32 methods, and may have 26 and 31"}},
		{"an interface", map[string]string{
			"b/a.go": "package b\n\n" + manyMethods, "c/a.go": "package c\n\ntype T interface {\n" + strings.Repeat("\tm()\n", mostMethods+1) + "}\n",
		}, []string{"c/a.go: c.T has 0 fields and 31 methods"}},
		{"an exception no longer needed", map[string]string{"b/a.go": "package b\n\ntype T struct{}\n"}, []string{"b.T: is as small as others"}},
		{"a long file, but no test and nothing generated", map[string]string{
			"b/a.go": "package b\n\n" + manyMethods, "c/a.go": "package c\n" + strings.Repeat("\n", mostLines), "c/a_test.go": "package c\n" + strings.Repeat("\n", mostLines),
			"d/a.go": "// Code generated by d. DO NOT EDIT.\n\npackage d\n" + strings.Repeat("\n", mostLines),
		}, []string{"c/a.go: has 401 lines, and may have 400"}},
	})
}
