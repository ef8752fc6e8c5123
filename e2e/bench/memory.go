package bench

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"testing"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/policy"
)

// Keyed is how many breakers of one dependency are made to see what they take.
const Keyed = 100_000

// Holding is something that many of are kept in memory.
type Holding struct {
	Name  string
	Title string
	Count int
	keep  func(n int) any // makes n of them, each used once
}

// Holdings are what the memory of is measured.
func Holdings() []Holding {
	return []Holding{
		{"dependency", "a dependency with the default policy, used once", 2000, dependencies},
		{"instance", "an instance of a `Registry`, with the default policy, idle", 1000, instances},
		{"partition", "a partition of a dependency, with the default policy, idle", Keyed, partitions},
	}
}

func once(context.Context) (int, error) { return 1, nil }

func call(d *gabion.Dependency, opts ...gabion.CallOption) {
	if v, err := gabion.Do(context.Background(), d, once, opts...); v != 1 || err != nil {
		panic(fmt.Sprint("a call failed: ", err))
	}
}

func dependencies(n int) any {
	all := make([]*gabion.Dependency, n)
	for i := range all {
		all[i] = gabion.New("bench", policy.Policy{})
		call(all[i])
	}
	return all
}

func instances(n int) any {
	r, err := gabion.NewRegistry(map[string]policy.Policy{"bench": {}})
	if err != nil {
		panic(err)
	}
	for i := range n {
		d, err := r.Instance("bench", strconv.Itoa(i))
		if err != nil {
			panic(err)
		}
		call(d)
	}
	return r
}

// partitions raises the bound, which is 1000, and nothing else.
func partitions(n int) any {
	d := gabion.New("bench", policy.Policy{Partitions: policy.Partitions{Max: n}})
	for i := range n {
		call(d, gabion.WithPartition(strconv.Itoa(i)))
	}
	return d
}

// BenchmarkHoldings reports the bytes that each takes, names and maps included.
// It measures once, whatever b.N is.
func BenchmarkHoldings(b *testing.B) {
	for _, h := range Holdings() {
		b.Run(h.Name, func(b *testing.B) {
			b.ReportMetric(h.bytes(), "B/each")
			b.ReportMetric(0, "ns/op")
		})
	}
}

func (h Holding) bytes() float64 {
	before := heap()
	kept := h.keep(h.Count)
	taken := heap() - before
	runtime.KeepAlive(kept)
	return float64(taken) / float64(h.Count)
}

// heap returns what is in use. Two collections empty the pools.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
