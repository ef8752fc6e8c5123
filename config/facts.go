package config

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/gabion-go/gabion/internal/facts"
	"github.com/gabion-go/gabion/internal/yamlstrict"
)

func init() { facts.Of = func(f any) *facts.Said { return &f.(*File).said } }

// keysOfFacts returns the paths of a struct of facts.
func keysOfFacts(prefix string, facts any) (keys []string) {
	leaves(reflect.ValueOf(facts), "", true, func(path string, _ reflect.Value) { keys = append(keys, prefix+path) })
	return keys
}

// judgeFacts finds numbers that nothing can have.
func (r *reader) judgeFacts(part, prefix string, facts any, places map[string]yamlstrict.Place) {
	leaves(reflect.ValueOf(facts), "", true, func(path string, v reflect.Value) {
		if at := places[prefix+path]; !at.Wrong && (v.CanInt() && v.Int() < 0 || v.CanFloat() && v.Float() < 0) {
			r.fail(at, fmt.Sprintf("%s: facts.%s is negative", part, strings.TrimPrefix(prefix, "facts.")+path), "leave the key out when nothing is known")
		}
	})
}
