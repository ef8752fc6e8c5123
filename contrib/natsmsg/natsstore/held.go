package natsstore

import "github.com/gabion-go/gabion/idempotency"

// maxHeld bounds the records that are remembered: runs under way in one process are
// fewer, and one that was forgotten costs a read.
const maxHeld = 1 << 14

// A held record is one that a run of this process holds, as it was written last.
// It spares the read before a change; whether it is still so, the revision tells.
type held = stored

// hold remembers a record while its run is under way.
func (s *Store) hold(id idempotency.ID, h held) {
	if h.record.State != idempotency.StateRunning {
		s.drop(id)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for other := range s.held {
		if len(s.held) < maxHeld {
			break
		}
		delete(s.held, other)
	}
	s.held[id] = h
}

func (s *Store) drop(id idempotency.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.held, id)
}

// holding returns the remembered record of a run.
func (s *Store) holding(ref idempotency.Ref) (held, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h, known := s.held[ref.ID]
	return h, known && h.record.Token == ref.Token
}
