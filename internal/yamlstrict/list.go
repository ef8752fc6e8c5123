package yamlstrict

import (
	"fmt"
	"reflect"
	"strings"

	"go.yaml.in/yaml/v4"
)

func (d *decoder) list(v reflect.Value, n *yaml.Node, path string, depth int) {
	if n.Kind != yaml.SequenceNode {
		d.fail(n, path, "wants a list, not "+quoted(n), "write ["+clip(n.Value)+"]")
		return
	}
	list := reflect.MakeSlice(v.Type(), 0, min(len(n.Content), maxNodes))
	var items []Place
	for i, c := range n.Content {
		elem := reflect.New(v.Type().Elem()).Elem()
		before := len(d.found)
		at := path
		if d.sections(elem.Type()) { // whose keys have places of their own
			at = fmt.Sprintf("%s[%d]", path, i)
			d.places[at] = Place{Line: c.Line, Col: c.Column}
		}
		d.value(elem, c, at, depth+1)
		if c.Kind != yaml.ScalarNode || len(d.found) == before { // zero is not what a text means that can't be read
			list = reflect.Append(list, elem)
			items = append(items, Place{Line: c.Line, Col: c.Column})
		}
		if d.nodes > maxNodes {
			break
		}
	}
	v.Set(list)
	if p, ok := d.places[path]; ok {
		p.Items = items
		d.places[path] = p
	}
}

// sections reports whether the items of a list are structs with keys.
func (d *decoder) sections(t reflect.Type) bool {
	_, scalar := d.doc.options.Scalars[t]
	return t.Kind() == reflect.Struct && t != nodeType && !scalar
}

// listText writes a short list as it stands in the file.
func listText(n *yaml.Node) string {
	items := make([]string, 0, 8)
	for _, c := range n.Content[:min(len(n.Content), cap(items))] {
		items = append(items, clip(c.Value))
	}
	return "[" + strings.Join(items, ", ") + "]"
}
