package gabionotel

import (
	"maps"
	"sync"
	"sync/atomic"
)

// bounded is a map that keeps what was put first, up to a number. Reading takes no lock and
// allocates nothing. The map is copied for each entry, of which there are few.
type bounded[K comparable, V any] struct {
	known   atomic.Pointer[map[K]*V]
	filling sync.Mutex
}

// get returns the value of that key. If it is missing it returns that of create, which may be nil, and
// keeps it otherwise.
func (b *bounded[K, V]) get(key K) *V {
	if m := b.known.Load(); m != nil {
		return (*m)[key]
	}
	return nil
}

// put keeps the value that create returns, unless there is one or there are most. It
// returns the one that is kept, or nil.
func (b *bounded[K, V]) put(key K, most int, create func() *V) *V {
	b.filling.Lock()
	defer b.filling.Unlock()
	before := b.known.Load()
	if before == nil {
		before = new(map[K]*V)
	}
	if v := (*before)[key]; v != nil {
		return v
	}
	if len(*before) >= most {
		return nil
	}
	after := maps.Clone(*before)
	if after == nil {
		after = map[K]*V{}
	}
	v := create()
	after[key] = v
	b.known.Store(&after)
	return v
}
