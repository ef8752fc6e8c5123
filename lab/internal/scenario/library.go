package scenario

import (
	"embed"
	"fmt"
	"slices"
	"strings"

	"github.com/gabion-go/gabion/internal/yamlstrict"
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
	near := yamlstrict.Nearest(name, dashless(Names()))
	if near == "" {
		return nil, fmt.Errorf("there is no scenario %q: it is neither a file nor in the library", name)
	}
	return nil, fmt.Errorf("there is no scenario %q: did you mean %s?", name, strings.ReplaceAll(near, "_", "-"))
}

// dashless spells names as Nearest compares them.
func dashless(names []string) []string {
	made := make([]string, len(names))
	for i, n := range names {
		made[i] = strings.ReplaceAll(n, "-", "_")
	}
	return made
}

// Open reads a scenario of the library.
func Open(name string) (*File, error) {
	text, err := Text(name)
	if err != nil {
		return nil, err
	}
	return Parse(name, text)
}
