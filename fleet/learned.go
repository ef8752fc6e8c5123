package fleet

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/gabion-go/gabion/internal/fleet"
	"github.com/gabion-go/gabion/internal/machine"
)

// This file carries what processes have learned to those that start. Each reports what it learned by itself. Who divides
// the pool puts the middle of what they say into it, and a process that begins takes that over where it has counted
// nothing yet: see machine.Remember for how far.

// learnedFacts are what a process has learned of a dependency, and what the pool says that all have.
type learnedFacts struct {
	Limit   int                  `json:"l,omitempty"`
	Helped  int                  `json:"h,omitempty"` // of Resends
	Resends int                  `json:"e,omitempty"`
	Parts   map[string]partFacts `json:"p,omitempty"` // by partition or endpoint
	At      int64                `json:"at,omitempty"`
}

// partFacts are what is known of a partition or an endpoint.
type partFacts struct {
	Timeout int64   `json:"t,omitempty"` // microseconds
	Cost    int64   `json:"c,omitempty"` // microseconds
	Held    int64   `json:"h,omitempty"` // milliseconds
	Rate    float64 `json:"r,omitempty"`
	Broken  bool    `json:"b,omitempty"`
}

const (
	// memorable is how old what others have learned may be.
	memorable = time.Minute

	// mostText bounds, in bytes, what a report has of it and of open breakers each, and what the pool has.
	mostText = 32 << 10
)

// learnedOf is what a process reports.
func learnedOf(m *machine.Memory) *learnedFacts {
	f := &learnedFacts{Limit: m.Limit, Helped: m.Helped, Resends: m.Resends}
	for _, p := range m.Parts {
		if f.Parts == nil {
			f.Parts = map[string]partFacts{}
		}
		f.Parts[p.Name] = partFacts{
			Timeout: rough(p.Timeout, time.Microsecond), Cost: rough(p.Cost, time.Microsecond), Held: rough(p.Held, time.Millisecond),
			Rate: math.Round(p.Rate*100) / 100, Broken: p.Broken,
		}
	}
	if f.Limit == 0 && f.Resends == 0 && f.Parts == nil {
		return nil
	}
	return f
}

// rough is d in a unit, in two digits: it is good enough, and records that stay the same compress well.
func rough(d, unit time.Duration) int64 {
	n := int64(max(d, 0) / unit)
	step := int64(1)
	for n/step >= 100 {
		step *= 10
	}
	return n / step * step
}

// memory is what a process takes over. Nothing in it is trusted.
func (f *learnedFacts) memory(age time.Duration) *machine.Memory {
	m := &machine.Memory{Limit: max(f.Limit, 0), Helped: max(f.Helped, 0), Resends: max(f.Resends, 0)}
	for _, name := range sorted(f.Parts)[:min(len(f.Parts), machine.MaxMemories)] {
		p := f.Parts[name]
		m.Parts = append(m.Parts, machine.PartMemory{
			Name: name, Broken: p.Broken, Rate: p.Rate, Timeout: span(p.Timeout, time.Microsecond), Cost: span(p.Cost, time.Microsecond),
			Held: max(span(p.Held, time.Millisecond)-age, 0),
		})
	}
	return m
}

// span is n units of time, as far as they make sense.
func span(n int64, unit time.Duration) time.Duration {
	return time.Duration(min(max(n, 0), int64(time.Hour/unit))) * unit
}

// witness is what one process says of one dependency.
type witness struct {
	at int64 // milliseconds of the store's clock
	*learnedFacts
}

// learned is what the pool has for processes that start: the middle of what at least two reports, and one in ten, of the last minute
// say, those of processes that have left included, and else what the pool before had, while it is young enough.
func learned(reports []fleet.Report, now time.Time, before map[string]learnedFacts) map[string]learnedFacts {
	said, members := map[string][]witness{}, 0
	for i := range reports {
		r := &reports[i]
		p, _ := fleet.FactsIn[fleet.ProcessFacts](r, fleet.Process)
		if !young(p.At, now) {
			continue
		}
		members++
		for name := range r.Facts {
			if f, ok := fleet.FactsIn[dependencyFacts](r, name); ok && name != fleet.Process && f.Learned != nil {
				said[name] = append(said[name], witness{p.At, f.Learned})
			}
		}
	}
	least := (&knownFacts{Members: members}).witnesses()
	all, size := map[string]learnedFacts{}, 0
	names := slices.Concat(sorted(said), sorted(before))
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		f := middle(said[name], least)
		if f == nil {
			old, known := before[name]
			if !known || !young(old.At, now) {
				continue
			}
			f = &old
		}
		if size += len(name) + len(encoded(f)); size > mostText {
			break
		}
		all[name] = *f
	}
	return all
}

// young reports whether what was said then is still worth something.
func young(at int64, now time.Time) bool {
	age := now.Sub(time.UnixMilli(at))
	return age <= memorable && age >= -fresh
}

// middle is the middle of what the witnesses say. Of two in the middle it is the one that holds calls back less.
func middle(all []witness, least int) *learnedFacts {
	if len(all) < least {
		return nil
	}
	f := &learnedFacts{At: of(all, 1, func(w witness) int64 { return w.at })}
	f.Limit = of(all, least, func(w witness) int { return w.Limit })
	worths := slices.DeleteFunc(slices.Clone(all), func(w witness) bool { return w.Resends <= 0 })
	slices.SortFunc(worths, func(a, b witness) int {
		return cmp.Compare(float64(a.Helped)/float64(a.Resends), float64(b.Helped)/float64(b.Resends))
	})
	if len(worths) >= least {
		mid := worths[len(worths)/2]
		f.Helped, f.Resends = mid.Helped, mid.Resends
	}
	f.Parts = parts(all, least)
	if f.Limit == 0 && f.Resends == 0 && f.Parts == nil {
		return nil
	}
	return f
}

// parts is the middle of each partition that enough witnesses know.
func parts(all []witness, least int) map[string]partFacts {
	byName := map[string][]partFacts{}
	for _, w := range all {
		for _, name := range sorted(w.Parts)[:min(len(w.Parts), machine.MaxMemories)] {
			byName[name] = append(byName[name], w.Parts[name])
		}
	}
	var kept map[string]partFacts
	for _, name := range sorted(byName) {
		list := byName[name]
		one := partFacts{
			Timeout: of(list, least, func(p partFacts) int64 { return p.Timeout }),
			Cost:    of(list, least, func(p partFacts) int64 { return p.Cost }),
			Rate:    of(list, least, func(p partFacts) float64 { return p.Rate }),
		}
		// Calls are not spaced for what fewer than half of those say that know the partition.
		helds := make([]int64, len(list))
		broken := 0
		for i, p := range list {
			helds[i] = p.Held
			if p.Broken {
				broken++
			}
		}
		slices.Sort(helds)
		if len(list) >= least {
			one.Held = helds[(len(helds)-1)/2]
		}
		one.Broken = broken >= least
		if one.Held <= 0 {
			one.Held, one.Rate = 0, 0
		}
		if one == (partFacts{}) || len(kept) == machine.MaxMemories {
			continue
		}
		if kept == nil {
			kept = map[string]partFacts{}
		}
		kept[name] = one
	}
	return kept
}

// of is the middle of the numbers that are known, the larger of two; zero if fewer than least are.
func of[T any, N int | int64 | float64](all []T, least int, number func(T) N) N {
	var known []N
	for _, one := range all {
		if n := number(one); n > 0 {
			known = append(known, n)
		}
	}
	if len(known) < least || len(known) == 0 {
		return 0
	}
	slices.Sort(known)
	return known[len(known)/2]
}

// remember gives dependencies that have just begun what others have learned.
func remember(m *Member, k *knownFacts) {
	for _, n := range m.needs.of {
		f, known := k.Learned[n.name]
		if !known || n.hydrated || !young(f.At, m.heard) {
			continue
		}
		n.hydrated = true
		age := max(m.heard.Sub(time.UnixMilli(f.At)), 0)
		n.via.Remember(f.memory(age), m.at.Add(memorable-age))
	}
}

func sizeOfLearned(f *dependencyFacts) int {
	if f.Learned == nil {
		return 0
	}
	return len(encoded(f.Learned))
}

// trim leaves out of what dependencies report what drop drops, of the largest first, until its size is within its bound.
func trim(all map[string]dependencyFacts, size func(*dependencyFacts) int, drop func(*dependencyFacts)) {
	sizes, sum := map[string]int{}, 0
	for name, f := range all {
		if n := size(&f); n > 0 {
			sizes[name] = n
			sum += n
		}
	}
	names := slices.SortedFunc(maps.Keys(sizes), func(a, b string) int {
		return cmp.Or(cmp.Compare(sizes[b], sizes[a]), cmp.Compare(a, b))
	})
	for _, name := range names {
		if sum <= mostText {
			return
		}
		f := all[name]
		sum -= sizes[name]
		drop(&f)
		all[name] = f
	}
}
