package fleettest

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/gabion-go/gabion/fleet"
)

func zeroBatch(b *bench) {
	if r := b.do(fleet.Batch{}); !r.Swapped || len(r.Items) != 0 {
		b.Errorf("swapped %v, %d items", r.Swapped, len(r.Items))
	}
}

func putAndGet(b *bench) {
	one, two, none := b.key("one"), b.key("two"), b.key("none")
	r := b.do(fleet.Batch{
		Puts: []fleet.Put{{Key: one, Value: []byte("1")}, {Key: two, Value: every()}, {Key: one, Value: []byte("1 again")}},
		Get:  []string{one, two, none},
	})
	b.wantKeys(r, one, two)
	if got := string(r.Items[one].Value); got != "1 again" {
		b.Errorf("the later put of a key is %q", got)
	}
	if !bytes.Equal(r.Items[two].Value, every()) {
		b.Errorf("of 256 bytes came %q", r.Items[two].Value)
	}
	if later := b.do(fleet.Batch{Get: []string{two, one, one}}); later.Items[one].Version != r.Items[one].Version || later.Items[two].Version != r.Items[two].Version {
		b.Errorf("versions changed between two reads: %+v, %+v", r.Items, later.Items)
	}
}

// every is each byte once.
func every() (all []byte) {
	for n := range 256 {
		all = append(all, byte(n))
	}
	return all
}

func twoHandles(b *bench) {
	other, key := b.open(b.TB), b.key("k")
	version := b.set(key, "mine")
	r := b.on(other, fleet.Batch{Swap: &fleet.Put{Key: key, Version: version, Value: []byte("yours")}, List: b.key("")})
	b.wantKeys(r, key)
	if !r.Swapped {
		b.Error("another process could not swap what it may")
	}
	b.wantValue(key, []byte("yours"))
}

func swaps(b *bench) {
	key := b.key("k")
	if r := b.swap(key, 7, []byte("x")); r.Swapped || len(r.Items) != 0 {
		b.Errorf("a key that does not exist had version 7: %+v", r)
	}
	first := b.swap(key, 0, []byte("first"))
	if !first.Swapped || string(first.Items[key].Value) != "first" {
		b.Fatalf("a new key: %+v", first)
	}
	if r := b.swap(key, 0, []byte("x")); r.Swapped {
		b.Error("a key that exists was put as a new one")
	}
	second := b.swap(key, first.Items[key].Version, []byte("second"))
	if !second.Swapped || string(second.Items[key].Value) != "second" {
		b.Fatalf("a key with its version: %+v", second)
	}
	if r := b.swap(key, first.Items[key].Version, []byte("x")); r.Swapped {
		b.Error("a version that is over was taken")
	}
	b.wantValue(key, []byte("second"))
}

func lostSwap(b *bench) {
	key, other, gone := b.key("k"), b.key("other"), b.key("gone")
	version := b.set(key, "there")
	b.set(gone, "stays")
	r := b.do(fleet.Batch{
		Swap: &fleet.Put{Key: key, Version: version + 1, Value: []byte("x")},
		Puts: []fleet.Put{{Key: other, Value: []byte("x")}, {Key: gone}},
		Get:  []string{key, other}, List: b.key("go"),
	})
	b.wantKeys(r, key, gone)
	if r.Swapped || string(r.Items[key].Value) != "there" || r.Items[key].Version != version {
		b.Errorf("swapped %v, %+v", r.Swapped, r.Items[key])
	}
	b.wantKeys(b.do(fleet.Batch{List: b.key("")}), key, gone) // also after all that it did
	won := b.do(fleet.Batch{
		Swap: &fleet.Put{Key: key, Version: version, Value: []byte("new")},
		Puts: []fleet.Put{{Key: other, Value: []byte("too")}, {Key: gone}}, Get: []string{key, other, gone},
	})
	b.wantKeys(won, key, other)
	if !won.Swapped || string(won.Items[key].Value) != "new" || string(won.Items[other].Value) != "too" {
		b.Errorf("swapped %v, %+v", won.Swapped, won.Items)
	}
}

// raceOfSwaps lets sixteen add to a sum under compare-and-set, on several handles.
func raceOfSwaps(b *bench) {
	const workers, rounds = 16, 12
	key := b.key("sum")
	handles := []fleet.Store{b.store, b.open(b.TB), b.open(b.TB)}
	for round := range rounds {
		before := b.get(key)
		var won, all sync.Map
		var both sync.WaitGroup
		for w := range workers {
			both.Go(func() {
				r, err := handles[w%len(handles)].Do(context.Background(), fleet.Batch{
					Swap: &fleet.Put{Key: key, Version: before.Version, Value: fmt.Append(nil, round+1)}, Get: []string{key},
					Puts: []fleet.Put{{Key: b.key(fmt.Sprint("winner/", round, "/", w)), Value: []byte("x")}},
				})
				if err != nil {
					b.Errorf("do: %v", err)
				}
				if r.Swapped {
					won.Store(w, true)
				}
				all.Store(r.Items[key].Version, string(r.Items[key].Value))
			})
		}
		both.Wait()
		if n := size(&won); n != 1 {
			b.Fatalf("%d of %d won round %d, want 1", n, workers, round)
		}
		if n := size(&all); n != 1 {
			b.Errorf("after round %d was decided, %d versions were read", round, n)
		}
	}
	b.wantValue(key, []byte(strconv.Itoa(rounds)))
	if n := len(b.do(fleet.Batch{List: b.key("winner/")}).Items); n != rounds {
		b.Errorf("%d puts were made beside swaps, want %d", n, rounds)
	}
	b.sum(handles, workers)
}

// sum lets each worker repeat until its swaps are made: none is lost.
func (b *bench) sum(handles []fleet.Store, workers int) {
	const each = 5
	key := b.key("free")
	var all sync.WaitGroup
	for w := range workers {
		all.Go(func() {
			for done := 0; done < each && !b.Failed(); {
				s := handles[w%len(handles)]
				old := b.on(s, fleet.Batch{Get: []string{key}}).Items[key]
				n, _ := strconv.Atoi(string(old.Value))
				if b.on(s, fleet.Batch{Swap: &fleet.Put{Key: key, Version: old.Version, Value: fmt.Append(nil, n+1)}}).Swapped {
					done++
				}
			}
		})
	}
	all.Wait()
	b.wantValue(key, []byte(strconv.Itoa(workers*each)))
}

func size(m *sync.Map) (n int) {
	m.Range(func(any, any) bool { n++; return true })
	return n
}

func versions(b *bench) {
	key := b.key("k")
	seen := map[uint64]bool{}
	add := func(version uint64) uint64 {
		b.Helper()
		if seen[version] || version == 0 {
			b.Errorf("version %d, after %v", version, seen)
		}
		seen[version] = true
		return version
	}
	add(b.set(key, "same"))
	first := add(b.set(key, "same"))
	b.do(fleet.Batch{Puts: []fleet.Put{{Key: key}}})
	second := add(b.set(key, "same"))
	if b.swap(key, first, []byte("x")).Swapped {
		b.Error("the version of a key that was deleted is that of the new one")
	}
	if r := b.swap(key, second, nil); !r.Swapped || len(r.Items) != 0 {
		b.Errorf("a delete by swap: %+v", r)
	}
	third := b.swap(key, 0, []byte("same"))
	add(third.Items[key].Version)
	if b.swap(key, second, []byte("x")).Swapped {
		b.Error("the version of a key that a swap deleted is that of the new one")
	}
}

func deletes(b *bench) {
	key, none := b.key("k"), b.key("none")
	version := b.set(key, "")
	if r := b.swap(key, version+1, nil); r.Swapped || len(r.Items) != 1 {
		b.Errorf("a delete of another version: %+v", r)
	}
	other := b.key("other")
	if b.swap(key, b.set(other, "x"), nil).Swapped || b.get(other).Version == 0 || b.get(key).Version == 0 {
		b.Error("the version of another key deletes one of the two")
	}
	b.do(fleet.Batch{Puts: []fleet.Put{{Key: other}}})
	if r := b.swap(none, 0, nil); !r.Swapped || len(r.Items) != 0 {
		b.Errorf("a delete of what must not exist, and does not: %+v", r)
	}
	if r := b.swap(key, 0, nil); r.Swapped || len(r.Items) != 1 {
		b.Errorf("a delete of what must not exist, and does: %+v", r)
	}
	r := b.do(fleet.Batch{Puts: []fleet.Put{{Key: key}, {Key: none}}, Get: []string{key, none}, List: b.key("")})
	b.wantKeys(r)
	r = b.do(fleet.Batch{Puts: []fleet.Put{{Key: key, Value: []byte("x")}, {Key: key}}, Get: []string{key}})
	b.wantKeys(r)
}

func oddKeys(b *bench) {
	var keys []string
	for _, rest := range []string{
		"plain", "a.b", "a..b", ".a", "a.", "a b", "a*", "a>", ">", "*", "a%", "a_", `a\`, `a"b'c`, "a/b", "a//b", "/", "a/", "{a}", "{}", "[a]", "?",
		"ä", "日本", "a\nb", "a\tb", "=41", "A", "$JS", ":", "-", "a;DROP",
	} {
		keys = append(keys, b.key(rest))
	}
	var puts []fleet.Put
	for _, key := range keys {
		puts = append(puts, fleet.Put{Key: key, Value: []byte("of " + key)})
	}
	r := b.do(fleet.Batch{Puts: puts, Get: keys})
	b.wantKeys(r, keys...)
	r = b.do(fleet.Batch{List: b.key("")})
	b.wantKeys(r, keys...)
	for key, item := range r.Items {
		if string(item.Value) != "of "+key {
			b.Errorf("%q has the value %q", key, item.Value)
		}
	}
	b.wantKeys(b.do(fleet.Batch{List: b.key("a/")}), b.key("a/"), b.key("a/b"), b.key("a//b"))
	b.wantKeys(b.do(fleet.Batch{List: b.key("a_")}), b.key("a_"))
	b.wantKeys(b.do(fleet.Batch{List: b.key("a%")}), b.key("a%"))
	b.wantKeys(b.do(fleet.Batch{List: b.key("*")}), b.key("*"))
	b.wantKeys(b.do(fleet.Batch{List: b.key(`a\`)}), b.key(`a\`))
}

func lists(b *bench) {
	for _, rest := range []string{"pods/1", "pods/12", "pods/2", "pods", "pod/1", "pods2/1", "pool"} {
		b.set(b.key(rest), rest)
	}
	for prefix, want := range map[string][]string{
		"pods/":   {"pods/1", "pods/12", "pods/2"},
		"pods/1":  {"pods/1", "pods/12"},
		"pods":    {"pods/1", "pods/12", "pods/2", "pods", "pods2/1"},
		"po":      {"pods/1", "pods/12", "pods/2", "pods", "pod/1", "pods2/1", "pool"},
		"pods/12": {"pods/12"},
		"x":       nil,
	} {
		for i := range want {
			want[i] = b.key(want[i])
		}
		b.wantKeys(b.do(fleet.Batch{List: b.key(prefix)}), want...)
	}
	r := b.do(fleet.Batch{
		Puts: []fleet.Put{{Key: b.key("pods/3"), Value: []byte("x")}, {Key: b.key("pods/1")}, {Key: b.key("pods/2"), Value: []byte("new")}},
		Get:  []string{b.key("pool")}, List: b.key("pods/"),
	})
	b.wantKeys(r, b.key("pods/12"), b.key("pods/2"), b.key("pods/3"), b.key("pool"))
	if got := string(r.Items[b.key("pods/2")].Value); got != "new" {
		b.Errorf("a list has %q instead of what was put with it", got)
	}
}

func manyKeys(b *bench) {
	const pods, batch = 1000, 100
	for n := 0; n < pods; n += batch {
		var puts []fleet.Put
		for i := range batch {
			puts = append(puts, fleet.Put{Key: b.key(fmt.Sprint("pods/", n+i)), Value: bytes.Repeat([]byte("x"), 500), Lasts: time.Hour})
		}
		b.do(fleet.Batch{Puts: puts})
	}
	if n := len(b.do(fleet.Batch{List: b.key("pods/")}).Items); n != pods {
		b.Errorf("%d pods are listed, want %d", n, pods)
	}
}

func largeValues(b *bench) {
	key := b.key("large")
	value := bytes.Repeat(every(), 1_000_000/256+1)[:1_000_000]
	r := b.swap(key, 0, value)
	if !r.Swapped || !bytes.Equal(r.Items[key].Value, value) {
		b.Errorf("swapped %v, %d bytes", r.Swapped, len(r.Items[key].Value))
	}
	value[0]++
	b.do(fleet.Batch{Puts: []fleet.Put{{Key: key, Value: value}}})
	if item := b.do(fleet.Batch{List: key}).Items[key]; !bytes.Equal(item.Value, value) {
		b.Errorf("%d bytes", len(item.Value))
	}
}
