package demo

import (
	"errors"
	"sync"
)

// errKeyReused says that a key came back with another order.
var errKeyReused = errors.New("the idempotency key belongs to another order")

// answer is what the provider says to a request.
type answer struct {
	status int
	body   string
}

// keys is the provider's memory of idempotency keys: in flight, or done with the
// answer given. It lives as long as the run and holds at most one entry an order.
// Safe for concurrent use.
type keys struct {
	mu      sync.Mutex // guards entries
	entries map[string]*entry
}

type entry struct {
	order string
	done  chan struct{} // closed when answer is there
	answer
}

// claim returns the entry of key, and whether the caller is the first and has to
// do the work and finish it.
func (k *keys) claim(key, order string) (e *entry, first bool, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if e, known := k.entries[key]; known {
		if e.order != order {
			return nil, false, errKeyReused
		}
		return e, false, nil
	}
	if k.entries == nil {
		k.entries = map[string]*entry{}
	}
	e = &entry{order: order, done: make(chan struct{})}
	k.entries[key] = e
	return e, true, nil
}

// finish keeps the answer for those who ask again. An answer that stands for no
// work is not kept: whoever asks again is first again.
func (k *keys) finish(key string, e *entry, a answer) {
	k.mu.Lock()
	if a.status >= 500 {
		delete(k.entries, key)
	}
	k.mu.Unlock()
	e.answer = a
	close(e.done)
}
