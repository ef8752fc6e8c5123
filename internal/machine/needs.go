package machine

import (
	"sync/atomic"
	"time"
)

// needs is how long a good answer takes while re-sends come too late for their calls: those
// that begin with less time left are work for nothing. It is one word, so that it takes no
// lock: nanoseconds, and above them how many answers came since a re-send was too late.
// Zero means that none was lately.
type needs struct{ word atomic.Uint64 }

const (
	needsBits    = 50 // for nanoseconds: thirteen days
	needsMost    = 1<<needsBits - 1
	needsAnswers = 8   // that are smoothed over
	needsForget  = 200 // answers without a re-send that was too late
)

func (n *needs) known() bool { return n.word.Load() != 0 }

// time is how long a call must have left for a re-send: half as long again as a good answer
// takes. ADR 100 has what other factors bring.
func (n *needs) time() time.Duration { return time.Duration(n.word.Load()&needsMost) * 3 / 2 }

// tooLate counts a re-send that the end of its call cut off after so long. It would have
// taken longer.
func (n *needs) tooLate(had time.Duration) {
	for {
		old := n.word.Load()
		d := time.Duration(old & needsMost)
		if n.word.CompareAndSwap(old, min(uint64(d+max(had-d, 0)/needsAnswers), needsMost)) {
			return
		}
	}
}

// answered counts a good answer that took so long.
func (n *needs) answered(took time.Duration) {
	for {
		old := n.word.Load()
		if old == 0 {
			return
		}
		d, answers := time.Duration(old&needsMost), old>>needsBits+1
		next := answers<<needsBits | min(uint64(d+(took-d)/needsAnswers), needsMost)
		if answers > needsForget {
			next = 0
		}
		if n.word.CompareAndSwap(old, next) {
			return
		}
	}
}
