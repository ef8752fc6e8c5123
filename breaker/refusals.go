package breaker

import "sync/atomic"

// refusals counts those who are refused. An open breaker is where a whole
// service knocks at once; so the one number is divided as soon as callers are
// seen to meet there.
type refusals struct {
	first atomic.Int64
	more  atomic.Pointer[[]refusal]
}

// A refusal has a cache line to itself.
type refusal struct {
	n atomic.Int64
	_ [56]byte
}

// add counts one. It divides the counter into so many when it has met others.
func (r *refusals) add(shard uint32, shards int) {
	if more := r.more.Load(); more != nil {
		(*more)[int(shard)%len(*more)].n.Add(1)
		return
	}
	n := r.first.Load()
	for lost := 0; !r.first.CompareAndSwap(n, n+1); lost++ {
		if n = r.first.Load(); lost > 0 && shards > 1 {
			more := make([]refusal, shards)
			r.more.CompareAndSwap(nil, &more)
		}
	}
}

func (r *refusals) sum() int64 {
	n := r.first.Load()
	if more := r.more.Load(); more != nil {
		for i := range *more {
			n += (*more)[i].n.Load()
		}
	}
	return n
}

func (r *refusals) clear() {
	r.first.Store(0)
	if more := r.more.Load(); more != nil {
		for i := range *more {
			(*more)[i].n.Store(0)
		}
	}
}
