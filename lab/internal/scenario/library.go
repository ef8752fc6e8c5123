package scenario

import (
	"embed"
	"fmt"
	"slices"
	"strings"

	"github.com/gabion-go/gabion/internal/suggest"
)

// library holds the scenarios that come with gabion.
//
//go:embed library/*.yaml
var library embed.FS

// Names returns the names of the library's scenarios in alphabetical order.
func Names() []string {
	entries, err := library.ReadDir("library")
	if err != nil {
		return nil // an embedded directory can be read
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = strings.TrimSuffix(e.Name(), ".yaml")
	}
	slices.Sort(names)
	return names
}

// Text returns the file of a scenario of the library. The error names the one that
// was most likely meant.
func Text(name string) ([]byte, error) {
	text, err := library.ReadFile("library/" + name + ".yaml")
	if err == nil && slices.Contains(Names(), name) {
		return text, nil
	}
	return nil, fmt.Errorf("there is no scenario %q: %s", name, suggest.For(name, Names(), "it is neither a file nor in the library"))
}

// Open reads a scenario of the library.
func Open(name string) (*File, error) {
	text, err := Text(name)
	if err != nil {
		return nil, err
	}
	return Parse(name, text)
}
