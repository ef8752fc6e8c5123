package idempotency

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// CanonicalJSON is for [Config].Canonical. JSON that differs in white space, in how
// strings are escaped or in the order of members is the same request. Numbers are
// compared as written (RFC 8785 would take large integers for equal that are not).
// What is not JSON, and JSON that readers understand differently (a name twice, names
// that differ in what some readers ignore, as encoding/json ignores case, broken Unicode),
// is compared byte for byte.
func CanonicalJSON(r *http.Request, body []byte) []byte {
	if t := mediaType(r.Header); t != "application/json" && !strings.HasSuffix(t, "+json") {
		return body
	}
	// A decoder that reads token by token takes [1,] for [1].
	if !json.Valid(body) || !utf8.Valid(body) || bytes.ContainsRune(body, utf8.RuneError) {
		return body
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	out, ok := appendValue(make([]byte, 0, len(body)), d, 0)
	if _, err := d.Token(); !ok || err != io.EOF {
		return body
	}
	return out
}

// maxDepth bounds the recursion; deeper JSON is compared byte for byte.
const maxDepth = 200

func appendValue(b []byte, d *json.Decoder, depth int) ([]byte, bool) {
	token, err := d.Token()
	if err != nil || depth == maxDepth {
		return b, false
	}
	switch t := token.(type) {
	case json.Delim:
		if t == '{' {
			return appendObject(b, d, depth)
		}
		return appendArray(b, d, depth)
	case string:
		return appendString(b, t)
	case json.Number:
		return append(b, t...), true
	}
	word, err := json.Marshal(token)
	return append(b, word...), err == nil
}

// appendString refuses what was half a surrogate pair: the decoder makes all of
// those the same character.
func appendString(b []byte, s string) ([]byte, bool) {
	word, err := json.Marshal(s)
	return append(b, word...), err == nil && !strings.ContainsRune(s, utf8.RuneError)
}

func appendArray(b []byte, d *json.Decoder, depth int) ([]byte, bool) {
	b = append(b, '[')
	for d.More() {
		var ok bool
		if b, ok = appendValue(b, d, depth+1); !ok {
			return b, false
		}
		b = append(b, ',')
	}
	_, err := d.Token()
	return append(closed(b), ']'), err == nil
}

func appendObject(b []byte, d *json.Decoder, depth int) ([]byte, bool) {
	type member struct {
		name string
		text []byte
	}
	var members []member
	for d.More() {
		name, ok := appendValue(nil, d, depth+1)
		if !ok {
			return b, false
		}
		text, ok := appendValue(nil, d, depth+1)
		if !ok {
			return b, false
		}
		members = append(members, member{string(name), text})
	}
	if _, err := d.Token(); err != nil {
		return b, false
	}
	seen := make(map[string]bool, len(members))
	for _, m := range members {
		name := foldedName(m.name)
		if seen[name] {
			return b, false
		}
		seen[name] = true
	}
	slices.SortFunc(members, func(x, y member) int { return strings.Compare(x.name, y.name) })
	b = append(b, '{')
	for _, m := range members {
		b = append(append(append(append(b, m.name...), ':'), m.text...), ',')
	}
	return append(closed(b), '}'), true
}

// closed takes the last comma away. A canonical form is JSON. A body that is not JSON is
// compared byte for byte and must not equal the form of another.
func closed(b []byte) []byte { return bytes.TrimSuffix(b, []byte{','}) }

// foldedName returns what the least exact readers see of a name: encoding/json takes
// names for one that differ in case, in Unicode's sense, and its second version can be
// told to ignore hyphens and underscores.
func foldedName(name string) string {
	return strings.Map(func(r rune) rune {
		if r == '_' || r == '-' {
			return -1
		}
		least := r
		for next := unicode.SimpleFold(r); next != r; next = unicode.SimpleFold(next) {
			least = min(least, next)
		}
		return least
	}, name)
}
