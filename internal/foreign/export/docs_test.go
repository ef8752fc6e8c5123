package export

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/gabion-go/gabion/config"
	"github.com/gabion-go/gabion/internal/foreign/formats"
)

// examples are the blocks of YAML on a page: gabion's files, and those of Istio.
func examples(t *testing.T, page string) (ours []*config.File, theirs []string) {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	parts := strings.Split(string(text), "```")
	for i := 1; i < len(parts); i += 2 {
		block, is := strings.CutPrefix(parts[i], "yaml\n")
		switch {
		case !is:
		case strings.HasPrefix(block, "version:"):
			f, err := config.Parse(page, []byte(block))
			if err != nil {
				t.Fatal(err)
			}
			ours = append(ours, f)
		default:
			theirs = append(theirs, block)
		}
	}
	return ours, theirs
}

// Of docs/mesh.md the export is what gabion writes, and in each situation one layer retries and one breaks.
func TestTheSituationsOnThePage(t *testing.T) {
	ours, theirs := examples(t, "../../../docs/mesh.md")
	if len(ours) != 4 || len(theirs) != 3 {
		t.Fatalf("%d files of gabion and %d of Istio", len(ours), len(theirs))
	}
	e := istio().Write(Dependency{Name: "stock", Host: "stock.shop.svc.cluster.local", Policy: ours[0].Policies["stock"]})
	if e.Text != theirs[0] {
		t.Errorf("the page has another export than gabion writes:\n%s", e.Text)
	}
	reader, _ := formats.Find("istio")
	for i, c := range []struct {
		situation               string
		library                 int // of the files of gabion; -1 where the program has none
		meshRetries, meshBreaks bool
	}{{"mesh only", -1, true, true}, {"library only", 1, false, false}, {"both", 2, false, false}} {
		route, err := back(reader, theirs[i])
		if err != nil {
			t.Fatalf("%s: %v", c.situation, err)
		}
		if got := route.Plays.Retry.Attempts > 1; got != c.meshRetries {
			t.Errorf("%s: the mesh retries: %v", c.situation, got)
		}
		if got := !route.Plays.Breaker.Off; got != c.meshBreaks {
			t.Errorf("%s: the mesh breaks for the whole: %v", c.situation, got)
		}
		if c.library >= 0 {
			p := ours[c.library].Policies["stock"].Resolved()
			if p.Retry.Attempts < 2 || p.Breaker.Off {
				t.Errorf("%s: the program does not retry, or has no breaker", c.situation)
			}
		}
	}
	if p := ours[3].Policies["stock"].Resolved(); p.Retry.Attempts != 1 || !p.Breaker.Off {
		t.Error("where the mesh retries the program does, too")
	}
}

// Of docs/export.md each format has a line.
func TestThePageNamesEveryFormat(t *testing.T) {
	text, err := os.ReadFile("../../../docs/export.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range Names() {
		if !slices.ContainsFunc(strings.Split(string(text), "\n"), func(line string) bool { return strings.HasPrefix(line, "| `"+name+"` |") }) {
			t.Errorf("no line for %s", name)
		}
	}
}
