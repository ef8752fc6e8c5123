package fleet

import (
	"encoding/json"
	"hash/fnv"
	"strconv"
	"time"
)

// A large fleet's pool is put into the store twice: whole, for the process that divides it next, and in parts,
// each of which has what some of the processes need of it. A process reads its part, so what it reads does not
// grow with the fleet. The whole pool is the record under compare-and-set. A part is a copy: one that is missing or old
// is one that its processes do not go by: see outdated.

const (
	mostWhole = 64 // processes whose pool has no parts
	mostOf    = 32 // the most processes, on average, that a part begins with
	leastOf   = 8  // fewer of them are put together again
	maxParts  = 1 << 10
)

// partsFor returns in how many parts a pool of that many processes is put, if it had that number before. A fleet that grows
// and shrinks a little keeps its parts.
func partsFor(live, before int) int {
	if before > 0 && live >= before*leastOf && live <= before*2*mostOf && live > mostWhole/2 {
		return before
	}
	if live <= mostWhole {
		return 0
	}
	n := 2
	for n*mostOf < live && n < maxParts {
		n *= 2
	}
	return n
}

// PartOf returns which of n parts has a process, from 1 on. Zero is the whole pool, as it is where n is zero.
func PartOf(id string, n int) int {
	if n <= 0 {
		return 0
	}
	h := fnv.New32a()
	h.Write([]byte(id))
	return 1 + int(h.Sum32()%uint32(n))
}

// A Part is a copy of what some processes need of a pool.
type Part struct {
	Part, Of int // which one of how many: see [PartOf]
	Pool     *Pool
}

// Split returns the parts to put beside p. Where the pool before it, which may be nil, had another number of parts, p is split
// in that way also, so that processes that look there find theirs and learn the new number.
func (p *Pool) Split(before *Pool) (all []Part) {
	ways := []int{p.Parts}
	if before != nil && before.Parts != p.Parts {
		ways = append(ways, before.Parts)
	}
	live := p.Live()
	for _, of := range ways {
		first := len(all)
		for part := 1; part <= of; part++ {
			all = append(all, Part{part, of, &Pool{
				Format: p.Format, Version: p.Version, At: p.At, Length: p.Length, Resources: p.Resources, Parts: p.Parts, All: max(live, 1), Known: p.Known,
			}})
		}
		for i := range p.Pods {
			if of > 0 {
				in, pod := all[first+PartOf(p.Pods[i].ID, of)-1].Pool, p.Pods[i]
				pod.Was = nil // which only a division needs
				in.Pods = append(in.Pods, pod)
			}
		}
	}
	return all
}

// PartKey is the key of a part of a fleet's pool, of n; of the whole pool if part is zero.
func PartKey(fleet string, part, n int) string {
	if part == 0 {
		return PoolKey(fleet)
	}
	return fleet + "/part/" + strconv.Itoa(n) + "/" + strconv.Itoa(part)
}

// TurnKey is the key of the record that says who divides a large fleet's pool.
func TurnKey(fleet string) string { return fleet + "/turn" }

// Turn says which process reads all reports to divide the pool. It keeps many from doing so at the same time, and nothing
// else: the pool is under compare-and-set.
type Turn struct {
	Format int    `json:"v"`
	ID     string `json:"id"`
	At     int64  `json:"at"` // microseconds of the store's clock since 1970
}

// NewTurn is the record of a process that is about to divide.
func NewTurn(id string, storeNow time.Time) []byte {
	b, _ := json.Marshal(Turn{format, id, storeNow.UnixMicro()}) // which always can be
	return b
}

// Crowded reports whether processes take turns to divide p: where the fleet is large, or as long as it has no pool, so
// that it may be.
func (p *Pool) Crowded() bool { return p == nil || p.Parts > 0 }

// split says in how many parts p is put, after the pool before it, which may be nil.
func (p *Pool) split(before *Pool) {
	had := 0
	if before != nil {
		had = before.Parts
	}
	p.Parts = partsFor(p.Live(), had)
}

// Behind says that another process divides the pool, so that one that has none yet soon reads it.
func (h *Holder) Behind() { h.behind++ }

// outdated reports whether p is a part of an earlier division than h goes by: it was put late, or the one after it is
// missing. To go back to it would let h take the later one a second time, after it has given back what it had by that. A
// store that lost writes has an earlier pool as a whole.
func (h *Holder) outdated(p *Pool) bool { return p != nil && p.All > 0 && p.Version < h.version }
