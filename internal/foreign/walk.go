package foreign

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gabion-go/gabion/internal/suggest"
	"github.com/gabion-go/gabion/internal/yamlstrict"
)

// Value is what a file says at a place that a table names, and is what the table's rule wants.
// Values that are wrong or null are left out. The methods of nil are those of a value that is not there.
type Value struct {
	Name string           // its key as the file spells it; empty for items of a list
	Path string           // where it stands: spec.http[0].retries.attempts
	Rule *Rule            // nil for maps and lists of what rules name
	Tree *yamlstrict.Tree // what the file says
	Key  *yamlstrict.Tree // its key; the value itself in a list

	// What a Shape reads: a time, a number, a text, a yes, or the words of a list in one text.
	Span   time.Duration
	Number float64
	Text   string
	On     bool
	Words  []string

	Items []*Value // of a map or a list, in the order of the file

	fold func(string) string
}

// Get returns the value below v at a path, as "retries.attempts"; of keys that are alike the last one.
func (v *Value) Get(path string) *Value {
	whole := strings.Contains(path, "/") // the name of one key
	for v != nil {
		part, rest, more := strings.Cut(path, ".")
		if whole || !more {
			return v.below(path)
		}
		v, path = v.below(part), rest
	}
	return nil
}

func (v *Value) below(name string) *Value {
	name = v.fold(name)
	for i := len(v.Items) - 1; i >= 0; i-- {
		if v.fold(v.Items[i].Name) == name {
			return v.Items[i]
		}
	}
	return nil
}

// All returns the items of a list or map.
func (v *Value) All() []*Value {
	if v == nil {
		return nil
	}
	return v.Items
}

// Word returns the text of a value, or what is said instead where v is nil.
func (v *Value) Word(otherwise string) string {
	if v == nil || v.Text == "" {
		return otherwise
	}
	return v.Text
}

// SpanOr returns the time of a value, or what is said instead where v is nil.
func (v *Value) SpanOr(otherwise time.Duration) time.Duration {
	if v == nil {
		return otherwise
	}
	return v.Span
}

// NumberOr returns the number of a value, or what is said instead where v is nil.
func (v *Value) NumberOr(otherwise float64) float64 {
	if v == nil {
		return otherwise
	}
	return v.Number
}

// Line returns where v begins, or what is said instead where v is nil.
func (v *Value) Line(otherwise int) int {
	if v == nil || v.Key == nil {
		return otherwise
	}
	return v.Key.Line
}

// The most that is said of one file: the first of them tell what is wrong with the rest.
const (
	maxRemarks = 20000
	maxWrong   = 100
)

// Walker reads trees by tables, and notes what becomes of their keys.
type Walker struct {
	File    *File
	Import  *Import
	Names   suggest.Names
	remarks map[*Value]int // where what was said of a value stands
}

// NewWalker makes a walker for a file.
func NewWalker(f *File, format string) *Walker {
	return &Walker{File: f, Import: &Import{Format: format}, Names: suggest.Names{}, remarks: map[*Value]int{}}
}

// Done returns what was read, with remarks and mistakes in the order of their lines.
func (w *Walker) Done() *Import {
	slices.SortStableFunc(w.Import.Remarks, func(a, b Remark) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Col, b.Col))
	})
	w.Import.Wrong = w.Import.Wrong.Sort()
	return w.Import
}

// Read reads a tree by a table. Path is where the tree stands in the file; empty for a document.
func (w *Walker) Read(t *yamlstrict.Tree, table *Table, path string) *Value {
	v := &Value{Path: path, Tree: t, Key: t, fold: table.fold}
	if !w.value(v, table.root(), table) {
		return nil
	}
	return v
}

// value reads what stands at a place, and reports whether it can be used.
func (w *Walker) value(v *Value, b *branch, table *Table) bool {
	switch {
	case v.Tree == nil || v.Tree.Kind == yamlstrict.Null:
		return false
	case b.rule != nil:
		if v.Rule = b.rule; v.Rule.Shape != nil {
			if reason, proposal := v.Rule.Shape(v); reason != "" {
				w.Wrong(v, reason, proposal)
				return false
			}
		}
		w.Remark(v, v.Rule.Fate, v.Rule.Text)
		if b.keys == nil && b.items == nil {
			return true
		}
	}
	switch {
	case b.items != nil && v.Tree.Kind == yamlstrict.List:
		w.list(v, b.items, table)
	case b.keys != nil && v.Tree.Kind == yamlstrict.Map:
		w.pairs(v, b, table)
	case b.items != nil:
		w.Wrong(v, "wants a list, not "+kindName(v.Tree), "begin each item with a dash")
		return false
	default:
		w.Wrong(v, "wants keys with values, not "+kindName(v.Tree), "")
		return false
	}
	return true
}

func (w *Walker) list(v *Value, b *branch, table *Table) {
	for i, item := range v.Tree.Items {
		of := &Value{Path: v.Path + "[" + strconv.Itoa(i) + "]", Tree: item, Key: item, fold: table.fold}
		if w.value(of, b, table) {
			v.Items = append(v.Items, of)
		}
	}
}

func (w *Walker) pairs(v *Value, b *branch, table *Table) {
	for _, pair := range v.Tree.Pairs {
		name := pair.Key.Text
		of := &Value{Name: name, Path: v.Path + "." + name, Tree: pair.Value, Key: pair.Key, fold: table.fold}
		if v.Path == "" {
			of.Path = name
		}
		next := b.next(table.fold(name))
		if next == nil {
			if len(w.Import.Remarks) < maxRemarks { // what is meant takes long to find
				w.Remark(of, Unknown, table.said(b, name))
			}
			continue
		}
		if w.value(of, next, table) {
			v.Items = append(v.Items, of)
		}
	}
}

// Remark says what became of a value, in place of what was said of it before. {} in the text is
// what the file says.
func (w *Walker) Remark(v *Value, fate Fate, text string) {
	if v == nil || v.Key == nil {
		return
	}
	said := Remark{Line: v.Key.Line, Col: v.Key.Col, Key: clip(cmp.Or(v.Path, "the document"), 200), Fate: fate, Text: strings.ReplaceAll(text, "{}", clip(v.Tree.Text, 40))}
	if i, ok := w.remarks[v]; ok {
		w.Import.Remarks[i] = said
		return
	}
	if len(w.Import.Remarks) < maxRemarks {
		w.remarks[v] = len(w.Import.Remarks)
		w.Import.Remarks = append(w.Import.Remarks, said)
	}
}

// Wrong notes a mistake in a value, for which the other system refuses the file.
func (w *Walker) Wrong(v *Value, reason, proposal string) {
	if len(w.Import.Wrong) < maxWrong {
		name := cmp.Or(v.Path, "the document")
		w.Import.Wrong = append(w.Import.Wrong, w.File.Document.Finding(v.Tree.Line, v.Tree.Col, clip(name, 200)+": "+reason, proposal))
	}
}

func clip(s string, most int) string {
	if runes := []rune(s); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return s
}

func kindName(t *yamlstrict.Tree) string {
	switch t.Kind {
	case yamlstrict.Null:
		return "nothing"
	case yamlstrict.Bool, yamlstrict.Number:
		return clip(t.Text, 40)
	case yamlstrict.List:
		return "a list"
	case yamlstrict.Map:
		return "keys with values"
	}
	return strconv.Quote(clip(t.Text, 40))
}
