package learned

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/internal/terms"
)

// ended is an attempt that has ended, as the naive model keeps it.
type ended struct {
	at   clock.Instant
	took time.Duration
	v    Verdict
}

// watched is the rule of this package, and a naive model beside the Limit that asks it: it
// keeps all attempts, and reckons every window anew.
type watched struct {
	*rule
	t      testing.TB
	all    []ended
	begin  int           // the first of all that is in the window
	since  clock.Instant // when the window began
	due    clock.Instant // when the rule may be asked next
	fresh  bool          // the next Done at or after due begins a window
	moves  int
	judged int
}

func (m *watched) Judge(now clock.Instant, w *Window) (limit, verdict int, settle time.Duration) {
	want := Window{Span: now.Sub(m.since), Limit: m.rule.limit, Late: w.Late}
	for _, e := range m.all[m.begin:] {
		switch e.v {
		case Worked:
			want.Good++
			want.Time += e.took
		case Late:
			want.Time += e.took
			want.Lost += e.took
		case Busy:
			want.Busy++
		case Lacked:
			want.Lack++
		}
	}
	if *w != want || now < m.due {
		m.t.Fatalf("at %v the window is %+v, want %+v, due at %v", now, *w, want, m.due)
	}
	was := m.rule.limit
	limit, verdict, settle = m.rule.Judge(now, w)
	m.judged++
	switch {
	case limit < m.Min || limit > m.Max:
		m.t.Fatalf("at %v the limit is %d, not within %+v", now, limit, m.Bounds)
	case limit > was && m.why == terms.LimitGrew && w.Concurrency() < 0.8*float64(was) && w.Lack == 0:
		m.t.Fatalf("at %v it grew from %d to %d, and %.1f were out", now, was, limit, w.Concurrency())
	case settle < 0:
		m.t.Fatalf("at %v the next window begins %v before", now, -settle)
	}
	switch m.due = now.Add(Every); {
	case limit != was:
		m.moves, m.fresh, m.due = m.moves+1, true, now.Add(max(settle, Every))
	case verdict == Anew:
		m.since, m.begin = now, len(m.all)
	}
	return limit, verdict, settle
}

// note keeps an attempt before the Limit is told of it.
func (m *watched) note(now clock.Instant, took time.Duration, v Verdict) {
	if v == Nothing {
		return
	}
	m.all = append(m.all, ended{now, took, v})
	if m.fresh && now >= m.due {
		m.fresh, m.since, m.begin, m.due = false, now, len(m.all), now.Add(Every)
	}
}

// FuzzLimit runs a Limit beside the naive model, through whatever ends whenever.
func FuzzLimit(f *testing.F) {
	f.Add(uint64(1), uint8(1), uint8(200))
	f.Add(uint64(2), uint8(0), uint8(3))
	f.Add(uint64(3), uint8(40), uint8(0))
	f.Fuzz(func(t *testing.T, seed uint64, least, more uint8) {
		d := rand.New(rand.NewPCG(seed, 0))
		b := Bounds{Min: int(least) + 1, Max: int(least) + 1 + int(more)}
		m := &watched{rule: NewRule(b, 100).(*rule), t: t, fresh: true}
		l := New(0, m, 1)
		now := clock.Instant(0)
		for range 60 { // phases
			gap, took := time.Duration(d.ExpFloat64()*float64(20*ms)), time.Duration(d.ExpFloat64()*float64(300*ms))
			odds := [...]float64{d.Float64(), d.Float64() * d.Float64(), d.Float64() * d.Float64(), d.Float64() * 0.2, d.Float64() * d.Float64() * 0.3}
			for range d.IntN(600) {
				now = now.Add(time.Duration(d.ExpFloat64() * float64(gap)))
				v, took := pick(d, odds), time.Duration(d.ExpFloat64()*float64(took))
				m.note(now, took, v)
				limit, moved := l.Done(now, uint32(d.Uint64()), took, v)
				if l.Limit() != m.rule.limit || moved && limit != l.Limit() {
					t.Fatalf("the limit is %d, the rule says %d, Done says %d", l.Limit(), m.rule.limit, limit)
				}
			}
			if d.IntN(10) == 0 {
				b.Max = b.Min + d.IntN(300)
				if got := l.SetBounds(b); got < b.Min || got > b.Max || got != l.Limit() {
					t.Fatalf("within %+v the limit is %d", b, got)
				}
			}
		}
		if m.moves > m.judged {
			t.Errorf("%d moves of %d questions", m.moves, m.judged)
		}
	})
}

func pick(d *rand.Rand, odds [5]float64) Verdict {
	sum := odds[0] + odds[1] + odds[2] + odds[3] + odds[4]
	u := d.Float64() * sum
	for i, v := range []Verdict{Worked, Late, Busy, Lacked} {
		if u -= odds[i]; u < 0 {
			return v
		}
	}
	return Nothing
}
