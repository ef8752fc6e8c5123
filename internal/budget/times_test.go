package budget

import (
	"testing"

	"github.com/gabion-go/gabion/internal/chance"
	"github.com/gabion-go/gabion/internal/clock"
)

// diary is all that happened to a Window, in order, at times that also go backward.
type diary struct {
	span, slice int64
	newest      int64   // time seen
	calls       []int64 // the newest time at each
	grants      []grant
}

// grant is a re-send. If it was asked for at a time before the newest slice, it is
// at that slice's first instant.
type grant struct {
	at       int64
	token    Reservation
	refunded bool
}

func (d *diary) see(now int64)          { d.newest = max(d.newest, now) }
func (d *diary) sliceOf(at int64) int64 { return floorDiv(at, d.slice) }

// promised fails unless the calls of the span that ends now, and of the slice
// before it, pay for the re-sends of the span.
func (d *diary) promised(t *testing.T, step int, r Rules) {
	t.Helper()
	calls, resends := int64(0), int64(0)
	for _, at := range d.calls {
		if d.sliceOf(at) > d.sliceOf(d.newest)-slices {
			calls++
		}
	}
	for _, g := range d.grants {
		if !g.refunded && g.at > d.newest-d.span {
			resends++
		}
	}
	if resends > r.Allows(calls) {
		t.Fatalf("step %d at %d: %d re-sends for %d calls under %+v", step, d.newest, resends, calls, r)
	}
}

// playTimes runs a script, three bytes a step.
func playTimes(t *testing.T, shards uint8, script []byte) (granted int) {
	w := MakeWindow(7*grain, 1+int(shards)%9)
	d := &diary{span: int64(w.Span()), slice: int64(w.width), newest: -50 * int64(grain)}
	rules := []Rules{{500_000, 3_000}, {0, 5_000}, {100_000, 200_000}, {1_000_000, 0}}
	r := rules[int(shards/16)%len(rules)]
	now := d.newest
	w.Level(clock.Instant(now), r)
	for i := 0; i+2 < len(script); i += 3 {
		verb, shard := script[i+1], uint32(script[i+2])
		switch by := int64(script[i]); {
		case by < 100: // no time passes
		case by < 180:
			now += by * by / 16
		case by < 200:
			now += by * by / 4
		case by < 230:
			now = d.newest - by*by/64
		case by < 245:
			now = d.newest - by*by/8
		default:
			now = d.newest
		}
		at := clock.Instant(now)
		switch {
		case verb < 70:
			d.see(now)
			w.Deposit(at, shard)
			d.calls = append(d.calls, d.newest)
		case verb < 200:
			d.see(now)
			if token, ok := w.TryWithdraw(at, r); ok {
				granted++
				d.grants = append(d.grants, grant{at: max(now, d.sliceOf(d.newest)*d.slice), token: token})
				d.promised(t, i/3, r)
			}
		case verb < 230:
			if n := len(d.grants); n > 0 {
				g := &d.grants[n-1-int(shard)%n]
				if !g.refunded && w.Refund(at, g.token) {
					d.see(now)
					g.refunded = true
				}
			}
		case verb < 250:
			d.see(now)
			w.Level(at, r)
		default:
			r = rules[int(shard)%len(rules)]
		}
	}
	return granted
}

func FuzzTimesKeepThePromise(f *testing.F) {
	f.Fuzz(func(t *testing.T, shards uint8, script []byte) {
		playTimes(t, shards, script[:min(len(script), 1500)])
	})
}

// Whatever the times, also such that go backward: no more is granted than was promised.
func TestTimesKeepThePromise(t *testing.T) {
	granted := 0
	for seed := range uint64(300) {
		script := make([]byte, 1200)
		for i := range script {
			script[i] = byte(chance.Bits(seed, uint64(i), 2, 0) >> 32)
			if i%3 == 0 && seed%3 > 0 { // little time passes
				script[i] = byte(uint(script[i]) * uint(script[i]) / 256)
			}
		}
		granted += playTimes(t, uint8(seed), script)
	}
	if granted < 10_000 {
		t.Errorf("only %d grants", granted)
	}
}
