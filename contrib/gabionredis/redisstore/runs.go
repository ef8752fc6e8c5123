package redisstore

import (
	"sync"

	"github.com/gabion-go/gabion/idempotency"
)

// Bounds of what is remembered: 8 MiB at most. What is not remembered is read.
const (
	maxRuns     = 8192
	maxRunValue = 1 << 10
)

// runs remembers the values of the runs that this process claimed, so that their end
// need not read them. It is only ever a guess: the server compares.
type runs struct {
	mu     sync.Mutex // guards values
	values map[idempotency.Ref]string
}

func (r *runs) get(ref idempotency.Ref) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.values[ref]
}

// put remembers a value, and forgets any other if there are too many.
func (r *runs) put(ref idempotency.Ref, value string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.values == nil {
		r.values = map[idempotency.Ref]string{}
	}
	delete(r.values, ref)
	if len(value) > maxRunValue {
		return
	}
	if len(r.values) >= maxRuns {
		for other := range r.values {
			delete(r.values, other)
			break
		}
	}
	r.values[ref] = value
}

func (r *runs) drop(ref idempotency.Ref) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.values, ref)
}
