package pgxstore

import (
	"sync"

	"github.com/gabion-go/gabion/idempotency"
)

// maxHeld bounds the records that are remembered, some 300 bytes each. What is
// forgotten costs one more round trip when its run ends.
const maxHeld = 4096

// held remembers the records of runs that this store granted, as they were left.
type held struct {
	mu   sync.Mutex // guards rows
	rows map[idempotency.Ref]row
}

// put remembers a record in place of any other, if there is no room.
func (h *held) put(id idempotency.ID, x row) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.rows == nil {
		h.rows = map[idempotency.Ref]row{}
	}
	for other := range h.rows {
		if len(h.rows) < maxHeld {
			break
		}
		delete(h.rows, other)
	}
	h.rows[idempotency.Ref{ID: id, Token: x.Record.Token}] = x
}

// take returns a record and forgets it: one change at a time goes unread.
func (h *held) take(ref idempotency.Ref) (row, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	x, found := h.rows[ref]
	delete(h.rows, ref)
	return x, found
}
