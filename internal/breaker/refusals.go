package breaker

import (
	"math"
	"sync/atomic"
)

// refusals counts those who are refused. An open breaker is where a whole
// service knocks at once; so the one number is divided as soon as callers are
// seen to meet there.
type refusals struct {
	first atomic.Int64 // its sign says that there is more
	more  atomic.Pointer[[]refusal]
}

// A refusal has a cache line to itself.
type refusal struct {
	n atomic.Int64
	_ [56]byte
}

const divided = math.MinInt64 // the sign

// add counts one. Who loses twice to others divides.
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
	r.first.Or(divided) // after it: who sees the sign finds more
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
