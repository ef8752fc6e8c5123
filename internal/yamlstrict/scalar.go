package yamlstrict

import (
	"cmp"
	"maps"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/gabion-go/gabion/internal/suggest"
)

// scalar reads one value. What came from a variable is not repeated in the
// finding: it may be a secret.
func (d *decoder) scalar(v reflect.Value, n *yaml.Node, path string, s Scalar) {
	if n.Kind != yaml.ScalarNode {
		d.fail(n, path, "wants one value, not "+quoted(n), wordsOf(s))
		return
	}
	text, vars, problem, proposal := expand(n.Value, d.doc.options.Lookup)
	if p, ok := d.places[path]; ok && vars != nil {
		p.Vars = append(p.Vars, vars...)
		d.places[path] = p
	}
	if problem != "" {
		d.fail(n, path, problem, proposal)
		return
	}
	var value any
	if word, ok := d.named(path, text); ok {
		value = word
	} else {
		value, problem, proposal = s.Parse(text)
	}
	switch {
	case problem == "":
		v.Set(reflect.ValueOf(value).Convert(v.Type()))
	case vars != nil:
		d.fail(n, path, clipped(n.Value)+" expands to what "+problem, "look at "+strings.Join(vars, ", ")+"; its value is not shown here")
	default:
		if saysNo(text) && v.Kind() != reflect.Bool && s.Words == nil {
			proposal = "leave the key out, or write off"
		}
		d.fail(n, path, clipped(text)+" "+problem, d.possible(path, suggest.For(text, append(d.words(path), s.Words...), proposal)))
	}
}

// named returns the value that a word stands for at one key only.
func (d *decoder) named(path, text string) (value any, ok bool) {
	if d.doc.options.Named == nil {
		return nil, false
	}
	value, ok = d.doc.options.Named(path)[text]
	return value, ok
}

// words returns the words that stand for a value at one key only.
func (d *decoder) words(path string) []string {
	if d.doc.options.Named == nil {
		return nil
	}
	return slices.Sorted(maps.Keys(d.doc.options.Named(path)))
}

// possible returns a proposal that does not lead to the next mistake: who reads a
// number can't know where off is one.
func (d *decoder) possible(path, proposal string) string {
	if d.doc.options.Instead == nil || !strings.HasSuffix(proposal, "or write off") {
		return proposal
	}
	return cmp.Or(d.doc.options.Instead(path), proposal)
}

func wordsOf(s Scalar) string {
	if s.Words == nil {
		return ""
	}
	return "one of " + strings.Join(s.Words, ", ")
}
