package gabionvet_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/checker"
	"golang.org/x/tools/go/packages"

	"github.com/gabion-go/gabion/gabionvet"
)

// A page is the document of a rule, with the code in it.
type page struct{ id, text, bad, good string }

var pages = sync.OnceValues(func() (all []page, err error) {
	names, err := filepath.Glob("../docs/lint/G1*.md")
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		p := page{id: strings.TrimSuffix(filepath.Base(name), ".md"), text: string(text)}
		p.bad, p.good = code(p.text, "Bad"), code(p.text, "Good")
		all = append(all, p)
	}
	return all, err
})

// code is the first block of Go under a heading.
func code(text, heading string) string {
	_, text, _ = strings.Cut(text, "\n## "+heading+"\n")
	text, _, _ = strings.Cut(text, "\n## ")
	_, text, _ = strings.Cut(text, "```go\n")
	text, _, _ = strings.Cut(text, "```")
	return text
}

// imports of the code in pages, by the name that it uses.
var imports = map[string]string{
	"rand": "math/rand/v2", "http": "net/http", "sql": "database/sql", "json": "encoding/json", "gabion": "github.com/gabion-go/gabion",
	"policy": "github.com/gabion-go/gabion/policy", "gabionsql": "github.com/gabion-go/gabion/gabionsql",
	"uuid": "github.com/google/uuid", "retryablehttp": "github.com/hashicorp/go-retryablehttp",
}

func file(name, body string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "package %s\n", name)
	seen := map[string]bool{}
	for _, m := range regexp.MustCompile(`\b([a-z]+)\.[A-Z]`).FindAllStringSubmatch(body, -1) {
		path := imports[m[1]]
		if path == "" && slices.Contains([]string{"bytes", "context", "errors", "fmt", "io", "log", "net", "strings", "sync", "time"}, m[1]) {
			path = m[1]
		}
		if path != "" && !seen[path] {
			seen[path] = true
			fmt.Fprintf(&b, "import %q\n", path)
		}
	}
	return b.String() + "\n" + body
}

// findings runs all rules over packages of code, given by name, and returns the ids found
// in each.
func findings(t *testing.T, code map[string]string) map[string][]string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(filepath.Join(dir, "src"), os.DirFS("testdata/src")); err != nil {
		t.Fatal(err)
	}
	var names []string
	for name, body := range code {
		at := filepath.Join(dir, "src", name)
		if err := os.MkdirAll(at, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(at, "a.go"), []byte(file(name, body)), 0o600); err != nil {
			t.Fatal(err)
		}
		names = append(names, name)
	}
	env := append(os.Environ(), "GOPATH="+dir, "GO111MODULE=off", "GOWORK=off", "GOFLAGS=")
	pkgs, err := packages.Load(&packages.Config{Mode: packages.LoadSyntax, Dir: dir, Env: env}, names...)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range pkgs {
		for _, e := range p.Errors {
			t.Errorf("%s: %v", p.PkgPath, e)
		}
	}
	graph, err := checker.Analyze([]*analysis.Analyzer{gabionvet.Everything}, pkgs, nil)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string][]string{}
	for _, act := range graph.Roots {
		if act.Err != nil {
			t.Errorf("%s: %v", act.Package.PkgPath, act.Err)
		}
		for _, d := range act.Diagnostics {
			found[act.Package.PkgPath] = append(found[act.Package.PkgPath], d.Category)
		}
	}
	return found
}

// Of each page's code the bad is found and nothing is said of the good.
func TestThePagesShowWhatIsFound(t *testing.T) {
	all, err := pages()
	if err != nil {
		t.Fatal(err)
	}
	code := map[string]string{}
	for _, p := range all {
		code["bad"+p.id], code["good"+p.id] = p.bad, p.good
	}
	found := findings(t, code)
	for _, p := range all {
		if !slices.Contains(found["bad"+p.id], p.id) {
			t.Errorf("%s: nothing found in what is bad, but %v", p.id, found["bad"+p.id])
		}
		if len(found["good"+p.id]) > 0 {
			t.Errorf("%s: %v found in what is good", p.id, found["good"+p.id])
		}
	}
}

func TestEachRuleHasAPage(t *testing.T) {
	all, err := pages()
	if err != nil {
		t.Fatal(err)
	}
	list, err := os.ReadFile("../docs/vet.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range gabionvet.Analyzers {
		id := a.Doc[:4]
		i := slices.IndexFunc(all, func(p page) bool { return p.id == id })
		if i < 0 {
			t.Errorf("%s: there is no docs/lint/%s.md", a.Name, id)
			continue
		}
		for _, heading := range []string{"Bad", "Good", "Who got burnt", "When it says nothing"} {
			if !strings.Contains(all[i].text, "\n## "+heading+"\n") {
				t.Errorf("%s has no part %q", id, heading)
			}
		}
		if !strings.Contains(string(list), "["+id+"](lint/"+id+".md)") {
			t.Errorf("docs/vet.md does not list %s", id)
		}
	}
	if len(all) != len(gabionvet.Analyzers) {
		t.Errorf("%d pages for %d rules", len(all), len(gabionvet.Analyzers))
	}
}
