package breaker

import (
	"math"
	"sync/atomic"
)

// refusals counts calls that are refused. An open breaker may get all calls of a service
// at once. So the number is divided as soon as calls get in each other's way.
type refusals struct {
	first atomic.Int64 // negative once there is more
	more  atomic.Pointer[[]refusal]
}

// A refusal is one of the counters, with a cache line to itself.
type refusal struct {
	n atomic.Int64
	_ [56]byte
}

const divided = math.MinInt64 // the sign bit of first

// add counts one. After two lost races it divides the counter.
func (r *refusals) add(shard uint32, shards int) {
	for range 2 {
		n := r.first.Load()
		if n < 0 {
			break
		}
		if r.first.CompareAndSwap(n, n+1) {
			return
		}
	}
	if r.first.Load() >= 0 {
		if shards == 1 {
			r.first.Add(1)
			return
		}
		r.divide(shards)
	}
	more := *r.more.Load()
	more[shard%uint32(len(more))].n.Add(1)
}

func (r *refusals) divide(shards int) {
	more := make([]refusal, shards)
	r.more.CompareAndSwap(nil, &more)
	r.first.Or(divided) // last, so that more is there once the sign is seen
}

func (r *refusals) sum() int64 {
	n := r.first.Load() &^ divided
	if more := r.more.Load(); more != nil {
		for i := range *more {
			n += (*more)[i].n.Load()
		}
	}
	return n
}

func (r *refusals) clear() {
	r.first.And(divided)
	if more := r.more.Load(); more != nil {
		for i := range *more {
			(*more)[i].n.Store(0)
		}
	}
}
