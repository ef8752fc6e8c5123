package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gabion-go/gabion/internal/yamlstrict"
)

// maxNameOfFacts is the longest name of a route or a store.
const maxNameOfFacts = 60

// judgeServing looks at the routes and stores of a file.
func (r *reader) judgeServing() {
	p, places := r.file.said.Program, r.file.program
	for _, name := range slices.Sorted(maps.Keys(p.Routes)) {
		at := "routes." + name
		r.judgeName("route", name, places)
		r.judgeFacts("the file", at+".", p.Routes[name], places)
		store := p.Routes[name].Store
		if _, known := p.Stores[store]; store != "" && len(p.Stores) > 0 && !known {
			r.fail(places[at+".store"], fmt.Sprintf("the file: facts.%s.store: there is no store %.60q", at, store),
				"use one of "+strings.Join(slices.Sorted(maps.Keys(p.Stores)), ", "))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.Stores)) {
		r.judgeName("store", name, places)
		r.judgeFacts("the file", "stores."+name+".", p.Stores[name], places)
	}
}

func (r *reader) judgeName(what, name string, places map[string]yamlstrict.Place) {
	if _, plain := places[what+"s."+name]; !plain || name == "" || len([]rune(name)) > maxNameOfFacts {
		r.fail(places[what+"s"], fmt.Sprintf("the file: facts: %.60q is no name of a %s", name, what),
			fmt.Sprintf("write at most %d printable characters, such as POST /charges", maxNameOfFacts))
	}
}

// serving reports whether a path of a file's facts is one of a route or a store.
func serving(path string) bool {
	return strings.HasPrefix(path, "routes.") || strings.HasPrefix(path, "stores.")
}

// wordsOfFacts splits the path of a file's fact. Names of routes may have dots.
func wordsOfFacts(path string) []string {
	path = strings.TrimPrefix(path, "facts.")
	if !serving(path) {
		return append([]string{"facts"}, strings.Split(path, ".")...)
	}
	section, rest, _ := strings.Cut(path, ".")
	name, key := rest, []string(nil)
	if i := strings.LastIndexByte(rest, '.'); i > 0 {
		name, key = rest[:i], []string{rest[i+1:]}
		if before, found := strings.CutSuffix(name, ".clients"); found && section == "routes" {
			name, key = before, append([]string{"clients"}, key...)
		}
	}
	return append([]string{"facts", section, name}, key...)
}
