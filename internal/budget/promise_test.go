package budget

import (
	"math"
	"testing"
	"time"

	"github.com/gabion-go/gabion/internal/chance"
	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/internal/testrace"
)

// history is everything that ever happened to a budget.
type history struct {
	span, slice int64
	rules       Rules
	calls       []int64
	resends     []resend
}

type resend struct {
	at       int64
	token    Reservation
	refunded bool

	forgotten bool
}

// within counts what lies in (now-age, now].
func (h *history) within(now, callAge, resendAge int64) (calls, resends int64) {
	for _, at := range h.calls {
		if at > now-callAge {
			calls++
		}
	}
	for _, r := range h.resends {
		if r.at > now-resendAge && !r.refunded {
			resends++
		}
	}
	return calls, resends
}

// counted recomputes, from the whole history, what a Window says it counts: calls of
// all slices but the oldest and re-sends of all, or none once a span passed since the last grant.
func (h *history) counted(now int64) (calls, resends int64) {
	oldest := (floorDiv(now, h.slice) - slices + 1) * h.slice
	last := int64(math.MinInt64)
	for _, r := range h.resends {
		last = max(last, r.at)
	}
	for i := range h.resends {
		r := &h.resends[i]
		r.forgotten = r.forgotten || now-last >= h.span
		if r.at >= oldest && !r.refunded && !r.forgotten {
			resends++
		}
	}
	for _, at := range h.calls {
		if at >= oldest+h.slice {
			calls++
		}
	}
	return calls, resends
}

func floorDiv(a, b int64) int64 {
	if a < 0 {
		return -((-a + b - 1) / b)
	}
	return a / b
}

// play runs a script, two bytes a step, against a Window and its history.
func play(t *testing.T, span uint16, ratio, floor uint8, script []byte) {
	w := MakeWindow(time.Duration(span%9+7)*grain, 1+int(span/9)%4)
	h := &history{
		span: int64(w.Span()), slice: int64(w.width),
		rules: Rules{int64(ratio) * 20_000, int64(floor) * 100},
	}
	if span&128 != 0 {
		h.rules.FloorMilli *= 40
	}
	now := int64(-30_000)
	for i := 0; i+1 < min(len(script), 800); i += 2 {
		now += int64(script[i]) * int64(script[i]) / 16
		at := clock.Instant(now)
		switch verb := script[i+1] % 8; {
		case verb < 3:
			w.Deposit(at, uint32(script[i+1]))
			h.calls = append(h.calls, now)
		case verb < 7:
			token, ok := w.TryWithdraw(at, h.rules)
			h.counted(now) // the question forgets, in the model too
			h.judge(t, now, ok)
			if ok {
				h.resends = append(h.resends, resend{at: now, token: token})
				h.keep(t, now)
			}
		case len(h.resends) > 0:
			r := &h.resends[len(h.resends)-1-int(script[i+1])/8%len(h.resends)]
			if !r.refunded {
				// It may be refused, but never at another's expense.
				r.refunded = w.Refund(at, r.token)
			}
		}
		if script[i+1]&64 != 0 {
			continue
		}
		calls, resends := w.Counts(at)
		if wantCalls, want := h.counted(now); calls != wantCalls || resends != want {
			t.Fatalf("step %d at %d: counts %d/%d, the history says %d/%d", i/2, now, resends, calls, want, wantCalls)
		}
	}
}

// keep checks the promise at a grant: re-sends of the span that ends here are
// paid for by the calls of that span.
func (h *history) keep(t *testing.T, now int64) {
	t.Helper()
	calls, resends := h.within(now, h.span, h.span)
	if resends*million > h.rules.RatioPPM*calls+h.rules.FloorMilli*1000 {
		t.Fatalf("at %d: %d re-sends for %d calls under %+v", now, resends, calls, h.rules)
	}
	// And in the long run: no call pays twice, no span has two floors.
	calls, resends = h.within(now, math.MaxInt32, math.MaxInt32)
	spans := 1 + (now-h.resends[0].at)/h.span
	if resends*million > h.rules.RatioPPM*calls+h.rules.FloorMilli*1000*spans {
		t.Fatalf("by %d: %d re-sends for %d calls and %d spans under %+v", now, resends, calls, spans, h.rules)
	}
}

// judge checks the other side: a refusal is never stricter than one slice. It
// runs before the answer enters the history.
func (h *history) judge(t *testing.T, now int64, granted bool) {
	t.Helper()
	calls, resends := h.within(now, h.span-h.slice, slices*h.slice)
	if !granted && (resends+1)*million <= h.rules.RatioPPM*calls+h.rules.FloorMilli*1000 {
		t.Fatalf("at %d: refused after %d re-sends for %d calls under %+v", now, resends, calls, h.rules)
	}
}

func FuzzWindowKeepsItsPromise(f *testing.F) {
	f.Add(uint16(0), uint8(50), uint8(10), []byte{0, 3, 0, 3, 255, 3, 100, 0, 9, 7})
	// A refund a span after its grant, when another of the same slice is counted.
	f.Add(uint16(97), uint8(2), uint8(20), []byte("0C0C\xa30\x8f0\xa60\xe800000\xa50x0\xe800?"))
	f.Fuzz(play)
}

func TestRandomScriptsKeepThePromise(t *testing.T) {
	testrace.Serial(t)
	for seed := range uint64(250) {
		script := make([]byte, 800)
		for i := range script {
			script[i] = byte(chance.Bits(seed, uint64(i), 0, 0) >> 32)
			if i%2 == 0 && seed%3 > 0 { // slow time down, so that much falls into a slice
				script[i] >>= 1 + seed%3
			}
		}
		play(t, uint16(seed), uint8(seed%60), uint8(seed%31), script)
	}
}
