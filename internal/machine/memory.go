package machine

import (
	"slices"
	"time"

	"github.com/gabion-go/gabion/internal/breaker"
	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/internal/latency"
	"github.com/gabion-go/gabion/internal/terms"
)

// This file carries what one process has learned to another one that has just begun. What was carried is a guess: each
// part of a State takes it only while it has counted nothing itself, takes no more of it than is safe if it is wrong, and
// drops it when the first calls show something else. It is never reported as if this State had learned it.

// Memory is what a State has learned by itself. Zero fields are not known.
type Memory struct {
	Limit           int // of the bulkhead, where it is learned
	Helped, Resends int // of the last re-sends that ended, Helped succeeded
	Parts           []PartMemory
}

// PartMemory is what is known of a partition or an endpoint.
type PartMemory struct {
	Name    string // "" is that of calls that name none
	Broken  bool   // its breaker is open, or half open
	Timeout time.Duration
	Rate    float64       // start times a second that the dependency lets through, while calls are spaced
	Held    time.Duration // for how long calls are spaced at least
	Cost    time.Duration // of an endpoint: what an attempt takes
}

// MaxMemories is how many partitions are in a Memory at most: those with trouble first, and then by name.
const MaxMemories = 16

// MemoryOf returns what s has learned.
func MemoryOf(s *State, now clock.Instant) (m Memory) {
	r := s.rules.Load()
	if p := s.part(); r.limit != nil && p.learned != nil && p.learned.Moved() {
		m.Limit = p.learned.Limit()
	}
	if r.earns {
		m.Helped, m.Resends = s.earned.Ended()
	}
	var rest []PartMemory
	s.eachPartition(func(p *partition, name string) {
		switch one := p.trouble(now, r, name); {
		case name == terms.Overflow: // it is of whatever did not fit elsewhere
		case one.Broken || one.Held > 0 || name == "":
			m.Parts = append(m.Parts, one)
		case len(rest) < MaxMemories: // eachPartition goes by name
			rest = append(rest, one)
		}
	})
	if ps := placesOf(s); ps != nil {
		for _, p := range ps.list {
			m.Parts = append(m.Parts, p.memory(now))
		}
	}
	m.Parts = append(m.Parts, rest...)
	m.Parts = m.Parts[:min(len(m.Parts), MaxMemories)]
	for i := range m.Parts {
		m.Parts[i].Timeout = measuredTime(s, now, r, m.Parts[i].Name)
	}
	m.Parts = slices.DeleteFunc(m.Parts, func(p PartMemory) bool { return p == PartMemory{Name: p.Name} })
	return m
}

func (p *partition) trouble(now clock.Instant, r *Rules, name string) PartMemory {
	one := PartMemory{Name: name}
	if b := p.breaker.Load(); b != nil && r.guarded {
		one.Broken = isBroken(b)
	}
	one.Rate, one.Held = p.pacer.Load().learned(now)
	return one
}

func isBroken(b *breaker.Breaker) bool {
	state := b.State()
	return state == breaker.Open || state == breaker.HalfOpen
}

func (p *place) memory(now clock.Instant) PartMemory {
	return PartMemory{Name: p.Name, Broken: isBroken(p.guard.breaker), Cost: p.known.Learned(now)}
}

// measuredTime is an attempt's time in a partition, if it was measured.
func measuredTime(s *State, now clock.Instant, r *Rules, name string) time.Duration {
	p := &s.main
	if name != "" {
		ps := s.partitions()
		if ps == nil {
			return 0
		}
		named := ps.peek(name)
		if named == nil {
			return 0
		}
		p = &named.partition
	}
	times := p.times.Load()
	if !r.timed || !times.has(r) {
		return 0
	}
	t := &r.Policy.Timeout
	if e := times.tail.Estimate(float64(t.Percentile), t.Attempt); e.Known != latency.Known {
		return 0
	}
	return bounded(times.tail.InForce(now, float64(t.Percentile), t.Attempt), t)
}

// What a guess may do at most.
const (
	guessedTime  = 2               // times what others measured, so that it cuts off little if this process is farther away
	guessedLimit = 2               // times the limit that a process begins with otherwise; more it learns by itself
	guessedPace  = 5 * time.Second // for so long calls are spaced
	guessedRate  = 1.0             // start times a second at least, so that calls find out
	guessedDoubt = 10 * time.Second
	fewResends   = 10 // that ended; fewer say nothing
)

// recollection is the part of a Memory for partitions that are not there yet.
type recollection struct {
	until clock.Instant
	at    clock.Instant
	parts map[string]PartMemory
}

// Remember gives s what others have learned. It counts for what s has counted nothing of, up to that time also for
// partitions that calls name later.
func Remember(s *State, now, until clock.Instant, m *Memory) {
	reloading.Lock()
	defer reloading.Unlock()
	if now >= until {
		return
	}
	r := s.rules.Load()
	if r.limit != nil && m.Limit > 0 {
		most := min(r.Policy.Bulkhead.Max, guessedLimit*usualLimit)
		if s.part().learned.Begin(max(min(m.Limit, most), r.Policy.Bulkhead.Min)) {
			s.resize(now, r, r)
		}
	}
	if r.earns && m.Resends >= fewResends {
		s.earned.Doubt(m.Helped, m.Resends)
	}
	all := &recollection{until: until, at: now, parts: make(map[string]PartMemory, min(len(m.Parts), MaxMemories))}
	for _, one := range m.Parts[:min(len(m.Parts), MaxMemories)] {
		all.parts[one.Name] = one
	}
	s.extend(func(next *parts) { next.memory = all })
	s.eachPartition(func(p *partition, name string) { recall(s, now, p, r, name) })
	if ps := placesOf(s); ps != nil {
		for _, p := range ps.list {
			if one, known := all.parts[p.Name]; known {
				p.known.Expect(now, min(one.Cost, longestCost))
				doubt(p.guard.breaker, now, one.Broken)
			}
		}
	}
}

// longestCost keeps an endpoint from being left for good because of what others say of it.
const longestCost = 10 * time.Second

func doubt(b *breaker.Breaker, now clock.Instant, broken bool) {
	if b != nil && broken && b.Snapshot(now).Counts.Calls == 0 {
		breaker.Doubt(b, now.Add(guessedDoubt))
	}
}

// recall gives a partition that has counted nothing what others know of it.
func recall(s *State, now clock.Instant, p *partition, r *Rules, name string) {
	more := s.part()
	if more == nil || more.memory == nil || now >= more.memory.until {
		return
	}
	one, known := more.memory.parts[name]
	if !known || name == terms.Overflow {
		return
	}
	if r.guarded {
		doubt(p.breaker.Load(), now, one.Broken)
	}
	if times := p.times.Load(); r.timed && times.has(r) && one.Timeout > 0 && one.Timeout < r.Policy.Timeout.Attempt {
		times.tail.Suggest(guessedTime*one.Timeout, more.memory.until)
	}
	held := min(one.Held, guessedPace, r.Policy.Pace.Max) - now.Sub(more.memory.at)
	if held > 0 && !r.Policy.Pace.Off {
		fresh := new(pacer)
		fresh.guess(now, now.Add(held), one.Rate)
		p.pacer.CompareAndSwap(nil, fresh)
	}
}
