package yamlstrict

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	"go.yaml.in/yaml/v4"

	"github.com/gabion-go/gabion/internal/finding"
	"github.com/gabion-go/gabion/internal/suggest"
)

// Place is where a value stands in the file.
type Place struct {
	Line, Col int
	Text      string   // the value as it stands there, variables not expanded
	Vars      []string // the variables that it takes its value from
	Leaf      bool     // a value, not a section
	Wrong     bool     // a mistake is there: what it would say is not known
	Items     []Place  // of a list: those that were read, where each stands
}

// Scalar reads one type from text.
type Scalar struct {
	// Parse returns the value, or what is wrong and what to write instead. An
	// empty problem means none.
	Parse func(text string) (value any, problem, proposal string)

	// Words are the only texts that Parse takes, when they are few.
	Words []string
}

// Options say how to read.
type Options struct {
	Lookup  func(name string) (string, bool)     // variables; nil means that none is set
	Scalars map[reflect.Type]Scalar              // types with a spelling of their own
	Off     map[reflect.Type]func(reflect.Value) // what "off" does to a section; a field Off is set without
	Moved   map[string]string                    // where a key is now, by where it was
	Named   func(path string) map[string]any     // words for values of one key, beside its type's. May be nil
	Instead func(path string) string             // the proposal where off is no value; "" where it is one. May be nil
	Other   map[reflect.Type]Other               // sections where what a value says may belong to another key
}

// Other reads a value that stands under one key of a section and belongs to another. An
// empty name means that it belongs where it stands.
type Other func(key, text string) (name string, read Scalar)

// Node is a part of a file that is decoded later.
type Node struct {
	Key  Place // the place of its key
	node *yaml.Node
	doc  *Document
}

// Set reports whether the file has the node.
func (n Node) Set() bool { return n.node != nil }

var nodeType = reflect.TypeFor[Node]()

// Decode reads the node into the struct that into points to, and returns where
// each key stands, by its path; a key that is misspelled stands for the one that
// it is like. What the node does not mention stays as it was,
// so values can be laid over others. All mistakes are returned.
func (n Node) Decode(into any) (map[string]Place, Findings) {
	d := decoder{doc: n.doc, places: map[string]Place{}, moved: map[string]bool{}, root: reflect.TypeOf(into).Elem()}
	if n.node != nil {
		d.value(reflect.ValueOf(into).Elem(), n.node, "", 0)
	}
	return d.places, d.found.Sort()
}

// The bounds of a document. No sensible file comes near.
const (
	maxDepth = 32
	maxNodes = 100_000 // visited, aliases followed: a billion laughs ends early
)

type decoder struct {
	doc    *Document
	places map[string]Place
	moved  map[string]bool // those that stood under another key
	root   reflect.Type
	found  Findings
	nodes  int
}

func (d *decoder) fail(n *yaml.Node, path, problem, proposal string) {
	switch {
	case path != "" && strings.HasPrefix(problem, `"`):
		problem = path + ": " + problem
	case path != "":
		problem = path + " " + problem
	}
	d.found = append(d.found, d.doc.Finding(n.Line, n.Column, problem, proposal))
	if p, ok := d.places[path]; ok {
		p.Wrong = true
		d.places[path] = p
	}
}

// value reads n into v, whatever that is.
func (d *decoder) value(v reflect.Value, n *yaml.Node, path string, depth int) {
	d.nodes++
	switch {
	case d.nodes > maxNodes:
		if d.nodes == maxNodes+1 {
			d.fail(n, path, "is too large once its aliases are followed", "write less")
		}
		return
	case depth > maxDepth:
		d.fail(n, path, "is nested too deeply", "")
		return
	case n.Kind == yaml.AliasNode && n.Alias != nil:
		d.value(v, n.Alias, path, depth+1)
		return
	case n.Style&yaml.TaggedStyle != 0:
		d.fail(n, path, "has a tag, "+n.Tag, "write the value alone")
		return
	case v.Type() == nodeType:
		v.Set(reflect.ValueOf(Node{node: n, doc: d.doc, Key: d.places[path]}))
		return
	case empty(n):
		d.fail(n, path, "is empty", "write a value, or leave the key out for the default")
		return
	}
	if s, ok := d.doc.options.Scalars[v.Type()]; ok {
		d.scalar(v, n, path, s)
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		d.section(v, n, path, depth)
	case reflect.Map:
		d.table(v, n, path, depth)
	case reflect.Slice:
		d.list(v, n, path, depth)
	default:
		d.scalar(v, n, path, plain(v.Type()))
	}
}

func empty(n *yaml.Node) bool {
	return n.Kind == yaml.ScalarNode && n.Tag == "!!null"
}

// section reads a mapping into a struct. Writing one switches it on; the word
// off switches it off.
func (d *decoder) section(v reflect.Value, n *yaml.Node, path string, depth int) {
	if n.Kind == yaml.ScalarNode {
		d.switchOff(v, n, path)
		return
	}
	fields := fieldsOf(v.Type())
	off := v.FieldByName("Off")
	if off.IsValid() && n.Kind == yaml.MappingNode {
		off.SetBool(false)
	}
	d.pairs(n, path, func(key, value *yaml.Node, at string) {
		i := slices.IndexFunc(fields, func(f field) bool { return f.key == key.Value })
		if i < 0 {
			d.unknown(key, path, fields)
			return
		}
		if d.elsewhere(v, fields, key, value, path) {
			return
		}
		if _, twice := d.places[at]; twice && d.moved[at] {
			d.fail(key, at, "is there twice, first in line "+strconv.Itoa(d.places[at].Line), "remove one")
			return
		}
		d.places[at] = d.place(key, value)
		d.value(v.FieldByIndex(fields[i].index), value, at, depth+1)
	})
}

// elsewhere reads a value that belongs to another key than the one it stands under.
func (d *decoder) elsewhere(v reflect.Value, fields []field, key, value *yaml.Node, path string) bool {
	other := d.doc.options.Other[v.Type()]
	if other == nil || value.Kind != yaml.ScalarNode {
		return false
	}
	text, _, problem, _ := expand(value.Value, d.doc.options.Lookup)
	name, read := other(key.Value, text)
	i := slices.IndexFunc(fields, func(f field) bool { return f.key == name })
	if problem != "" || i < 0 {
		return false
	}
	at := join(path, name)
	if before, twice := d.places[at]; twice {
		d.fail(key, at, "is there twice, first in line "+strconv.Itoa(before.Line), "remove one")
		return true
	}
	d.places[at] = d.place(key, value)
	d.moved[at] = true
	d.scalar(v.FieldByIndex(fields[i].index), value, at, read)
	return true
}

// switchOff handles a section that is a word.
func (d *decoder) switchOff(v reflect.Value, n *yaml.Node, path string) {
	field := v.FieldByName("Off")
	set, ok := d.doc.options.Off[v.Type()]
	keys := keysOf(fieldsOf(v.Type()))
	switch {
	case saysNo(n.Value) && (ok || field.IsValid()):
		d.fail(n, path, "wants keys, not "+quoted(n), "write "+path[strings.LastIndexByte(path, '.')+1:]+": off")
	case n.Value != "off":
		d.fail(n, path, "wants keys, not "+quoted(n), "keys: "+keys)
	case ok:
		set(v)
	case field.IsValid():
		field.SetBool(true)
	default:
		d.fail(n, path, "can't be off as a whole", "keys: "+keys)
	}
}

// saysNo reports whether a word is one that people write for off.
func saysNo(word string) bool {
	return slices.Contains([]string{"false", "no", "none", "never", "disabled"}, strings.ToLower(word))
}

// table reads a mapping with names of the user's.
func (d *decoder) table(v reflect.Value, n *yaml.Node, path string, depth int) {
	if v.IsNil() {
		v.Set(reflect.MakeMap(v.Type()))
	}
	d.pairs(n, path, func(key, value *yaml.Node, at string) {
		d.places[at] = d.place(key, value)
		elem := reflect.New(v.Type().Elem()).Elem()
		d.value(elem, value, at, depth+1)
		v.SetMapIndex(reflect.ValueOf(key.Value), elem)
	})
}

// pairs calls do for each key of a mapping that is a word and stands there for
// the first time.
func (d *decoder) pairs(n *yaml.Node, path string, do func(key, value *yaml.Node, at string)) {
	if n.Kind != yaml.MappingNode {
		d.fail(n, path, "wants keys, not "+quoted(n), "")
		return
	}
	first := map[string]*yaml.Node{}
	for i := 0; i+1 < len(n.Content) && d.nodes <= maxNodes; i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		d.nodes++
		switch before := first[key.Value]; {
		case key.Kind != yaml.ScalarNode:
			d.fail(key, path, "has a key that is not a word", "write key: value")
		case key.Value == "<<" && key.Style == 0:
			d.fail(key, path, "has a merge key", "put what is common under defaults, or give the whole section as an alias")
		case before != nil:
			d.fail(key, join(path, key.Value), fmt.Sprintf("is there twice, first in line %d", before.Line), "remove one")
		default:
			first[key.Value] = key
			do(key, value, join(path, key.Value))
		}
	}
}

func (d *decoder) unknown(key *yaml.Node, path string, fields []field) {
	words := make([]string, len(fields))
	for i, f := range fields {
		words[i] = f.key
	}
	proposal := "keys: " + strings.Join(words, ", ")
	if to := d.doc.options.Moved[join(path, key.Value)]; to != "" {
		proposal = "it is " + to + " now"
	} else if near := suggest.Nearest(key.Value, words); near != "" {
		proposal = "did you mean " + near + "?"
		d.meant(key, join(path, near))
	} else if section := whereIs(key.Value, d.root, ""); section != "" {
		proposal = "it belongs under " + section
	} else if key.Value == "off" {
		proposal = "write " + path + ": off"
	}
	in := "here"
	if path != "" {
		in = "in " + path
	}
	d.fail(key, "", "unknown key "+clipped(key.Value)+" "+in, proposal)
}

// meant notes that a misspelled key stands for one that is nowhere else, so far.
func (d *decoder) meant(key *yaml.Node, path string) {
	if _, written := d.places[path]; !written {
		d.places[path] = Place{Line: key.Line, Col: key.Column, Wrong: true}
	}
}

func (d *decoder) place(key, value *yaml.Node) Place {
	p := Place{Line: value.Line, Col: value.Column, Text: value.Value}
	p.Leaf = value.Kind == yaml.ScalarNode || value.Kind == yaml.SequenceNode
	if value.Kind == yaml.SequenceNode {
		p.Text = listText(value)
	}
	if value.Kind == yaml.AliasNode {
		p.Leaf = value.Alias != nil && value.Alias.Kind != yaml.MappingNode
	}
	if !p.Leaf || p.Line < 1 {
		p.Line, p.Col = key.Line, key.Column
	}
	return p
}

// field is a key and the field that it sets.
type field struct {
	key   string
	index []int
	typ   reflect.Type
}

// fieldsOfTypes remembers what fieldsOf returned. Its values are never changed.
var fieldsOfTypes sync.Map // by reflect.Type

// fieldsOf returns the keys of a section in the order of its fields. Embedded
// structs lend theirs; Off is written as the section's value, not as a key.
func fieldsOf(t reflect.Type) []field {
	if known, ok := fieldsOfTypes.Load(t); ok {
		return known.([]field)
	}
	var fields []field
	for _, f := range reflect.VisibleFields(t) {
		if f.IsExported() && !f.Anonymous && f.Name != "Off" {
			fields = append(fields, field{Snake(f.Name), f.Index, f.Type})
		}
	}
	fieldsOfTypes.Store(t, fields)
	return fields
}

func keysOf(fields []field) string {
	keys := make([]string, len(fields))
	for i, f := range fields {
		keys[i] = f.key
	}
	return strings.Join(keys, ", ")
}

func join(path, key string) string {
	if path == "" {
		return clip(key)
	}
	return path + "." + clip(key)
}

// quoted says what a node is.
func quoted(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "keys"
	case yaml.SequenceNode:
		return "a list"
	}
	return clipped(n.Value)
}

// clip bounds what is repeated of a file in a message.
func clip(s string) string {
	if runes := []rune(s); len(runes) > 60 {
		s = string(runes[:60]) + "…"
	}
	return finding.Printable(s)
}

func clipped(s string) string { return `"` + clip(s) + `"` }
