// Package fleet divides limits among the processes of a program by leases.
//
// A [Holder] is one process's side. It says what the process needs ([Report]) and keeps what it was
// given ([Shares]) until the lease ends. [Divide] is the other side. It makes a [Pool], which says who holds
// what until when. Package fleet in the root of the module carries both records to a store and back. Nothing
// here reads a clock: the process's time is an [clock.Instant], the store's time is a [time.Time], and the two
// are never compared.
//
// What is divided is an amount of a resource. "payments rate" with a total of 1000 is divided into calls a
// second, "payments slots" into whole numbers. The names mean nothing here.
//
// # What holds
//
// What is in force in all processes together is at most the total, in every moment, as long as the store
// keeps what it confirmed, the processes' monotonic clocks run as fast as the store's to within skew in the length of a
// lease, and the store's clock does not step forward by more than skew. Pauses, lost requests and lost
// answers of any length do not change that, nor do steps of a process's clock.
//
//   - A store that lost writes gave shares that it forgot. What is in force then exceeds the total by at most
//     the sum of the shares in the lost writes, until those leases end. A holder that hears the
//     restored pool gives its lost share back at once.
//   - A step forward by d of the store's clock makes leases seem to end d early. So for at most d, what such leases hold is in
//     force twice. After a step of more than half of a lease's length, all leases are counted for one more
//     length, and nothing is in force twice.
//   - A total that becomes smaller is kept when the leases under the larger one have been given back or have ended,
//     which takes one lease more if the store was away.
//   - Processes that cannot reach a store that others reach keep what they held, or what their policy
//     declares, and the others are given it, too: see [Demand.Lost].
package fleet

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
)

// Bounds of the records. Each is far above what fleets need, and keeps a wild record from costing much.
const (
	MaxPods      = 10_000  // the memory of a division is some KB a process
	MaxResources = 1_000   // of a report and of a pool
	MaxName      = 200     // bytes of a resource's name or a process's ID
	MaxRecord    = 1 << 20 // bytes of a record as it is stored, which all stores can hold

	format = 1 // the records that this release writes, and the newest that it reads
)

// ErrNewer is the error of a record whose format this release does not know.
// The processes of a newer release wrote it.
var ErrNewer = errors.New("the record has a newer format than this release reads")

// errTooLarge is the error of a record of more than MaxRecord bytes.
var errTooLarge = errors.New("the record is larger than 1 MB")

// Demand is what a process needs of a resource.
type Demand struct {
	// Resource names what is divided, in at most MaxName bytes.
	Resource string `json:"r"`

	// Total is the whole as this process's policy says. While processes disagree, as in a rolling
	// deploy, the smallest counts. A Total that is not positive and finite makes the demand void.
	Total float64 `json:"t"`

	// Want is how much the process could use: see [Estimate]. Negative counts as zero, and more than Total
	// as Total.
	Want float64 `json:"w,omitempty"`

	// Room is how much more than Want the process would like to have, for what comes unevenly. It is given
	// from what is left when all have what they want. Bounded as Want is.
	Room float64 `json:"m,omitempty"`

	// Least is what the process is given whatever it wants, as far as it is no more than an equal
	// part of the total. Zero means nothing.
	Least float64 `json:"l,omitempty"`

	// New says that the process has counted nothing of it yet. It is then taken to want an equal part.
	New bool `json:"new,omitempty"`

	// Long says that what is given first counts for long, as that of a quota of a day does. Then nothing is kept for
	// processes that come next.
	Long bool `json:"lo,omitempty"`

	// Whole says that shares are whole numbers.
	Whole bool `json:"i,omitempty"`

	// Used is what is in use and cannot be taken back at once, such as slots of calls in flight. Zero
	// means that a smaller share is in force at once.
	Used float64 `json:"-"`

	// Lost is the share of Total that is in force once the lease has ended and the store does not answer.
	// Zero means what the process held last: as long as no process reaches the store, these add up to at
	// most the total, however long it is away. Negative means nothing. A process that never had a share has a
	// tenth of Total instead of what it held last.
	//
	// If n of the processes cannot reach a store that others reach, the others are given what those n held. So
	// as much as those n held, or as they declare here, is in force in addition to the total.
	Lost float64 `json:"-"`

	// Holds is the most that may be in force in this process, unless it has heard of a pool that is newer than
	// the report's Ack. [Holder.Report] fills it in.
	Holds float64 `json:"h,omitempty"`
}

// Report is what a process puts into the store at each renewal.
type Report struct {
	Format  int                        `json:"v"`
	ID      string                     `json:"id"`
	Count   uint64                     `json:"n"`             // of the reports of this process, which tells a new one from an old one
	Ack     uint64                     `json:"a,omitempty"`   // the version of the pool that the process goes by
	Leaves  bool                       `json:"end,omitempty"` // the process ends and holds nothing any more
	Demands []Demand                   `json:"d,omitempty"`
	Facts   map[string]json.RawMessage `json:"f,omitempty"` // by dependency; nothing here looks into them
}

// Encode returns the record of the report. The error says that it is too large.
func (r *Report) Encode() ([]byte, error) { return encode(r) }

// ParseReport reads a record of [Report.Encode]. Fields that it does not know are ignored. Demands that
// make no sense are left out, so a process that reports nonsense is given nothing for it. The
// error is [ErrNewer], or says what is wrong.
func ParseReport(b []byte) (*Report, error) {
	r := new(Report)
	if err := decode(b, r, &r.Format); err != nil {
		return nil, fmt.Errorf("report: %w", err)
	}
	switch {
	case !validName(r.ID):
		return nil, fmt.Errorf("report: an ID has 1 to %d bytes, not %d", MaxName, len(r.ID))
	case len(r.Demands) > MaxResources:
		return nil, fmt.Errorf("report: %d resources are more than %d", len(r.Demands), MaxResources)
	}
	r.sanitize()
	return r, nil
}

// sanitize leaves out void demands and bounds the others. Of two for one resource the first counts.
func (r *Report) sanitize() {
	seen := make(map[string]bool, len(r.Demands))
	kept := r.Demands[:0]
	for _, d := range r.Demands {
		if d.void() || seen[d.Resource] {
			continue
		}
		seen[d.Resource] = true
		d.Want, d.Room, d.Least = clamp(d.Want, d.Total), clamp(d.Room, d.Total), clamp(d.Least, d.Total)
		d.Holds = clamp(d.Holds, math.MaxFloat64)
		kept = append(kept, d)
	}
	r.Demands = kept
}

// void reports whether the demand makes no sense, so that no pool has it.
func (d *Demand) void() bool {
	return !validName(d.Resource) || !(d.Total > 0 && d.Total <= math.MaxFloat64)
}

// demand returns what r says of a resource, or nil.
func (r *Report) demand(resource string) *Demand {
	for i := range r.Demands {
		if r.Demands[i].Resource == resource {
			return &r.Demands[i]
		}
	}
	return nil
}

func validName(s string) bool { return len(s) > 0 && len(s) <= MaxName }

// clamp puts x between zero and most. NaN becomes zero.
func clamp(x, most float64) float64 {
	if !(x > 0) {
		return 0
	}
	return min(x, most)
}
