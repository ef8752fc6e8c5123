package grpcconfig

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/gabion-go/gabion/internal/suggest"
)

// reader turns a document into a config. It goes on after a mistake, so that all of them
// are found.
type reader struct {
	*document
	config *Config

	// ours says that grpc-go does not look at what is read now, or does not judge it.
	ours bool

	paths map[string]int // where each name stands that was read
}

// wrong notes a mistake that grpc-go refuses, too, unless it does not look there.
func (r *reader) wrong(n *node, reason, proposal string) { r.fail(n.at, r.ours, reason, proposal) }

// stricter notes a mistake that grpc-go takes.
func (r *reader) stricter(n *node, reason, proposal string) { r.fail(n.at, true, reason, proposal) }

// fields returns the values of an object by their keys; what is null is not there. Keys that
// are not known are notes, for gRPC ignores them.
func (r *reader) fields(n *node, what string, known ...string) (values map[string]*node, ok bool) {
	if n.kind != isObject {
		r.wrong(n, what+" wants an object, not "+named(n), "write {…}; its keys are "+strings.Join(known, ", "))
		return nil, false
	}
	values = map[string]*node{}
	seen := map[string]*node{}
	for _, m := range n.members {
		key := r.key(m.key, what, known)
		if key == "" {
			continue
		}
		if before := seen[key]; before != nil {
			r.stricter(m.key, fmt.Sprintf("%s: %s is there twice, first in %s", what, key, r.there(before.at)), "JSON leaves open which one counts: remove one")
			continue
		}
		seen[key] = m.key
		if m.value.kind != isNull {
			values[key] = m.value
		}
	}
	return values, true
}

// key returns the known key that is written, or "".
func (r *reader) key(n *node, what string, known []string) string {
	for _, k := range known {
		if n.text == k {
			return k
		}
	}
	for _, k := range known {
		if strings.EqualFold(n.text, k) {
			r.note(n.at, false, fmt.Sprintf("%s: grpc-go takes %s for %s, other languages do not", what, quoted(n.text), k), "write "+k)
			return k
		}
	}
	near := suggest.For(n.text, known, "known are "+strings.Join(known, ", "))
	if what == "name" { // a name without its service is all methods
		r.stricter(n, "name: unknown key "+quoted(n.text), near)
		return ""
	}
	r.noteOf(Unknown, n.at, fmt.Sprintf("%s: gRPC ignores the key %s, and so does gabion", what, quoted(n.text)), near)
	return ""
}

// missing reports a key without which the rest means nothing.
func (r *reader) missing(n *node, what, key, proposal string) {
	r.wrong(n, what+": "+key+" is missing", proposal)
}

func (r *reader) text(n *node, what string) (s string, ok bool) {
	if n == nil {
		return "", true
	}
	if n.kind != isString {
		r.wrong(n, what+" wants a text, not "+named(n), `write "…"`)
		return "", false
	}
	return n.text, true
}

// whole reads a whole number as encoding/json does, which refuses 3.0.
func (r *reader) whole(n *node, what string, bits int) (v int64, ok bool) {
	if n.kind == isNumber {
		if v, err := strconv.ParseInt(n.text, 10, bits); err == nil {
			return v, true
		}
	}
	proposal := "write digits only, such as 3"
	if n.kind == isString && isDigits(n.text) {
		proposal = "write " + clip(n.text) + " without quotes"
	}
	r.wrong(n, what+" wants a whole number, not "+named(n), proposal)
	return 0, false
}

func (r *reader) float(n *node, what, such string) (v float64, ok bool) {
	if n.kind == isNumber {
		if v, err := strconv.ParseFloat(n.text, 64); err == nil {
			return v, true
		}
	}
	r.wrong(n, what+" wants a number, not "+named(n), "write one such as "+such)
	return 0, false
}

func (r *reader) list(n *node, what string) []*node {
	if n.kind != isList {
		r.wrong(n, what+" wants a list, not "+named(n), "write […]")
		return nil
	}
	return n.items
}

// named says what a value is.
func named(n *node) string {
	switch n.kind {
	case isObject:
		return "an object"
	case isList:
		return "a list"
	case isString:
		return "the text " + quoted(n.text)
	}
	return clip(n.text)
}

func isDigits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }
