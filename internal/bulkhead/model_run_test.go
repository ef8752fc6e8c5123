package bulkhead

import (
	"testing"

	"github.com/gabion-go/gabion/internal/chance"
)

// finish ends all waits, releases all slots and finds them free (C101).
func (p *pair) finish() {
	for len(p.stays) > 0 {
		p.leave(0)
		p.check()
	}
	for len(p.slots) > 0 {
		p.release(0)
		p.check()
	}
	p.m.slotsMax, p.m.queueMax = 0, 0
	p.b.SetTenantMax(0, 0)
	for range p.m.limit + 1 {
		p.try("last")
	}
	p.check()
}

// C101: after 10^5 random operations the free slots are the capacity, and on the
// way everything was as the model says.
func TestRandomOperationsLeaveEverySlotFree(t *testing.T) {
	const runs, steps = 50, 2000
	for run := range uint64(runs) {
		p := newPair(t, int(run%7), int(run%9), run%2 == 0)
		for i := range uint64(steps) {
			x := chance.Bits(run, i, 0, chance.Backoff)
			p.step(byte(x), byte(x>>8))
		}
		p.finish()
	}
}

// Long queues under a steady flood are what makes classes run out of patience,
// and tenants push each other out; limits stay as they are here.
func TestFloodAgreesWithTheModel(t *testing.T) {
	for run := range uint64(8) {
		p := newPair(t, 3, 40, run%2 == 0)
		p.m.strict = run%4 < 2
		p.b.SetStrict(p.m.strict)
		for i := range uint64(1500) {
			x := chance.Bits(run, i, 1, chance.Backoff)
			verb := byte(3) // join
			if i%2 == 1 {
				verb = 9 // release
			}
			arg := byte(x)
			if verb == 3 && x>>8%8 != 0 {
				arg = 16 + byte(x>>16)%2 // High, of two of the tenants
			}
			p.step(verb, arg)
		}
		p.finish()
	}
}

func FuzzModel(f *testing.F) {
	f.Add(byte(2), byte(1), true, []byte{0, 1, 0, 1, 3, 1, 3, 2, 9, 0, 8, 0, 14, 0x35})
	f.Add(byte(1), byte(3), false, []byte{0, 0, 3, 0, 3, 8, 3, 16, 8, 1, 9, 0, 15, 0, 9, 0})
	f.Fuzz(func(t *testing.T, limit, queue byte, fair bool, script []byte) {
		p := newPair(t, int(limit%32), int(queue%16), fair)
		for i := 0; i+1 < min(len(script), 2000); i += 2 {
			p.step(script[i], script[i+1])
		}
		p.finish()
	})
}
