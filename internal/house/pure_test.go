package house

import (
	"go/ast"
	"go/token"
	"path"
	"slices"
	"strings"
	"testing"
)

// What the lower floors may not touch, by import path and name. With any of
// these a decision would depend on when and where it runs, and the lab could not
// replay it.
var impure = map[string][]string{
	"time": {"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker"},
}

// impureImports are forbidden as a whole. Everything below an entry is too.
var impureImports = []string{"context", "math/rand", "crypto/rand", "net", "os"}

// groundOnly is forbidden on the ground floor alone.
var groundOnly = map[string][]string{
	"sync": {"Pool"}, // what it hands out depends on the garbage collector
}

// offline packages read policy and never touch the network. (The other rooms of
// the second floor name net's error types or are handlers.)
var offline = []string{"config", "internal/lint", "lab"}

// purity checks that time and chance stay arguments on the lower floors.
func purity(t *tree) (found []string) {
	for _, p := range t.packs {
		at := plan[p.dir].floor
		for _, file := range p.code() {
			switch {
			case at == ground || at == words:
				found = append(found, impureUses(t, file, impure, groundOnly)...)
				found = append(found, channels(t, file)...)
			case at == first:
				found = append(found, impureUses(t, file, impure)...)
			case slices.Contains(offline, p.dir):
				found = append(found, forbiddenImports(t, file, []string{"net", "net/http"}, false)...)
			}
		}
	}
	return found
}

func impureUses(t *tree, file source, tables ...map[string][]string) (found []string) {
	found = forbiddenImports(t, file, impureImports, true)
	names := importNames(file.ast)
	ast.Inspect(file.ast, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			found = append(found, t.at(n.Pos(), "go statement"))
		case *ast.SelectorExpr:
			if of, name := selected(n, names); forbids(tables, of, name) {
				found = append(found, t.at(n.Pos(), "%s.%s", of, name))
			}
		}
		return true
	})
	return append(found, dotImports(t, file)...)
}

func forbids(tables []map[string][]string, of, name string) bool {
	return slices.ContainsFunc(tables, func(table map[string][]string) bool {
		return slices.Contains(table[of], name)
	})
}

// selected returns the import path and the name of a selection from a package.
func selected(n *ast.SelectorExpr, names map[string]string) (of, name string) {
	if id, ok := n.X.(*ast.Ident); ok {
		return names[id.Name], n.Sel.Name
	}
	return "", ""
}

// importNames maps the names that a file gives its imports to their paths. A
// local variable named like an import counts as the import: name it otherwise.
func importNames(file *ast.File) map[string]string {
	names := map[string]string{}
	for _, spec := range file.Imports {
		p := imported(spec)
		name := path.Base(p)
		if spec.Name != nil {
			name = spec.Name.Name
		}
		names[name] = p
	}
	return names
}

func forbiddenImports(t *tree, file source, forbidden []string, below bool) (found []string) {
	for _, spec := range file.ast.Imports {
		name := imported(spec)
		if name == "net/url" { // which only reads texts
			continue
		}
		if slices.ContainsFunc(forbidden, func(f string) bool {
			return name == f || below && strings.HasPrefix(name, f+"/")
		}) {
			found = append(found, t.at(spec.Pos(), "import of %s", name))
		}
	}
	return found
}

// dotImports finds imports that would hide names from this check.
func dotImports(t *tree, file source) (found []string) {
	for _, spec := range file.ast.Imports {
		if spec.Name != nil && spec.Name.Name == "." {
			found = append(found, t.at(spec.Pos(), "dot import of %s", imported(spec)))
		}
	}
	return found
}

// channels finds channels and what is done with them: they are for goroutines,
// and the ground floor has none.
func channels(t *tree, file source) (found []string) {
	ast.Inspect(file.ast, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ChanType:
			found = append(found, t.at(n.Pos(), "channel"))
		case *ast.SelectStmt:
			found = append(found, t.at(n.Pos(), "select"))
		case *ast.UnaryExpr:
			if n.Op == token.ARROW {
				found = append(found, t.at(n.Pos(), "channel"))
			}
		}
		return true
	})
	return found
}

func TestLowerFloorsArePure(t *testing.T) {
	keep(t, overCode(purity), `Below the front door time is an argument (clock.Instant) and so is chance (a draw in [0,1)): that is why production, sidecar
and simulator run the same code. Take the moment or the draw as a parameter and let the driver provide it.`)

	prove(t, overCode(purity), []specimen{
		{"durations, locks and atomics are fine", map[string]string{
			"internal/breaker/a.go": "package breaker\nimport (\"sync\"; \"sync/atomic\"; \"time\")\nvar d time.Duration\nvar mu sync.Mutex\nvar n atomic.Int64",
		}, nil},
		{"tests and upper floors may", map[string]string{
			"internal/breaker/a_test.go": "package breaker\nimport \"time\"\nvar now = time.Now()",
			"gabion.go":                  "package gabion\nimport (\"context\"; \"time\")\nvar now = time.Now()\nvar ctx context.Context\nfunc f() { go f() }",
		}, nil},
		{"every way to ask for the time", map[string]string{
			"internal/breaker/a.go": `package breaker
import "time"
var (
	a = time.Now
	b = time.Since(t)
	c = time.Until(t)
	d = time.After(1)
	e = time.AfterFunc(1, nil)
	f = time.Tick(1)
	g = time.NewTimer(1)
	h = time.NewTicker(1)
)
func s() { time.Sleep(1) }`,
		}, []string{
			"a.go:10: time.NewTimer", "a.go:11: time.NewTicker", "a.go:13: time.Sleep", "a.go:4: time.Now", "a.go:5: time.Since",
			"a.go:6: time.Until", "a.go:7: time.After", "a.go:8: time.AfterFunc", "a.go:9: time.Tick",
		}},
		{"a renamed import hides nothing", map[string]string{
			"policy/a.go": "package policy\nimport wall \"time\"\nvar a = wall.Now()",
		}, []string{"policy/a.go:3: time.Now"}},
		{"nor does a dot import", map[string]string{
			"policy/a.go": "package policy\nimport . \"time\"\nvar a = Now()",
		}, []string{"policy/a.go:2: dot import of time"}},
		{"chance, context and the world outside", map[string]string{
			"policy/a.go": "package policy\nimport (\n\"math/rand\"\n\"math/rand/v2\"\n\"crypto/rand\"\n\"context\"\n\"net/http\"\n\"os\"\n)",
		}, []string{
			"a.go:3: import of math/rand", "a.go:4: import of math/rand/v2", "a.go:5: import of crypto/rand",
			"a.go:6: import of context", "a.go:7: import of net/http", "a.go:8: import of os",
		}},
		{"goroutines on the lower floors", map[string]string{
			"internal/budget/a.go":  "package budget\nfunc f() {\n\tgo f()\n}",
			"internal/machine/a.go": "package machine\nfunc f() {\n\tfunc() { go f() }()\n}",
		}, []string{"internal/budget/a.go:3: go statement", "internal/machine/a.go:3: go statement"}},
		{"channels and pools on the ground floor", map[string]string{
			"internal/budget/a.go": "package budget\nimport \"sync\"\nvar c = make(chan int)\nvar p sync.Pool\nfunc f() { <-c }\nfunc g() {\nselect {} }",
		}, []string{"a.go:3: channel", "a.go:4: sync.Pool", "a.go:5: channel", "a.go:7: select"}},
		{"the lab serves pages", map[string]string{
			"lab/a.go":    "package lab\nimport _ \"net/http\"",
			"config/a.go": "package config\nimport _ \"net/url\"",
		}, []string{"lab/a.go:2: import of net/http"}},
	})
}
