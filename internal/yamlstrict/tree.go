package yamlstrict

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v4"
)

// Kind is what a value is.
type Kind uint8

// The kinds of values.
const (
	Null Kind = iota
	Bool
	Number
	Text
	List
	Map
)

// Tree is a value of a file that another system reads, and where it stands. The methods of nil
// are those of a value that is not there.
type Tree struct {
	Kind      Kind
	Line, Col int    // both from 1; columns count characters
	Text      string // of a scalar what it says
	Items     []*Tree
	Pairs     []Pair // of a map, in the order of the file
}

// Pair is a key with its value.
type Pair struct{ Key, Value *Tree }

// Get returns the value of a key; of several that are alike the last. It is nil where t is no
// map or has no such key.
func (t *Tree) Get(key string) *Tree {
	if t == nil {
		return nil
	}
	for i := len(t.Pairs) - 1; i >= 0; i-- {
		if t.Pairs[i].Key.Text == key {
			return t.Pairs[i].Value
		}
	}
	return nil
}

// maxForeign is the size of the largest file of another system, and maxValues how many values
// it may have once its aliases are expanded.
const (
	maxForeign = 8 << 20
	maxValues  = 1 << 20
)

// Trees reads a file of another system: one or more documents of YAML, or JSON. Unlike Parse it
// asks for nothing but syntax. Keys that stand twice are findings, as are aliases that expand to
// more than a million values. The document is for findings of the caller's own.
func Trees(name string, data []byte) (doc *Document, all []*Tree, found Findings) {
	doc = &Document{name: name}
	if len(data) > maxForeign {
		return doc, nil, Findings{doc.Finding(1, 1, fmt.Sprintf("the file has more than %d bytes", maxForeign), "split it")}
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	doc.lines = strings.Split(strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(string(data)), "\n")
	if f, ok := doc.notUTF8(); ok {
		return doc, nil, Findings{f}
	}
	if f, ok := doc.tooDeep(); ok {
		return doc, nil, Findings{f}
	}
	defer func() {
		if r := recover(); r != nil {
			all, found = nil, Findings{doc.Finding(1, 1, "the file can't be parsed", "look for a broken quote or bracket")}
		}
	}()
	in := yaml.NewDecoder(bytes.NewReader(spacesForTabs(data)))
	grower := &grower{doc: doc}
	for {
		var root yaml.Node
		switch err := in.Decode(&root); {
		case errors.Is(err, io.EOF):
			return doc, all, grower.found
		case err != nil:
			return doc, nil, doc.syntax(err)
		}
		if len(root.Content) == 0 || empty(root.Content[0]) {
			continue
		}
		tree := grower.grow(root.Content[0], 0)
		if grower.values > maxValues {
			return doc, nil, Findings{doc.Finding(root.Line, root.Column, "the file's aliases expand to more than a million values", "write fewer aliases")}
		}
		all = append(all, tree)
	}
}

// spacesForTabs lets JSON be indented with tabs, which YAML refuses. Columns stay what they are.
func spacesForTabs(data []byte) []byte {
	trimmed := bytes.TrimLeft(data, " \t\r\n")
	if len(trimmed) == 0 || trimmed[0] != '{' && trimmed[0] != '[' {
		return data
	}
	out, quoted := bytes.Clone(data), false
	for i := 0; i < len(out); i++ {
		switch {
		case quoted && out[i] == '\\':
			i++
		case out[i] == '"':
			quoted = !quoted
		case out[i] == '\t' && !quoted:
			out[i] = ' '
		}
	}
	return out
}

// grower makes trees of the parser's nodes.
type grower struct {
	doc    *Document
	values int
	found  Findings
}

func (g *grower) grow(n *yaml.Node, depth int) *Tree {
	t := &Tree{Line: n.Line, Col: n.Column}
	if g.values++; g.values > maxValues || depth > 200 {
		g.values = max(g.values, maxValues+1)
		return t
	}
	switch n.Kind {
	case yaml.AliasNode:
		grown := g.grow(n.Alias, depth+1)
		grown.Line, grown.Col = n.Line, n.Column
		return grown
	case yaml.SequenceNode:
		t.Kind = List
		for _, c := range n.Content {
			t.Items = append(t.Items, g.grow(c, depth+1))
		}
	case yaml.MappingNode:
		t.Kind = Map
		g.pairs(t, n, depth)
	default:
		t.Kind, t.Text = kindOf(n), n.Value
	}
	return t
}

func (g *grower) pairs(t *Tree, n *yaml.Node, depth int) {
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := g.grow(n.Content[i], depth+1), g.grow(n.Content[i+1], depth+1)
		if key.Text == "<<" && value.Kind == Map { // YAML's merge: what stands beside it wins
			t.Pairs = append(value.Pairs[:len(value.Pairs):len(value.Pairs)], t.Pairs...)
			continue
		}
		if seen[key.Text] && len(g.found) < 100 {
			g.found = append(g.found, g.doc.Finding(key.Line, key.Col, "the key "+clip(key.Text)+" stands twice in one mapping", "remove one"))
		}
		seen[key.Text] = true
		t.Pairs = append(t.Pairs, Pair{key, value})
	}
}

func kindOf(n *yaml.Node) Kind {
	switch n.ShortTag() {
	case "!!null":
		return Null
	case "!!bool":
		return Bool
	case "!!int", "!!float":
		return Number
	}
	return Text
}
