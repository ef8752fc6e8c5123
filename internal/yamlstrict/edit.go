package yamlstrict

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// ErrNoEdit says that a file is written in a way in which a key can't be changed without
// changing more than that: aliases, texts over several lines, anchors.
var ErrNoEdit = errors.New("the file is written in a way that can't be changed by itself")

// Edit returns a file's text with one key changed or added, and everything else as it was:
// comments, order, spaces. The path leads through mappings; those that are missing are
// added. The value is written as it is given. Callers should read the outcome again, to see
// that it says what was meant.
func Edit(text []byte, path []string, value string) ([]byte, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil || len(doc.Content) == 0 || len(path) == 0 {
		return nil, fmt.Errorf("%w: it can't be parsed", ErrNoEdit)
	}
	e := edit{lines: strings.SplitAfter(string(text), "\n")}
	at := doc.Content[0]
	for i, key := range path {
		if at.Kind != yaml.MappingNode {
			return e.replace(at, nested(path[i:], value, true))
		}
		k := pairOf(at, key)
		if k < 0 {
			return e.insert(at, path[i:], value)
		}
		at = at.Content[k+1]
	}
	return e.replace(at, value)
}

func pairOf(n *yaml.Node, key string) int {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return i
		}
	}
	return -1
}

// nested writes a path and its value in one line: retry: {attempts: 3}.
func nested(path []string, value string, braces bool) string {
	text := value
	for i := len(path) - 1; i >= 0; i-- {
		text = path[i] + ": " + text
		if i > 0 || braces {
			text = "{" + text + "}"
		}
	}
	return text
}

type edit struct {
	lines []string // each with its end
}

func (e edit) text() []byte { return []byte(strings.Join(e.lines, "")) }

// cut returns what is before and from the place of a node on its line.
func (e edit) cut(n *yaml.Node) (before, from string, ok bool) {
	if n.Line < 1 || n.Line > len(e.lines) {
		return "", "", false
	}
	runes := []rune(e.lines[n.Line-1])
	if n.Column < 1 || n.Column > len(runes)+1 {
		return "", "", false
	}
	return string(runes[:n.Column-1]), string(runes[n.Column-1:]), true
}

// replace puts a text in the place of a scalar.
func (e edit) replace(n *yaml.Node, by string) ([]byte, error) {
	before, from, ok := e.cut(n)
	if !ok || n.Anchor != "" || n.Kind != yaml.ScalarNode && n.Kind != yaml.SequenceNode {
		return nil, ErrNoEdit
	}
	end := -1
	switch {
	case n.Kind == yaml.SequenceNode && strings.HasPrefix(from, "["):
		if end = strings.IndexByte(from, ']') + 1; end == 0 || strings.ContainsAny(from[:end], `"'#`) {
			return nil, ErrNoEdit
		}
	case n.Kind == yaml.SequenceNode:
	case n.Style&yaml.DoubleQuotedStyle != 0 || n.Style&yaml.SingleQuotedStyle != 0:
		if i := strings.IndexByte(from[1:], from[0]); i >= 0 && from[1:1+i] == n.Value {
			end = i + 2
		}
	case strings.HasPrefix(from, n.Value):
		end = len(n.Value)
	}
	if end < 0 {
		return nil, ErrNoEdit
	}
	e.lines = slices.Clone(e.lines)
	e.lines[n.Line-1] = before + by + from[end:]
	return e.text(), nil
}

// insert adds a key to a mapping: as its first.
func (e edit) insert(n *yaml.Node, path []string, value string) ([]byte, error) {
	if n.Anchor != "" {
		return nil, ErrNoEdit
	}
	before, from, ok := e.cut(n)
	e.lines = slices.Clone(e.lines)
	if ok && strings.HasPrefix(from, "{") {
		add := nested(path, value, false)
		if len(n.Content) > 0 {
			add += ", "
		}
		e.lines[n.Line-1] = before + "{" + add + from[1:]
		return e.text(), nil
	}
	if len(n.Content) == 0 || n.Style&yaml.FlowStyle != 0 {
		return nil, ErrNoEdit
	}
	last := e.last(n)
	indent, _, ok := e.cut(n.Content[0])
	if !ok || strings.TrimSpace(indent) != "" || last < 1 || last > len(e.lines) {
		return nil, ErrNoEdit
	}
	end := "\n"
	if strings.HasSuffix(e.lines[0], "\r\n") {
		end = "\r\n"
	}
	line := indent + nested(path, value, false) + end
	if !strings.HasSuffix(e.lines[last-1], "\n") {
		e.lines[last-1] += end
	}
	e.lines = slices.Insert(e.lines, last, line)
	return e.text(), nil
}

// last is the last line that a node reaches to.
func (e edit) last(n *yaml.Node) int {
	most := n.Line
	for _, c := range n.Content {
		most = max(most, e.last(c))
	}
	if n.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0 {
		most += strings.Count(n.Value, "\n")
	}
	if n.Kind == yaml.MappingNode && n.Style&yaml.FlowStyle != 0 { // its brace may close further down
		for most < len(e.lines) && !strings.Contains(e.lines[most-1], "}") {
			most++
		}
	}
	return most
}
