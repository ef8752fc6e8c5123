// Package formats knows every format of other systems that is read, and which of them a file
// is in.
package formats

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/gabion-go/gabion/internal/foreign"
	"github.com/gabion-go/gabion/internal/foreign/library"
	"github.com/gabion-go/gabion/internal/foreign/mesh"
	"github.com/gabion-go/gabion/internal/suggest"
	"github.com/gabion-go/gabion/internal/yamlstrict"
)

// NoFormat is the error of a format that is not known or can't be guessed.
type NoFormat string

// Error implements error.
func (e NoFormat) Error() string { return string(e) }

func noFormat(text string, args ...any) error { return NoFormat(fmt.Sprintf(text, args...)) }

// All returns all formats, in the order in which they are guessed.
func All() []foreign.Format {
	return slices.Concat([]foreign.Format{grpc}, mesh.Formats(), library.Formats())
}

// Names are those of all formats, without their aliases.
func Names() (names []string) {
	for _, f := range All() {
		names = append(names, f.Name)
	}
	return names
}

// Find returns the format of a name or an alias. The error proposes one.
func Find(name string) (foreign.Format, error) {
	var known []string
	for _, f := range All() {
		if f.Name == name || slices.Contains(f.Aliases, name) {
			return f, nil
		}
		known = append(append(known, f.Name), f.Aliases...)
	}
	return foreign.Format{}, noFormat("%.60q is no format: %s", name, suggest.For(name, known, "there are "+strings.Join(Names(), ", ")))
}

// Guess says which format a file is in. Name is for messages. The error says what it looks
// like instead.
func Guess(name string, text []byte) (foreign.Format, error) {
	_, documents, found := yamlstrict.Trees(name, text)
	if len(found) > 0 && unreadable(text) {
		return foreign.Format{}, found
	}
	var like []foreign.Format
	for _, f := range All() {
		if f.Like(text, documents) {
			like = append(like, f)
		}
	}
	switch {
	case len(like) == 1:
		return like[0], nil
	case len(like) > 1:
		return foreign.Format{}, noFormat("%s may be %s or %s: say which", name, like[0].Name, like[1].Name)
	case len(found) > 0 && slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(name)):
		return foreign.Format{}, found
	}
	return foreign.Format{}, noFormat("%s is %s, and of no format that is read: %s", name, looks(documents), strings.Join(Names(), ", "))
}

// looks says what a file has that was not known.
func looks(documents []*yamlstrict.Tree) string {
	if len(documents) == 0 {
		return "a text without known words"
	}
	if len(documents[0].Pairs) == 0 {
		return "no mapping with keys"
	}
	if kind := documents[0].Get("kind"); kind != nil {
		return fmt.Sprintf("a %.60q", kind.Text)
	}
	var keys []string
	for _, p := range documents[0].Pairs[:min(len(documents[0].Pairs), 4)] {
		keys = append(keys, fmt.Sprintf("%.40s", p.Key.Text))
	}
	return "a mapping of " + strings.Join(keys, ", ")
}

// unreadable reports whether no format reads a file.
func unreadable(text []byte) bool { return len(text) > maxSize || !utf8.Valid(text) }

// maxSize is what yamlstrict reads at most.
const maxSize = 8 << 20
