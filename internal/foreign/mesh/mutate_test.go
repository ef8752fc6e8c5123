package mesh

import (
	"math/rand/v2"
	"os"
	"runtime/debug"
	"testing"

	"github.com/gabion-go/gabion/internal/foreign"
	"github.com/gabion-go/gabion/internal/yamlstrict"
)

// odd are values that a file may have where something else is meant.
var odd = []string{
	"", "0", "-1", "1", "2", "3", "64", "100", "101", "150", "503", "4294967295", "4294967296", "1e300", "0.5", ".nan", "-0.0001", "1000000000000",
	"0s", "1ms", "1ns", "0.000001s", "300s", "12h", "13h", "2400000h", "0.25s", "5s", "-3s", "1.5h", "9d", "PT1S", "99999999999s", "0.0000000001s",
	"5xx", "5xx,reset,409,internal", "gateway-error", "100-599", "500-500", "HIGH", "DEFAULT", "consecutive", "true", "false", "~", "stock", "pay", "a.b", "ä\u0000",
}

// mutant changes one value of a tree, in a copy.
func mutant(t *yamlstrict.Tree, draw *rand.Rand, donor *yamlstrict.Tree) *yamlstrict.Tree {
	copied := *t
	t = &copied
	switch at := draw.IntN(len(t.Items) + len(t.Pairs) + 1); {
	case len(t.Items)+len(t.Pairs) == 0 || at == 0 && draw.IntN(20) == 0:
		switch draw.IntN(8) {
		case 0:
			return donor
		case 1:
			t.Kind, t.Items, t.Pairs = yamlstrict.Kind(draw.IntN(6)), nil, nil
		default:
			t.Kind, t.Items, t.Pairs, t.Text = yamlstrict.Kind(1+draw.IntN(3)), nil, nil, odd[draw.IntN(len(odd))]
		}
	case at == 0:
		return mutant(t, draw, donor)
	case at <= len(t.Items):
		t.Items = append([]*yamlstrict.Tree(nil), t.Items...)
		if draw.IntN(30) == 0 {
			t.Items = append(t.Items[:at-1], t.Items[at:]...)
			return t
		}
		t.Items[at-1] = mutant(t.Items[at-1], draw, donor)
	default:
		at -= len(t.Items)
		t.Pairs = append([]yamlstrict.Pair(nil), t.Pairs...)
		if draw.IntN(30) == 0 {
			t.Pairs = append(t.Pairs[:at-1], t.Pairs[at:]...)
			return t
		}
		t.Pairs[at-1].Value = mutant(t.Pairs[at-1].Value, draw, donor)
	}
	return t
}

// anyOf is a value somewhere in a tree.
func anyOf(t *yamlstrict.Tree, draw *rand.Rand) *yamlstrict.Tree {
	for draw.IntN(6) > 0 {
		switch {
		case len(t.Items) > 0:
			t = t.Items[draw.IntN(len(t.Items))]
		case len(t.Pairs) > 0:
			t = t.Pairs[draw.IntN(len(t.Pairs))].Value
		default:
			return t
		}
	}
	return t
}

// TestFilesWithOddValues draws files whose syntax is right and whose values are not: whatever they say, a reader
// returns policies that are valid, names that are there once, and nothing panics.
func TestFilesWithOddValues(t *testing.T) {
	rounds := 6000
	if testing.Short() {
		rounds = 500
	}
	paths := append(files(t), "testdata/lines-istio.yaml", "testdata/lines-envoy.yaml", "testdata/lines-gateway-api.yaml", "testdata/lines-linkerd.yaml")
	draw := rand.New(rand.NewPCG(31, 1))
	for i := range rounds {
		path := paths[i%len(paths)]
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		doc, trees, found := yamlstrict.Trees(path, text)
		if found != nil {
			t.Fatal(found)
		}
		for range 1 + draw.IntN(8) {
			at := draw.IntN(len(trees))
			trees[at] = mutant(trees[at], draw, anyOf(trees[draw.IntN(len(trees))], draw))
		}
		for _, f := range Formats() {
			f.Like(nil, trees)
			func() {
				defer func() {
					if r := recover(); r != nil {
						t.Fatalf("%s, round %d: %v\n%s", path, i, r, debug.Stack())
					}
				}()
				sound(t, f, f.Read(&foreign.File{Name: path, Document: doc, Documents: trees}))
			}()
		}
		if t.Failed() {
			t.Fatalf("%s, round %d", path, i)
		}
	}
}
