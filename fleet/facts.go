package fleet

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/internal/adapter"
	"github.com/gabion-go/gabion/internal/fleet"
	"github.com/gabion-go/gabion/internal/machine"
	"github.com/gabion-go/gabion/policy"
)

// gathered is what a process has reported of itself.
type gathered struct {
	opened map[openBreaker]time.Time // when it was last reported that a breaker is open
	known  uint64                    // the version of the pool whose Known was read last
}

type openBreaker struct{ dependency, partition string }

// dependencyFacts are what a report says of a dependency.
type dependencyFacts struct {
	fleet.DependencyFacts
	Learned *learnedFacts `json:"k,omitempty"`
}

// mostOpen bounds how many open breakers of one dependency are reported.
const mostOpen = 16

// gather says what the process knows.
func (m *Member) gather() map[string]json.RawMessage {
	names := m.registry.Names()
	of := make(map[string]dependencyFacts, len(names))
	hash := sha256.New()
	for _, name := range names {
		d, err := m.registry.Get(name)
		if err != nil {
			continue
		}
		fmt.Fprintf(hash, "%s %#v\n", name, d.Policy())
		if len(of) < fleet.MaxResources {
			stats := d.Stats()
			of[machine.BoundedName(name)] = m.factsOf(name, d, &stats)
		}
	}
	bound(of)
	all := make(map[string]json.RawMessage, len(of)+1)
	for name := range of {
		all[name] = encoded(of[name])
	}
	f := fleet.ProcessFacts{Version: m.o.Version, Policies: hex.EncodeToString(hash.Sum(nil)[:6]), Lost: m.force.Lost}
	if !m.heard.IsZero() {
		f.At = m.heard.Add(time.Since(m.at)).UnixMilli()
	}
	all[fleet.Process] = encoded(f)
	return all
}

// bound leaves out what would make a report larger than a store takes.
func bound(of map[string]dependencyFacts) {
	trim(of, sizeOfLearned, func(f *dependencyFacts) { f.Learned = nil })
	trim(of, sizeOfOpen, func(f *dependencyFacts) { f.Open = f.Open[:1] })
}

// encoded is for types that always can be.
func encoded(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		return json.RawMessage("{}")
	}
	return b
}

func (m *Member) factsOf(name string, d *gabion.Dependency, s *gabion.Stats) dependencyFacts {
	memory := adapter.Of(d).Memory()
	f := dependencyFacts{Learned: learnedOf(&memory), DependencyFacts: fleet.DependencyFacts{
		Calls: s.Totals.Calls, Succeeded: s.Totals.Succeeded, Refused: s.Totals.Unsent, P99: s.Latency.P99.Microseconds(),
	}}
	if n := m.needs.of[name]; n != nil && f.Learned != nil {
		n.hydrated = true // it has something of its own
	}
	add := func(p *policy.PartitionStats) {
		if st := p.Breaker.State; !p.Guarded || st != policy.StateOpen && st != policy.StateHalfOpen || len(f.Open) == mostOpen {
			return
		}
		f.Open = append(f.Open, p.Name)
		m.facts.note(openBreaker{machine.BoundedName(name), p.Name})
	}
	add(&s.Main)
	for i := range s.Partitions {
		add(&s.Partitions[i])
	}
	return f
}

func (g *gathered) note(b openBreaker) {
	if g.opened == nil {
		g.opened = map[openBreaker]time.Time{}
	}
	maps.DeleteFunc(g.opened, func(_ openBreaker, at time.Time) bool { return time.Since(at) > 2*fresh })
	g.opened[b] = time.Now()
}

// knownFacts are what the fleet knows, as the process found that divided the pool.
type knownFacts struct {
	At      int64                     `json:"at"`          // milliseconds of the store's clock
	Members int                       `json:"n"`           // whose reports were fresh
	Open    map[string]map[string]int `json:"o,omitempty"` // by dependency and partition: how many processes find it broken
	Learned map[string]learnedFacts   `json:"l,omitempty"` // by dependency
}

// fresh is how old a report may be whose breakers count as evidence.
const fresh = 10 * time.Second

// The least processes that must find a dependency broken before others doubt it: two, and one in ten. One that is
// poisoned says nothing about the others' way to the dependency.
const (
	leastWitnesses = 2
	oneIn          = 10
)

// known puts together what the reports say, and what the pool before knew. It is a pure function of them.
func known(reports []fleet.Report, now time.Time, old *fleet.Pool) json.RawMessage {
	var before knownFacts
	if old != nil && len(old.Known) > 0 {
		_ = json.Unmarshal(old.Known, &before) // what can't be read is not known
	}
	k := knownFacts{At: now.UnixMilli(), Open: map[string]map[string]int{}, Learned: learned(reports, now, before.Learned)}
	for i := range reports {
		r := &reports[i]
		p, _ := fleet.FactsIn[fleet.ProcessFacts](r, fleet.Process)
		if age := now.Sub(time.UnixMilli(p.At)); r.Leaves || age > fresh || age < -fresh {
			continue
		}
		k.Members++
		for name := range r.Facts {
			f, ok := fleet.FactsIn[dependencyFacts](r, name)
			if name == fleet.Process || !ok {
				continue
			}
			open := f.Open[:min(len(f.Open), mostOpen)]
			slices.Sort(open)
			for _, partition := range slices.Compact(open) { // one is one witness, however often it says so
				if k.Open[name] == nil {
					k.Open[name] = map[string]int{}
				}
				k.Open[name][partition]++
			}
		}
	}
	k.Open = believed(k.Open, k.witnesses())
	return encoded(k)
}

// believed are the breakers that enough processes find open: those first that most do, and no more than the pool has room for.
func believed(open map[string]map[string]int, least int) map[string]map[string]int {
	var all []openBreaker
	for name, partitions := range open {
		for partition, n := range partitions {
			if n >= least {
				all = append(all, openBreaker{name, partition})
			}
		}
	}
	slices.SortFunc(all, func(a, b openBreaker) int {
		return cmp.Or(cmp.Compare(open[b.dependency][b.partition], open[a.dependency][a.partition]),
			strings.Compare(a.dependency, b.dependency), strings.Compare(a.partition, b.partition))
	})
	kept, size := map[string]map[string]int{}, 0
	for _, b := range all {
		more := len(encoded(b.dependency)) + len(encoded(b.partition))
		if size+more > mostText {
			continue // shorter ones may fit
		}
		size += more
		if kept[b.dependency] == nil {
			kept[b.dependency] = map[string]int{}
		}
		kept[b.dependency][b.partition] = open[b.dependency][b.partition]
	}
	return kept
}

// sizeOfOpen is what all but the first of the open breakers take in a record.
func sizeOfOpen(f *dependencyFacts) (n int) {
	for _, name := range f.Open[min(len(f.Open), 1):] {
		n += len(encoded(name)) + 1
	}
	return n
}

// witnesses is how many processes must find a dependency broken.
func (k *knownFacts) witnesses() int { return max(leastWitnesses, k.Members/oneIn) }

// learn makes the breakers doubt what others find broken.
func (m *Member) learn(p *fleet.Pool) {
	if p == nil || p.Version == m.facts.known || len(p.Known) == 0 {
		return
	}
	m.facts.known = p.Version
	var k knownFacts
	if json.Unmarshal(p.Known, &k) != nil {
		return
	}
	remember(m, &k)
	left := fresh - m.heard.Sub(time.UnixMilli(k.At))
	if left <= 0 || left > 2*fresh {
		return
	}
	until := m.at.Add(min(left, fresh))
	for _, n := range m.needs.of {
		for partition, others := range k.Open[n.name] {
			if time.Since(m.facts.opened[openBreaker{n.name, partition}]) < 2*fresh {
				others-- // that may be this process
			}
			if others >= k.witnesses() {
				n.via.Doubt(partition, until)
			}
		}
	}
}

// sorted returns the keys of a map in order.
func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
