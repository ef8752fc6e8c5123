package gabionprom

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"unicode/utf8"
)

// A table finds things by name. Reading takes no lock. It only grows, up to a bound that
// the caller of add knows. The zero table is ready.
type table[T any] struct {
	grow sync.Mutex
	all  atomic.Pointer[map[string]*T]
}

// get returns what has that name, or nil.
func (t *table[T]) get(name string) *T {
	if all := t.all.Load(); all != nil {
		return (*all)[name]
	}
	return nil
}

// add makes what has that name unless it is there. It returns nil if create does, which
// is asked with how many there are.
func (t *table[T]) add(name string, create func(have int) *T) *T {
	t.grow.Lock()
	defer t.grow.Unlock()
	if have := t.get(name); have != nil {
		return have
	}
	old := t.snapshot()
	made := create(len(old))
	if made == nil {
		return nil
	}
	next := make(map[string]*T, len(old)+1)
	maps.Copy(next, old)
	next[name] = made
	t.all.Store(&next)
	return made
}

// snapshot returns all there are now, not to be changed.
func (t *table[T]) snapshot() map[string]*T {
	if all := t.all.Load(); all != nil {
		return *all
	}
	return nil
}

// sorted returns all in the order of their names, in which a registry wants them in the
// end: it sorts quicker what is sorted.
func (t *table[T]) sorted() []*T {
	all := t.snapshot()
	sorted := make([]*T, 0, len(all))
	for _, name := range slices.Sorted(maps.Keys(all)) {
		sorted = append(sorted, all[name])
	}
	return sorted
}

// cleanName is a name as a label has it: valid UTF-8 and bounded.
func cleanName(name string) string {
	name = strings.ToValidUTF8(name, "\uFFFD")
	if len(name) <= maxName {
		return name
	}
	cut := maxName
	for !utf8.RuneStart(name[cut]) {
		cut--
	}
	return name[:cut]
}

// counter is a number that only grows.
type counter = atomic.Uint64

// words counts by a word of a set that is small, and closed elsewhere.
type words = table[counter]

// countWord counts a word, or among all others, which spilled counts unless it is nil.
func countWord(t *words, word string, spilled *counter) {
	c := t.get(word)
	if c == nil {
		clean := cleanName(word)
		c = t.add(clean, func(have int) *counter {
			if have >= maxWords {
				return nil
			}
			return new(counter)
		})
	}
	if c == nil {
		if spilled != nil {
			spilled.Add(1)
		}
		c = t.add(other, func(int) *counter { return new(counter) })
	}
	c.Add(1)
}
