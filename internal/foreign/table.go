package foreign

import (
	"slices"
	"strings"
	"sync"

	"github.com/gabion-go/gabion/internal/suggest"
)

// Rule is one line of a mapping: what becomes of one key of a format.
type Rule struct {
	Key    string // its path; [] behind a key stands for the items of a list, * for a key of any name
	Shape  Shape  // what its value must be; nil takes anything and looks at nothing below
	Fate   Fate
	To     string // the key of gabion's file that it becomes, if any
	Text   string // the remark's, with {} for what the file says
	Source string // the address that says what the key means
}

// Table is a mapping. It also says which keys there are, so what no rule names is unknown.
type Table struct {
	Rules   []Rule
	unknown string
	fold    func(string) string
	root    func() *branch // made when a file is first read, which most commands never do
}

// branch is what may stand at a place of a file.
type branch struct {
	rule  *Rule
	names []string // of keys, as they are usually spelled
	keys  map[string]*branch
	items *branch // of a list
}

// NewTable makes a table. Unknown says what the other system does with keys that it does not know. Fold makes
// spellings of a key that mean the same one; nil means that there is one spelling.
func NewTable(unknown string, fold func(string) string, rules ...[]Rule) *Table {
	if fold == nil {
		fold = func(s string) string { return s }
	}
	t := &Table{Rules: slices.Concat(rules...), unknown: unknown, fold: fold}
	t.root = sync.OnceValue(func() *branch {
		root := new(branch)
		for i := range t.Rules {
			t.add(root, &t.Rules[i])
		}
		return root
	})
	return t
}

func (t *Table) add(at *branch, r *Rule) {
	for _, part := range parts(r.Key) {
		name, list := strings.CutSuffix(part, "[]")
		spelled := name
		if name != "*" {
			name = t.fold(name)
		}
		if at.keys == nil {
			at.keys = map[string]*branch{}
		}
		next := at.keys[name]
		if next == nil {
			next = &branch{}
			at.keys[name] = next
			if name != "*" {
				at.names = append(at.names, spelled)
			}
		}
		at = next
		if list {
			if at.items == nil {
				at.items = &branch{}
			}
			at = at.items
		}
	}
	at.rule = r
}

// parts divides a path. One with a slash is the name of one key, as those of annotations are.
func parts(path string) []string {
	if strings.Contains(path, "/") {
		return []string{path}
	}
	return strings.Split(path, ".")
}

// Under puts rules below a key, for what stands in several places of a format.
func Under(key string, rules []Rule) []Rule {
	moved := slices.Clone(rules)
	for i := range moved {
		moved[i].Key = key + "." + moved[i].Key
	}
	return moved
}

// Sourced gives rules without a source one.
func Sourced(source string, rules []Rule) []Rule {
	sourced := slices.Clone(rules)
	for i := range sourced {
		if sourced[i].Source == "" {
			sourced[i].Source = source
		}
	}
	return sourced
}

// Stays makes rules for keys that are not about calls that fail.
func Stays(text string, keys ...string) []Rule {
	rules := make([]Rule, len(keys))
	for i, key := range keys {
		rules[i] = Rule{Key: key, Fate: Elsewhere, Text: text}
	}
	return rules
}

// next finds what a key may hold.
func (b *branch) next(name string) *branch {
	if n := b.keys[name]; n != nil {
		return n
	}
	return b.keys["*"]
}

// said is the text about a key that no rule names.
func (t *Table) said(b *branch, key string) string {
	return suggest.For(key, b.names, t.unknown)
}
