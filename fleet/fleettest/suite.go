package fleettest

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gabion-go/gabion/fleet"
)

// Run checks a store. open returns a handle on it, as one process has one: with connections and
// whatever else is not with the data of its own. All handles are on the same data, which may be
// shared with other tests: the suite has keys of its own, and leaves them there.
func Run(t *testing.T, open func(testing.TB) fleet.Store) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			name := fmt.Sprintf("suite-%x", rand.Uint64())
			c.run(&bench{TB: t, open: open, store: open(t), name: name})
		})
	}
}

var cases = []struct {
	name string
	run  func(*bench)
}{
	{"the zero batch says what time it is", zeroBatch},
	{"what is put is read, in the same batch and later", putAndGet},
	{"what one process puts, another reads", twoHandles},
	{"a swap needs the version that it names", swaps},
	{"a swap that fails puts nothing, and reads what is there", lostSwap},
	{"of many swaps one wins", raceOfSwaps},
	{"each put has a version of its own, also after a delete", versions},
	{"a nil value deletes, an empty one does not", deletes},
	{"keys may have odd characters", oddKeys},
	{"a list is of what begins with it", lists},
	{"a thousand pods are one list", manyKeys},
	{"a value may have a million bytes", largeValues},
	{"a put lasts no shorter than it says", lasting},
	{"a put that is for ever replaces one that is not", lastsForEver},
	{"time goes on", timeGoesOn},
	{"a context that is over changes nothing", contextIsOver},
}

// bench is a case on its way.
type bench struct {
	testing.TB
	open  func(testing.TB) fleet.Store
	store fleet.Store
	name  string // of the case's own fleet
}

func (b *bench) key(rest string) string { return b.name + "/" + rest }

// do carries out a batch, which must not fail.
func (b *bench) do(batch fleet.Batch) fleet.Result {
	b.Helper()
	return b.on(b.store, batch)
}

func (b *bench) on(s fleet.Store, batch fleet.Batch) fleet.Result {
	b.Helper()
	r, err := s.Do(context.Background(), batch)
	if err != nil {
		b.Fatalf("do: %v", err)
	}
	if r.Now.IsZero() {
		b.Fatal("the store does not say what time it is")
	}
	for key, item := range r.Items {
		if item.Version == 0 {
			b.Errorf("%q has version 0", key)
		}
	}
	return r
}

// set puts a value under a key and returns its version.
func (b *bench) set(key, value string) uint64 {
	b.Helper()
	r := b.do(fleet.Batch{Puts: []fleet.Put{{Key: key, Value: []byte(value)}}, Get: []string{key}})
	if item, is := r.Items[key]; !is || string(item.Value) != value || !r.Swapped {
		b.Errorf("%q was put, and %q is there (%v), swapped %v", value, item.Value, is, r.Swapped)
	}
	return r.Items[key].Version
}

// get returns what a key has; version 0 says that it has nothing.
func (b *bench) get(key string) fleet.Item {
	b.Helper()
	return b.do(fleet.Batch{Get: []string{key}}).Items[key]
}

// swap puts a value if the key has the version.
func (b *bench) swap(key string, version uint64, value []byte) fleet.Result {
	b.Helper()
	return b.do(fleet.Batch{Swap: &fleet.Put{Key: key, Version: version, Value: value}, Get: []string{key}})
}

// wantKeys expects that a result has these keys and no other.
func (b *bench) wantKeys(r fleet.Result, keys ...string) {
	b.Helper()
	got := slices.Sorted(maps.Keys(r.Items))
	if slices.Sort(keys); !slices.Equal(got, keys) {
		b.Errorf("read %q, want %q", got, keys)
	}
}

// wantValue expects a value.
func (b *bench) wantValue(key string, want []byte) {
	b.Helper()
	if got := b.get(key); got.Version == 0 || !bytes.Equal(got.Value, want) {
		b.Errorf("%q has %.50q, version %d, want %.50q", key, got.Value, got.Version, want)
	}
}
